// client::wait_ready(): a quorum of the instances is connected, and has a vote.
#include "integration/test_client.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

struct wait {
    wait(client& c, wait_limit limit) {
        c.wait_ready(limit, asio::bind_cancellation_slot(
                                signal.slot(), [this](error e) { result = std::move(e); }));
    }
    bool done() const { return result.has_value(); }
    bool ready() const { return result && !*result; }

    asio::cancellation_signal signal;
    std::optional<error> result;
};

} // namespace

BOOST_AUTO_TEST_SUITE(readiness)

BOOST_AUTO_TEST_CASE(a_client_is_ready_with_a_quorum) {
    fleet servers(3);
    servers.kill(1);
    test_client client(servers);
    wait w(client.locks, no_limit), again(client.locks, wait_for(20s));
    BOOST_TEST(client.until([&] { return w.ready() && again.ready(); }));
    // Then a lock is to be had at once.
    auto [e, l] = client.try_acquire("k");
    BOOST_TEST(!e, e.what());
    wait now(client.locks, try_now);
    BOOST_TEST(client.until([&] { return now.ready(); }));
}

BOOST_AUTO_TEST_CASE(a_client_waits_for_instances_that_come) {
    fleet servers(3);
    servers.kill(2);
    test_client client(servers, hasty());
    wait w(client.locks, no_limit);
    BOOST_TEST(client.goes_down(0, errc::unreachable));
    BOOST_TEST(!w.done());
    servers[0].restart();
    BOOST_TEST(client.until([&] { return w.ready(); }, 20s));
}

BOOST_AUTO_TEST_CASE(at_the_limit_the_report_names_what_is_missing) {
    fleet servers(3);
    servers.kill(2);
    test_client client(servers, hasty());
    for (auto const limit : {try_now, wait_for(300ms)}) {
        wait w(client.locks, limit);
        BOOST_REQUIRE(client.until([&] { return w.done(); }));
        BOOST_TEST((*w.result == error_condition::unavailable), w.result->what());
    }
    wait w(client.locks, wait_for(300ms));
    BOOST_REQUIRE(client.until([&] { return w.done(); }));
    BOOST_TEST((*w.result == errc::unreachable), w.result->what());
    BOOST_TEST(contains(w.result->what(), servers[1].address()), w.result->what());
    BOOST_TEST(w.result->what().starts_with("not ready: 1 of 3 instances is up, 2 are needed: "),
               w.result->what());
    BOOST_REQUIRE(w.result->report() != nullptr);
    BOOST_TEST(w.result->report()->up == 1U);
}

BOOST_AUTO_TEST_CASE(a_permanent_error_of_a_majority_is_told_at_once) {
    fleet servers(3);
    std::vector<address> wrong;
    for (server& each : servers) wrong.emplace_back("redis://app:wrong@" + each.address());
    test_client client(wrong);
    wait w(client.locks, no_limit);
    BOOST_REQUIRE(client.until([&] { return w.done(); }));
    BOOST_TEST((*w.result == errc::access_denied), w.result->what());
}

// An instance that has just started may have forgotten locks. It has no vote yet.
BOOST_AUTO_TEST_CASE(instances_without_a_vote_do_not_count) {
    fleet servers(1);
    auto options = patient();
    options.max_ttl = 3s;
    test_client client(servers, options);
    BOOST_REQUIRE(client.all_up());
    servers[0].restart();
    BOOST_REQUIRE(client.becomes(0, instance_state::quarantined));
    wait now(client.locks, try_now), later(client.locks, no_limit);
    BOOST_REQUIRE(client.until([&] { return now.done(); }));
    BOOST_TEST((*now.result == errc::quarantined), now.result->what());
    BOOST_TEST(client.until([&] { return later.ready(); }));
    BOOST_TEST((client.status(0).state == instance_state::up));
}

BOOST_AUTO_TEST_CASE(a_wait_ends_with_the_client_and_when_it_is_cancelled) {
    fleet servers(3);
    servers.kill(2);
    test_client client(servers, hasty());
    wait cancelled(client.locks, no_limit), over(client.locks, wait_for(1h));
    client.context.poll();
    cancelled.signal.emit(asio::cancellation_type::total);
    BOOST_REQUIRE(client.until([&] { return cancelled.done(); }));
    BOOST_TEST((*cancelled.result == errc::cancelled));
    BOOST_TEST(!over.done());
    client.locks.close();
    BOOST_REQUIRE(client.until([&] { return over.done(); }));
    BOOST_TEST((*over.result == errc::shut_down));
    wait late(client.locks, try_now);
    BOOST_REQUIRE(client.until([&] { return late.done(); }));
    BOOST_TEST((*late.result == errc::shut_down));
}

BOOST_AUTO_TEST_SUITE_END()
