// Many calls and drops at one moment. They hold up no other work.
#include "integration/nothing_left.hpp"
#include "integration/test_client.hpp"
#include "support/heap.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

#ifdef HOLDFAST_TEST_SANITIZED
constexpr std::size_t many = 5'000;
#else
constexpr std::size_t many = 100'000;
#endif

std::vector<lease> hold_many(test_client& client, std::size_t count) {
    std::vector<lease> held;
    held.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        client.locks.make_lock("key:" + std::to_string(i), long_lived).acquire([&](error, lease l) {
            held.push_back(std::move(l));
        });
    }
    BOOST_REQUIRE(client.until([&] { return held.size() == count; }, 120s));
    BOOST_REQUIRE(client.locks.stats().acquire_failed == 0U);
    return held;
}

} // namespace

BOOST_AUTO_TEST_SUITE(bursts)

BOOST_AUTO_TEST_CASE(a_burst_of_drops_holds_up_nobody) {
    fleet servers(1);
    test_client client(servers, without_questions());
    auto leases = hold_many(client, many);
    auto const before = client.locks.stats().commands;
    auto const all_sent = [&] { return client.locks.stats().commands - before >= many; };
    leases.clear();
    BOOST_TEST(client.locks.stats().held == 0U); // no handle refers to a lease
    // Each of these runs while most of the leases wait for their release.
    auto posted = false, expired = false, acquired = false;
    asio::post(client.context, [&] {
        BOOST_TEST(!all_sent());
        posted = true;
    });
    asio::steady_timer timer(client.context, 0s);
    timer.async_wait([&](boost::system::error_code) {
        BOOST_TEST(!all_sent());
        expired = true;
    });
    client.locks.make_lock("other", long_lived).acquire([&](error e, lease) {
        BOOST_TEST(!e, e.what());
        BOOST_TEST(!all_sent());
        acquired = true;
    });
    BOOST_TEST(client.until([&] { return posted && expired && acquired; }));
    check_nothing_left(client, servers);
    BOOST_TEST(client.locks.stats().lost == 0U);
    BOOST_TEST(client.until([&] { return client.locks.stats().released == many + 1; }));
}

BOOST_AUTO_TEST_CASE(a_burst_of_calls_holds_up_nobody) {
    fleet servers(1);
    test_client client(servers, without_questions());
    BOOST_REQUIRE(client.all_up());
    auto const before = client.locks.stats().commands;
    auto const all_sent = [&] { return client.locks.stats().commands - before >= 1'000; };
    auto posted = false;
    std::vector<lease> held;
    for (auto i = 0; i < 1'000; ++i) {
        client.locks.make_lock("key:" + std::to_string(i), long_lived).acquire([&](error, lease l) {
            held.push_back(std::move(l));
        });
    }
    asio::post(client.context, [&] {
        BOOST_TEST(!all_sent());
        posted = true;
    });
    BOOST_TEST(client.until([&] { return posted && held.size() == 1'000; }));
    // A burst of cancellations does not block other work either.
    std::vector<asio::cancellation_signal> signals(1'000);
    std::size_t cancelled = 0;
    for (auto& s : signals) {
        client.locks.make_lock("key:0", long_lived)
            .acquire(asio::bind_cancellation_slot(s.slot(), [&](error e, lease) {
                if (e == errc::cancelled) ++cancelled;
            }));
    }
    BOOST_REQUIRE(client.until([&] { return client.locks.stats().waiters == 1'000; }));
    for (auto& s : signals) s.emit(asio::cancellation_type::terminal);
    asio::post(client.context, [&] { BOOST_TEST(client.locks.stats().waiters > 0U); });
    BOOST_TEST(client.until([&] { return cancelled == 1'000; }));
}

// The key is free at once, however many dropped leases wait for their release.
BOOST_AUTO_TEST_CASE(a_client_that_drops_a_lease_finds_its_key_free) {
    fleet servers(3);
    test_client client(servers);
    auto leases = hold_many(client, 500);
    leases.clear();
    auto [e, again] = client.try_acquire("key:499");
    BOOST_TEST(!e, e.what());
    BOOST_TEST(again.held());
    // The same holds for the last share of a lease.
    auto shared = client.hold("shared");
    auto other = shared.share();
    leases = hold_many(client, 400);
    leases.clear();
    shared = {};
    other = {};
    auto [e2, after] = client.try_acquire("shared");
    BOOST_TEST(!e2, e2.what());
    BOOST_TEST(client.until([&] { return client.locks.stats().held == 2; }));
}

BOOST_AUTO_TEST_CASE(leases_dropped_before_a_shutdown_are_released_and_not_lost) {
    fleet servers(1);
    test_client client(servers);
    auto leases = hold_many(client, 500);
    leases.clear();
    auto shut = false;
    client.locks.shutdown([&](error) { shut = true; });
    BOOST_TEST(client.until([&] { return shut; }));
    BOOST_TEST(client.locks.stats().released == 500U);
    BOOST_TEST(client.locks.stats().lost == 0U);
    check_nothing_left(servers);
}

#ifndef HOLDFAST_TEST_SANITIZED
// A sanitizer keeps memory for itself. The client gives back half of it after some periods of 10 s.
BOOST_AUTO_TEST_CASE(the_memory_of_a_burst_goes_back_to_the_system) {
    fleet servers(1);
    test_client client(servers, without_questions());
    hold_many(client, 2'000).clear();
    BOOST_REQUIRE(client.idle());
    auto const before = resident_bytes();
    auto leases = hold_many(client, many);
    auto const peak = resident_bytes();
    std::vector<lease>().swap(leases);
    BOOST_REQUIRE(client.idle());
    BOOST_TEST(client.until([&] { return resident_bytes() < before + (peak - before) / 2; }, 120s));
    BOOST_TEST_MESSAGE("resident: " << before << ", at the peak " << peak << ", then "
                                    << resident_bytes());
    check_nothing_left(client, servers);
}
#endif

BOOST_AUTO_TEST_SUITE_END()
