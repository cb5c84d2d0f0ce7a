// The report on a failed acquire, built from votes and states.
#include "runtime/services/report_builder.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <vector>

using namespace holdfast;
using namespace holdfast::runtime;
using namespace std::chrono_literals;
using protocol::instance_set;
using protocol::tally;
using protocol::verdict;

namespace {

std::vector<instance_snapshot> instances_up(unsigned count) {
    std::vector<instance_snapshot> all(count);
    for (unsigned i = 0; i < count; ++i) {
        all[i].status.address = "server-" + std::to_string(i);
        all[i].status.state = instance_state::up;
    }
    return all;
}

/// A round to all instances: instance i has the vote votes[i].
round_record round_of(std::vector<verdict> const& votes) {
    auto const count = static_cast<unsigned>(votes.size());
    round_record r;
    r.votes = tally(count, count / 2 + 1, instance_set::first(count));
    for (unsigned i = 0; i < count; ++i) r.votes.count(i, votes[i]);
    return r;
}

} // namespace

BOOST_AUTO_TEST_SUITE(report_builder)

BOOST_AUTO_TEST_CASE(says_what_each_instance_said) {
    auto round = round_of({verdict::yes, verdict::no, verdict::unsent});
    round.record(1, 3) = {.noted = true,
                          .held = true,
                          .ttl_known = true,
                          .ttl_left = 800ms,
                          .round_trip = 3ms,
                          .message = {},
                          .holder = "worker-7"};
    auto instances = instances_up(3);
    instances[2].status.state = instance_state::down;
    instances[2].cause = errc::unreachable;
    BOOST_TEST(!needs_message(round, 0));
    BOOST_TEST(!needs_message(round, 1));
    BOOST_TEST(needs_message(round, 2));
    instances[2].message = "connection refused";

    auto const r = build_report({.key = "seat:7",
                                 .attempts = 4,
                                 .waited = 20ms,
                                 .asked = {},
                                 .round = round,
                                 .instances = instances});

    BOOST_TEST(r.key == "seat:7");
    BOOST_TEST(r.quorum == 2U);
    BOOST_TEST(r.up == 2U);
    BOOST_TEST(r.attempts == 4U);
    BOOST_CHECK(r.waited == 20ms);
    BOOST_TEST(r.holder == "worker-7");
    BOOST_REQUIRE(r.instances.size() == 3U);
    BOOST_CHECK(r.instances[0].outcome == instance_outcome::granted);
    BOOST_TEST(r.instances[0].address == "server-0");
    BOOST_CHECK(r.instances[1].outcome == instance_outcome::held);
    BOOST_CHECK(r.instances[1].ttl_left == 800ms);
    BOOST_CHECK(r.instances[1].round_trip == 3ms);
    BOOST_CHECK(r.instances[2].outcome == instance_outcome::unreachable);
    BOOST_TEST(r.instances[2].message == "connection refused");
}

BOOST_AUTO_TEST_CASE(this_client_may_have_the_key_itself) {
    auto round = round_of({verdict::no, verdict::no, verdict::no});
    auto instances = instances_up(3);
    own_tenure const own{.instances = instance_set::first(2), .left = 700ms};

    auto const r = build_report(
        {.key = "k", .asked = {}, .held_here = own, .round = round, .instances = instances});

    BOOST_TEST(r.holder == "this client");
    BOOST_CHECK(r.instances[1].outcome == instance_outcome::held);
    BOOST_CHECK(r.instances[1].ttl_left == 700ms);
    BOOST_TEST(r.instances[1].holder == "this client");
    BOOST_CHECK(r.instances[2].outcome == instance_outcome::not_needed);
}

BOOST_AUTO_TEST_CASE(an_instance_that_connects_may_have_been_asked) {
    round_record round;
    round.votes = tally(3, 2, instance_set::first(2));
    auto instances = instances_up(3);
    for (auto const i : {1U, 2U}) instances[i].status.state = instance_state::connecting;
    auto const r = build_report({.key = "k", .asked = {}, .round = round, .instances = instances});
    BOOST_CHECK(r.instances[1].outcome == instance_outcome::unanswered);
    BOOST_CHECK(r.instances[2].outcome == instance_outcome::unreachable);
}

BOOST_AUTO_TEST_CASE(an_adoption_tells_which_instances_do_not_have_the_lease) {
    round_record round;
    round.votes = tally(3, 2, instance_set::first(3));
    for (auto const i : {0U, 1U}) {
        round.votes.count(i, verdict::no);
        round.note(i, 3, {.verdict = verdict::no}, {});
    }
    round.votes.count(2, verdict::yes);
    auto instances = instances_up(3);
    auto const r = build_report(
        {.key = "k", .adopts = true, .asked = {}, .round = round, .instances = instances});
    BOOST_CHECK(r.instances[0].outcome == instance_outcome::missing);
    BOOST_CHECK(r.instances[1].outcome == instance_outcome::missing);
    BOOST_CHECK(r.instances[2].outcome == instance_outcome::done);
}

BOOST_AUTO_TEST_CASE(an_instance_without_a_vote) {
    round_record const round; // no instance was asked
    auto instances = instances_up(6);
    instances[1].status.state = instance_state::connecting;
    instances[2].status.state = instance_state::suspect;
    instances[2].status.message = "silent for 50 ms";
    instances[2].cause = errc::instance_timeout;
    instances[3].status.state = instance_state::quarantined;
    instances[3].cause = errc::quarantined;
    instances[5].status.state = instance_state::unreplicated;
    instances[5].status.message = "0 of 1 replica online";
    instances[5].cause = errc::too_few_replicas;

    auto const r = build_report(
        {.key = "k", .asked = instance_set::only(4), .round = round, .instances = instances});

    BOOST_CHECK(r.instances[0].outcome == instance_outcome::not_needed);
    BOOST_CHECK(r.instances[1].outcome == instance_outcome::unreachable); // never asked
    BOOST_CHECK(r.instances[2].outcome == instance_outcome::timed_out);
    BOOST_TEST(r.instances[2].message == "silent for 50 ms");
    BOOST_CHECK(r.instances[3].outcome == instance_outcome::quarantined);
    BOOST_CHECK(r.instances[4].outcome == instance_outcome::unanswered);
    BOOST_CHECK(r.instances[5].outcome == instance_outcome::unreplicated);
    BOOST_TEST(r.instances[5].message == "0 of 1 replica online");
    BOOST_TEST(r.up == 2U);
    BOOST_TEST(r.quorum == 4U);
}

BOOST_AUTO_TEST_CASE(the_cause_is_the_one_that_all_failures_share) {
    auto round = round_of({verdict::yes, verdict::unsent, verdict::unsent});
    std::array causes{errc{}, errc::instance_timeout, errc::instance_timeout};
    BOOST_CHECK(common_cause(round, causes) == errc::instance_timeout);

    causes[2] = errc{}; // connected again; at the time of the round it was not
    BOOST_CHECK(common_cause(round, causes) == errc::no_quorum);
    causes[1] = errc{};
    BOOST_CHECK(common_cause(round, causes) == errc::unreachable);

    // The error of an instance to the command counts more than its state.
    round.record(1, 3).cause = errc::access_denied;
    round.record(2, 3).cause = errc::access_denied;
    BOOST_CHECK(common_cause(round, causes) == errc::access_denied);

    BOOST_CHECK(common_cause(round_of({verdict::no, verdict::no}), causes) == errc::no_quorum);
}

BOOST_AUTO_TEST_CASE(a_refused_command_is_not_silence) {
    auto round = round_of({verdict::yes, verdict::unsent, verdict::refused});
    BOOST_TEST(!refused_command(round));
    round.record(1, 3).cause = errc::instance_timeout;
    BOOST_TEST(!refused_command(round));
    round.record(2, 3).cause = errc::access_denied;
    BOOST_TEST(refused_command(round));
}

BOOST_AUTO_TEST_CASE(permanent_errors_rule_out_a_quorum_only_if_they_are_enough) {
    auto round = round_of({verdict::refused, verdict::unsent, verdict::unsent});
    std::array causes{errc{}, errc::unreachable, errc::access_denied};
    round.record(0, 3);
    for (auto const permanent : {errc::access_denied, errc::not_redis, errc::wrong_type,
                                 errc::duplicate_instance, errc::invalid_fence, errc::rejected}) {
        round.instances[0].cause = permanent;
        BOOST_TEST(fails_permanently(round, causes), make_error_code(permanent).message());
    }
    for (auto const passing :
         {errc::unreachable, errc::instance_timeout, errc::read_only, errc::quarantined,
          errc::too_few_replicas, errc::no_sentinel_majority, errc::out_of_memory}) {
        round.instances[0].cause = passing;
        BOOST_TEST(!fails_permanently(round, causes), make_error_code(passing).message());
    }
}

BOOST_AUTO_TEST_SUITE_END()
