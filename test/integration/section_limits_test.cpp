// Sections that wait for their lock for a limited time, and then work for as long as they need; and
// sections of a lease that is held already.
#include "integration/foreign_client.hpp"
#include "integration/sections.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <utility>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

/// Returns its value once `go_on` is set.
struct held_body {
    asio::awaitable<int> operator()(lease& l) const {
        entered = true;
        while (!go_on) {
            asio::steady_timer pause(co_await asio::this_coro::executor, 1ms);
            co_await pause.async_wait(asio::deferred);
        }
        holds = l.held();
        co_return 7;
    }
    bool &entered, &go_on, &holds;
};

struct section_run {
    bool entered = false, go_on = false, holds = false;
    held_body body{entered, go_on, holds};
    ending end;
};

} // namespace

BOOST_AUTO_TEST_SUITE(section_limits)

BOOST_AUTO_TEST_CASE(a_section_tries_once_and_tells_a_held_lock_from_an_outage) {
    fleet servers(3);
    test_client client(servers, hasty()), other(servers);
    auto held = other.hold("k");
    section_run s;
    with_lock(client.locks.make_lock("k"), try_now, s.body, s.end.take());
    BOOST_REQUIRE(client.until([&] { return s.end.done; }));
    BOOST_TEST((s.end.code() == errc::contended), s.end.code().message());
    BOOST_TEST(!s.entered);
    servers.kill(2);
    section_run down;
    with_lock(client.locks.make_lock("k"), try_now, down.body, down.end.take());
    BOOST_REQUIRE(client.until([&] { return down.end.done; }));
    BOOST_TEST((down.end.code() == error_condition::unavailable), down.end.code().message());
    BOOST_TEST(!down.entered);
    other.locks.close();
}

BOOST_AUTO_TEST_CASE(a_section_waits_no_longer_than_its_limit) {
    fleet servers(3);
    test_client client(servers), other(servers);
    auto held = other.hold("k");
    BOOST_REQUIRE(client.all_up());
    section_run s;
    with_lock(client.locks.make_lock("k"), wait_for(300ms), s.body, s.end.take());
    BOOST_REQUIRE(client.until([&] { return s.end.done; }));
    BOOST_TEST((s.end.code() == errc::wait_timeout), s.end.code().message());
    BOOST_TEST(!s.entered);
    other.runs_with(client);
    BOOST_TEST(other.releases(held));
    BOOST_TEST(client.idle());
}

BOOST_AUTO_TEST_CASE(the_limit_does_not_count_for_the_body) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    section_run s;
    constexpr auto limit = 500ms;
    with_lock(client.locks.make_lock("k"), wait_for(limit), s.body, s.end.take());
    BOOST_REQUIRE(client.until([&] { return s.entered; }));
    client.pass(lease_clock::now() + 2 * limit);
    BOOST_TEST(!s.end.done);
    s.go_on = true;
    BOOST_REQUIRE(client.until([&] { return s.end.done; }));
    BOOST_TEST(!s.end.thrown);
    BOOST_TEST(s.end.value == 7);
    BOOST_TEST(s.holds);
    BOOST_TEST(given_back(servers));
}

BOOST_AUTO_TEST_CASE(a_section_with_a_limit_gets_the_lock_that_comes_free) {
    fleet servers(3);
    test_client client(servers), other(servers);
    client.runs_with(other);
    auto held = other.hold("k");
    section_run s;
    s.go_on = true;
    with_lock(client.locks.make_lock("k"), wait_for(20s), s.body, s.end.take());
    BOOST_REQUIRE(client.until([&] { return client.locks.stats().waiters == 1; }));
    held = lease();
    BOOST_REQUIRE(client.until([&] { return s.end.done; }));
    BOOST_TEST(s.end.value == 7);
}

//
// Of a lease that is held
//

BOOST_AUTO_TEST_CASE(a_section_of_a_lease_releases_it) {
    fleet servers(3);
    test_client client(servers);
    section_run s;
    s.go_on = true;
    with_lease(client.hold("k"), s.body, s.end.take());
    BOOST_REQUIRE(client.until([&] { return s.end.done; }));
    BOOST_TEST(!s.end.thrown);
    BOOST_TEST(s.end.value == 7);
    BOOST_TEST(s.holds);
    BOOST_TEST(given_back(servers));
}

BOOST_AUTO_TEST_CASE(a_body_of_a_lease_is_cancelled_when_that_is_lost) {
    fleet servers(3);
    test_client client(servers);
    auto signalled = false;
    ending end;
    auto const body = [&](lease&) -> asio::awaitable<int> {
        signalled = co_await wait_for_signal();
        co_return 1;
    };
    with_lease(client.hold("k", {.ttl = 1s}), body, end.take());
    for (server& each : servers) (void)redis_cli(each).del("k");
    BOOST_REQUIRE(client.until([&] { return end.done; }));
    BOOST_TEST(signalled);
    BOOST_TEST((end.code() == errc::lease_lost), end.code().message());
}

BOOST_AUTO_TEST_CASE(a_cancelled_section_of_a_lease_cancels_its_body_and_releases) {
    fleet servers(3);
    test_client client(servers);
    auto entered = false;
    ending end;
    asio::cancellation_signal signal;
    auto const body = [&](lease&) -> asio::awaitable<int> {
        entered = true;
        (void)co_await wait_for_signal();
        throw system_error(asio::error::operation_aborted);
    };
    with_lease(client.hold("k"), body, asio::bind_cancellation_slot(signal.slot(), end.take()));
    BOOST_REQUIRE(client.until([&] { return entered; }));
    signal.emit(asio::cancellation_type::terminal);
    BOOST_REQUIRE(client.until([&] { return end.done; }));
    BOOST_TEST(is_cancellation(end.code()), end.code().message());
    BOOST_TEST(given_back(servers));
}

BOOST_AUTO_TEST_CASE(a_section_needs_a_lease) {
    fleet servers(3);
    test_client client(servers);
    auto released = client.hold("k"), detached = client.hold("d");
    BOOST_TEST(client.releases(released));
    detached.detach();
    section_run s;
    for (auto* const each : {&released, &detached, static_cast<lease*>(nullptr)}) {
        lease none;
        auto& held = each == nullptr ? none : *each;
        BOOST_CHECK_EXCEPTION(
            (void)with_lease(std::move(held), s.body, s.end.take()), system_error,
            [](system_error const& e) { return e.code() == errc::lease_released; });
    }
    BOOST_TEST(!s.end.done);
    BOOST_TEST(!s.entered);
}

BOOST_AUTO_TEST_CASE(a_lease_that_is_lost_already_calls_no_body) {
    fleet servers(3);
    test_client client(servers);
    auto held = client.hold("k", unwatched(200ms));
    BOOST_REQUIRE(client.until([&] { return held.ended_by() == lease_end::expired; }));
    section_run s;
    with_lease(std::move(held), s.body, s.end.take());
    BOOST_REQUIRE(client.until([&] { return s.end.done; }));
    BOOST_TEST((s.end.code() == errc::lease_lost), s.end.code().message());
    BOOST_TEST(!s.entered);
}

BOOST_AUTO_TEST_SUITE_END()
