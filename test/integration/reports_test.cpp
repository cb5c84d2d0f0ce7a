// Reports of failed acquires: the holder, and the answer of each instance.
#include "integration/attempt.hpp"
#include "integration/foreign_client.hpp"
#include "integration/proxied_client.hpp"
#include "integration/test_client.hpp"

#include <boost/asio/cancellation_type.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

constexpr std::string_view this_client = "this client";

} // namespace

BOOST_AUTO_TEST_SUITE(reports)

BOOST_AUTO_TEST_CASE(a_cancelled_wait_reports_the_holder) {
    fleet servers(5);
    test_client client(servers);
    test_client other(servers);
    BOOST_REQUIRE(client.all_up());
    auto held = other.hold("k");
    BOOST_REQUIRE(other.sees(servers, "k", true)); // on all instances, not only on a quorum
    attempt c;
    c.start(client.locks.make_lock("k", long_lived));
    BOOST_REQUIRE(client.until([&] { return client.locks.stats().waiters == 1; }));
    c.signal.emit(asio::cancellation_type::terminal);
    BOOST_REQUIRE(client.until([&] { return c.done; }));
    BOOST_TEST((c.how == errc::cancelled), c.how.what());
    auto const* const report = c.how.report();
    BOOST_REQUIRE(report != nullptr);
    BOOST_TEST(report->key == "k");
    BOOST_TEST(report->attempts >= 1U);
    BOOST_TEST(report->up == 5U);
    auto const seen_held =
        std::count_if(report->instances.begin(), report->instances.end(),
                      [](auto const& i) { return i.outcome == instance_outcome::held; });
    BOOST_TEST(seen_held >= 3);
    for (auto const& i : report->instances) {
        BOOST_TEST(
            (i.outcome == instance_outcome::held || i.outcome == instance_outcome::not_needed),
            c.how.what());
    }
    BOOST_TEST(c.how.what().starts_with("lock \"k\" not acquired: held"), c.how.what());
    // The holder belongs to the same client.
    auto own = client.hold("own");
    attempt behind;
    behind.start(client.locks.make_lock("own", long_lived));
    BOOST_REQUIRE(client.until([&] { return client.locks.stats().waiters == 1; }));
    behind.signal.emit(asio::cancellation_type::terminal);
    BOOST_REQUIRE(client.until([&] { return behind.done; }));
    BOOST_REQUIRE(behind.how.report() != nullptr);
    BOOST_TEST(behind.how.report()->holder == "this client");
    BOOST_TEST(client.releases(own));
    BOOST_TEST(other.releases(held));
}

// Three of five instances are down. The report must not blame the other two.
BOOST_AUTO_TEST_CASE(a_report_counts_the_instances_that_are_up) {
    fleet servers(5);
    test_client client(servers, hasty());
    BOOST_REQUIRE(client.all_up());
    servers.kill(3);
    for (std::size_t i = 0; i < 3; ++i) BOOST_REQUIRE(client.goes_down(i, errc::unreachable));
    auto const e = client.acquire("k").first;
    BOOST_TEST((e == error_condition::unavailable), e.what());
    BOOST_REQUIRE(e.report() != nullptr);
    auto const& report = *e.report();
    BOOST_TEST(report.up == 2U);
    BOOST_TEST(e.what().starts_with("lock \"k\" not acquired: 2 of 5 instances are up, 3 are "),
               e.what());
    for (std::size_t i = 0; i < 5; ++i) {
        BOOST_TEST((report.instances.at(i).outcome ==
                    (i < 3 ? instance_outcome::unreachable : instance_outcome::not_needed)),
                   e.what());
    }
}

// A silent instance is neither unreachable nor `not_needed`, as the client waits for it.
BOOST_AUTO_TEST_CASE(an_instance_that_was_asked_and_is_silent_is_unanswered) {
    proxied_client setup;
    setup.proxies.hold_replies();
    attempt c;
    c.start_for(setup.client.locks.make_lock("k", long_lived), 30ms);
    BOOST_REQUIRE(setup.client.until([&] { return c.done; }));
    BOOST_REQUIRE(c.how.report() != nullptr);
    for (auto const& i : c.how.report()->instances) {
        BOOST_TEST((i.outcome == instance_outcome::unanswered), c.how.what());
    }
    setup.proxies.resume();
}

// A try at the arbiter asks no other instance. The report shows the answers of the last round to
// all.
BOOST_AUTO_TEST_CASE(a_try_at_the_arbiter_makes_no_instance_unreachable) {
    proxied_client setup;
    for (std::size_t i : {0U, 1U}) redis_cli(setup.servers[i]).set("k", "foreign", 60s);
    attempt c;
    c.start(setup.client.locks.make_lock("k", long_lived));
    // The arbiter is one of the instances that have the key.
    BOOST_REQUIRE(setup.client.until([&] {
        auto const asked = tracking_instances(setup.servers);
        return std::any_of(asked.begin(), asked.end(), [](std::size_t i) { return i < 2; });
    }));
    auto const rounds = setup.client.locks.stats().rounds;
    setup.proxies.hold_requests();
    // The change of the key wakes the waiter.
    for (std::size_t i : {0U, 1U}) redis_cli(setup.servers[i]).set("k", "another", 60s);
    BOOST_REQUIRE(setup.client.until([&] { return setup.client.locks.stats().rounds > rounds; }));
    c.signal.emit(asio::cancellation_type::terminal);
    BOOST_REQUIRE(setup.client.until([&] { return c.done; }));
    BOOST_TEST((c.how == errc::cancelled), c.how.what());
    BOOST_REQUIRE(c.how.report() != nullptr);
    // The last round to all may have ended before all answers came.
    auto const& all = c.how.report()->instances;
    BOOST_TEST((all.at(0).outcome == instance_outcome::held ||
                all.at(1).outcome == instance_outcome::held),
               c.how.what());
    for (auto const& i : all)
        BOOST_TEST((i.outcome != instance_outcome::unreachable), c.how.what());
    setup.proxies.resume();
}

//
// Refusals
//

BOOST_AUTO_TEST_CASE(a_refusal_names_the_holder_and_not_its_token) {
    with_fleets_of({1, 3, 5}, [](fleet& servers) {
        auto options = patient();
        options.holder_label = "worker-7";
        test_client labelled(servers, options);
        test_client client(servers);
        auto held = labelled.hold("k");
        BOOST_REQUIRE(labelled.sees(servers, "k", true));
        std::vector<std::string> secrets;
        for (server& instance : servers) {
            auto const token = redis_cli(instance).get("k").value_or("");
            BOOST_REQUIRE(token.rfind("worker-7:", 0) == 0U);
            secrets.push_back(token.substr(9));
            BOOST_TEST(secrets.back().size() == 32U);
        }
        // An instance that is late names nobody.
        std::size_t named = 0;
        for (int tries = 0; tries < 20 && named < servers.quorum(); ++tries) {
            auto const [e, none] = client.try_acquire("k");
            BOOST_TEST((e == errc::contended), e.what());
            BOOST_REQUIRE(e.report() != nullptr);
            BOOST_TEST(e.report()->holder == "worker-7");
            auto const& all = e.report()->instances;
            named = static_cast<std::size_t>(std::count_if(
                all.begin(), all.end(), [](auto const& i) { return i.holder == "worker-7"; }));
            BOOST_TEST(e.what().find("worker-7") != std::string::npos, e.what());
            for (auto const& secret : secrets)
                BOOST_TEST(e.what().find(secret) == std::string::npos, e.what());
        }
        BOOST_TEST(named >= servers.quorum());
        BOOST_TEST(labelled.releases(held));
    });
}

BOOST_AUTO_TEST_CASE(a_refusal_by_our_own_client_says_so_without_asking_a_server) {
    fleet servers(3);
    test_client client(servers);
    auto held = client.hold("k");
    BOOST_REQUIRE(client.sees(servers, "k", true));
    auto const before = client.locks.stats().rounds;
    auto const [e, none] = client.try_acquire("k");
    BOOST_TEST((e == errc::contended), e.what());
    BOOST_TEST(client.locks.stats().rounds == before);
    BOOST_REQUIRE(e.report() != nullptr);
    BOOST_TEST(e.report()->holder == this_client);
    BOOST_TEST(e.what().find(this_client) != std::string::npos, e.what());
    BOOST_TEST(client.releases(held));
}

BOOST_AUTO_TEST_CASE(a_refusal_does_not_tell_the_value_of_a_foreign_key) {
    fleet servers(3);
    foreign_client foreign(servers);
    foreign.hold("k");
    test_client client(servers);
    auto const [e, none] = client.try_acquire("k");
    BOOST_TEST((e == errc::contended), e.what());
    BOOST_REQUIRE(e.report() != nullptr);
    BOOST_TEST(e.report()->holder.empty());
    BOOST_TEST(e.what().find(foreign_client::token) == std::string::npos, e.what());
}

BOOST_AUTO_TEST_SUITE_END()
