// The findings of `holdfast doctor`.
#include <holdfast/error.hpp>

#include "command/diagnosis.hpp"
#include "support/text.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::command;
using namespace std::chrono_literals;
using holdfast::test::contains;

namespace {

instance_status good(std::string address) {
    instance_status s;
    s.address = std::move(address);
    s.state = instance_state::up;
    s.server = "valkey 9.1.2";
    s.durable = true;
    s.clock_offset = 2ms;
    s.round_trips.counts[3] = 4;
    s.round_trips.sum = 2ms;
    return s;
}

std::vector<instance_status> three() {
    return {good("a:1"), good("b:2"), good("c:3")};
}

std::vector<finding> found(std::vector<instance_status> const& all,
                           std::vector<failed_trial> const& t = {}) {
    return diagnose(all, t, 10s);
}

/// The only finding.
finding only(std::vector<instance_status> const& all, std::vector<failed_trial> const& t = {}) {
    auto const findings = found(all, t);
    BOOST_REQUIRE(findings.size() == 1U);
    return findings[0];
}

void check(finding const& f, severity level, std::string_view about, std::string_view text) {
    BOOST_TEST((f.level == level), f.text);
    BOOST_TEST(f.about == about);
    BOOST_TEST(contains(f.text, text), f.text);
}

} // namespace

BOOST_AUTO_TEST_SUITE(diagnosis)

BOOST_AUTO_TEST_CASE(three_good_servers_are_well) {
    BOOST_TEST(found(three()).empty());
}

BOOST_AUTO_TEST_CASE(an_instance_without_a_reason_is_not_said_to_have_succeeded) {
    auto all = three();
    all[1].state = instance_state::connecting;
    check(only(all), severity::fault, "b:2", "is connecting: it has not answered yet");
}

BOOST_AUTO_TEST_CASE(advice_is_about_the_degradation) {
    auto all = three();
    all[1].degradations = {{degradation::clocks_apart, "b and c differ by 3 s"}};
    BOOST_TEST(contains(only(all).advice, "NTP"));
    all[1].degradations = {{degradation::no_clock_check, "TIME"}};
    BOOST_TEST(contains(only(all).advice, "rights"));
}

BOOST_AUTO_TEST_CASE(an_instance_that_is_not_up_is_a_fault) {
    auto all = three();
    all[1].state = instance_state::down;
    all[1].reason = make_error_code(errc::duplicate_instance);
    all[1].message = "the server of a:1";
    auto const f = only(all);
    check(f, severity::fault, "b:2", "is down: the server of a:1");
    BOOST_TEST(contains(f.advice, "a server of its own"), f.advice);
    all[1].reason = make_error_code(errc::read_only);
    BOOST_TEST(contains(only(all).advice, "primary"), only(all).advice);
    all[1].reason = make_error_code(errc::access_denied);
    BOOST_TEST(contains(only(all).advice, "ACL"), only(all).advice);
    all[1].state = instance_state::suspect;
    check(only(all), severity::fault, "b:2", "is suspect");
    all[1].state = instance_state::unreplicated;
    check(only(all), severity::fault, "b:2", "lacks replicas");
    all[1].state = instance_state::quarantined;
    check(only(all), severity::warning, "b:2", "has no vote for now");
}

BOOST_AUTO_TEST_CASE(too_few_instances_come_first) {
    auto all = three();
    all[0].state = all[2].state = instance_state::down;
    auto const findings = found(all);
    BOOST_REQUIRE(findings.size() == 3U);
    check(findings[0], severity::fault, "", "no lock can be acquired: 1 of 3 instances are up");
}

BOOST_AUTO_TEST_CASE(an_even_number_is_a_risk_and_one_is_noted) {
    auto all = three();
    all.push_back(good("d:4"));
    check(only(all), severity::warning, "", "4 survive as many failures as 3");
    check(only({good("a:1")}), severity::note, "", "one instance");
}

BOOST_AUTO_TEST_CASE(missing_services_are_told_with_the_command) {
    auto all = three();
    all[2].degradations = {{.kind = degradation::no_push, .message = "CLIENT TRACKING: NOPERM"}};
    check(only(all), severity::warning, "c:3", "CLIENT TRACKING: NOPERM");
    all[2].degradations[0].kind = degradation::no_release;
    check(only(all), severity::fault, "c:3", "no release");
}

BOOST_AUTO_TEST_CASE(nodes_of_a_cluster_are_checked_too) {
    auto cluster = good("redis+cluster://a:1");
    cluster.durable.reset();
    cluster.nodes = {good("a:1"), good("b:2")};
    cluster.nodes[1].state = instance_state::down;
    cluster.nodes[1].message = "refused";
    auto const findings = found({cluster});
    BOOST_REQUIRE(findings.size() == 2U);
    check(findings[0], severity::fault, "b:2", "is down: refused");
}

BOOST_AUTO_TEST_CASE(clocks_that_are_apart_are_a_risk) {
    auto all = three();
    all[0].clock_offset = -80ms;
    all[2].clock_offset = 30ms;
    check(only(all), severity::warning, "c:3", "110.0 ms ahead of that of a:1");
    all[0].clock_offset = 0ms;
    BOOST_TEST(found(all).empty());
    // All alike, and unlike this machine: a note.
    for (auto& s : all) s.clock_offset = -5s;
    check(only(all), severity::note, "", "differs from those of the servers by 5.0 s");
    for (auto& s : all) s.clock_offset.reset();
    BOOST_TEST(found(all).empty());
}

BOOST_AUTO_TEST_CASE(slow_round_trips_are_compared_with_the_ttl) {
    auto all = three();
    all[1].round_trips.sum = 4 * 1'100ms;
    check(only(all), severity::warning, "b:2", "a round trip takes 1.1 s");
    all[1].round_trips.sum = 4 * 900ms;
    BOOST_TEST(found(all).empty());
}

BOOST_AUTO_TEST_CASE(settings_of_servers_are_noted) {
    auto all = three();
    all[0].durable = false;
    check(only(all), severity::note, "a:1", "a restart forgets locks");
    all[0] = good("a:1");
    all[0].server = "redis 7.0.15";
    check(only(all), severity::note, "", "redis 7.0.15, valkey 9.1.2");
    all[0] = good("a:1");
    all[0].tls = "TLS 1.3, certificate not verified";
    check(only(all), severity::warning, "a:1", "TLS without verification");
    all[0].tls = "TLS 1.3, session resumed";
    BOOST_TEST(found(all).empty());
    all[0].tls_problem = "ca.pem: no such file";
    check(only(all), severity::warning, "a:1", "ca.pem: no such file");
}

BOOST_AUTO_TEST_CASE(a_lock_that_could_not_be_had_is_a_fault) {
    check(only(three(), {{"", "the instance denies access"}}), severity::fault, "",
          "a lock was tried, and failed: the instance denies access");
    check(only(three(), {{"b:2", "the instance rejects the command"}}), severity::fault, "b:2",
          "a lock was tried there alone, and failed: the instance rejects the command");
}

//
// How long a command waits for votes
//

namespace {

constexpr lease_clock::time_point moment{1h};

instance_status without_vote(lease_clock::time_point until) {
    auto s = good("q:1");
    s.state = instance_state::quarantined;
    s.quarantined_until = until;
    return s;
}

} // namespace

BOOST_AUTO_TEST_CASE(a_command_waits_for_the_first_vote_that_comes_back) {
    BOOST_TEST((next_vote({without_vote(moment + 3s), without_vote(moment + 2s), good("c:3")},
                          moment) == moment + 2s));
    BOOST_TEST((next_vote({without_vote(lease_clock::time_point::max()), without_vote(moment + 5s),
                           good("c:3")},
                          moment) == moment + 5s));
}

// A slow process looks at the states after the quarantines that refused it have ended.
BOOST_AUTO_TEST_CASE(a_command_tries_again_if_the_votes_are_back_when_it_looks) {
    BOOST_TEST((next_vote(three(), moment) == moment));
    // The states are not up to date yet.
    BOOST_TEST((next_vote({without_vote(moment), without_vote(moment - 1ms), good("c:3")},
                          moment) == moment));
    BOOST_TEST((next_vote({without_vote(lease_clock::time_point::max()), good("b:2"), good("c:3")},
                          moment) == moment));
}

BOOST_AUTO_TEST_CASE(a_command_does_not_wait_for_votes_that_never_come_back) {
    auto const never = lease_clock::time_point::max();
    BOOST_TEST(!next_vote({without_vote(never), without_vote(never), good("c:3")}, moment));
}

BOOST_AUTO_TEST_SUITE_END()
