// A drain grants no new leases and lets holders finish. Holders that exceed the limit lose their
// lease.
#include "integration/loss_wait.hpp"
#include "integration/test_client.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

struct ending {
    auto take() {
        return [this](error e) { how = std::move(e); };
    }
    bool done() const { return how.has_value(); }
    bool clean() const { return how && !*how; }

    std::optional<error> how;
};

struct waiter {
    void start(lock const& on) {
        on.acquire([this](error e, lease l) {
            how = std::move(e);
            held = std::move(l);
        });
    }
    std::optional<error> how;
    lease held;
};

bool is_down(client const& locks) {
    auto const all = locks.instances();
    return std::all_of(all.begin(), all.end(),
                       [](auto const& i) { return i.state == instance_state::down; });
}

} // namespace

BOOST_AUTO_TEST_SUITE(drain)

BOOST_AUTO_TEST_CASE(without_holders_it_is_a_shutdown) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    ending drained;
    client.locks.drain(1h, drained.take());
    BOOST_REQUIRE(client.until([&] { return drained.done(); }));
    BOOST_TEST(drained.clean(), drained.how->what());
    BOOST_TEST(is_down(client.locks));
    BOOST_TEST((client.acquire("k").first == errc::shut_down));
    client.context.restart();
    client.context.run_for(10s);
    BOOST_TEST(client.context.stopped());
}

BOOST_AUTO_TEST_CASE(waiters_are_told_at_once_and_holders_go_on) {
    fleet servers(3);
    test_client client(servers);
    test_client other(servers);
    auto const theirs = other.hold("theirs");
    auto held = client.hold("k", {.ttl = renewed_ttl});
    waiter behind, elsewhere;
    behind.start(client.locks.make_lock("k", {.ttl = renewed_ttl}));
    elsewhere.start(client.locks.make_lock("theirs", long_lived));
    BOOST_REQUIRE(client.until([&] { return client.locks.stats().waiters == 2; }));
    ending drained;
    client.locks.drain(1h, drained.take());
    BOOST_REQUIRE(client.until([&] { return behind.how && elsewhere.how; }));
    BOOST_TEST((*behind.how == errc::shut_down), behind.how->what());
    BOOST_TEST((*elsewhere.how == errc::shut_down), elsewhere.how->what());
    BOOST_TEST((client.acquire("new").first == errc::shut_down));
    // The watchdog keeps renewing the lease well beyond the ttl.
    BOOST_TEST(client.renews(4));
    BOOST_TEST(held.held());
    BOOST_TEST(!client.extend(held));
    BOOST_TEST(!drained.done());
    BOOST_TEST(client.locks.stats().lost == 0U);
    BOOST_TEST(client.releases(held));
    BOOST_REQUIRE(client.until([&] { return drained.done(); }));
    BOOST_TEST(drained.clean(), drained.how->what());
    BOOST_TEST(client.locks.stats().lost == 0U);
    BOOST_TEST(copies(servers, "k") == 0U);
    BOOST_TEST(is_down(client.locks));
}

BOOST_AUTO_TEST_CASE(a_section_in_progress_ends_as_it_would) {
    fleet servers(3);
    test_client client(servers);
    asio::steady_timer work(client.context, 1h);
    auto inside = false;
    auto const body = [&](lease& held) -> asio::awaitable<int> {
        inside = true;
        co_await work.async_wait(asio::as_tuple);
        auto const state = co_await asio::this_coro::cancellation_state;
        BOOST_TEST((state.cancelled() == asio::cancellation_type::none));
        BOOST_TEST(held.held());
        co_return 7;
    };
    std::exception_ptr thrown;
    std::optional<int> value;
    with_lock(client.locks.make_lock("k", long_lived), body, [&](std::exception_ptr e, int v) {
        thrown = e;
        value = v;
    });
    std::exception_ptr refused;
    with_lock(client.locks.make_lock("k", long_lived), body,
              [&](std::exception_ptr e, int) { refused = e; });
    BOOST_REQUIRE(client.until([&] { return inside && client.locks.stats().waiters == 1; }));
    ending drained;
    client.locks.drain(1h, drained.take());
    BOOST_REQUIRE(client.until([&] { return refused != nullptr; }));
    BOOST_CHECK_EXCEPTION(std::rethrow_exception(refused), system_error,
                          [](system_error const& e) { return e.code() == errc::shut_down; });
    BOOST_TEST(!drained.done());
    work.cancel();
    BOOST_REQUIRE(client.until([&] { return value && drained.done(); }));
    BOOST_TEST((thrown == nullptr));
    BOOST_TEST(*value == 7);
    BOOST_TEST(drained.clean(), drained.how->what());
    BOOST_TEST(copies(servers, "k") == 0U);
}

BOOST_AUTO_TEST_CASE(a_lease_that_is_dropped_or_shared_counts_until_its_last_holder) {
    fleet servers(1);
    test_client client(servers);
    auto held = client.hold("k");
    auto shared = held.share();
    ending drained;
    client.locks.drain(1h, drained.take());
    BOOST_TEST(client.releases(held));
    BOOST_TEST(!client.extend(shared));
    BOOST_TEST(!drained.done());
    shared = {};
    BOOST_REQUIRE(client.until([&] { return drained.done(); }));
    BOOST_TEST(drained.clean(), drained.how->what());
    check_nothing_left(servers);
}

BOOST_AUTO_TEST_CASE(a_holder_beyond_the_limit_is_told_of_the_loss) {
    fleet servers(3);
    test_client client(servers);
    auto held = client.hold("k");
    ending drained;
    std::optional<lease_end> end;
    held.wait_end(noting(end));
    client.locks.drain(50ms, drained.take());
    BOOST_REQUIRE(client.until([&] { return drained.done() && end; }));
    BOOST_TEST((*drained.how == errc::wait_timeout), drained.how->what());
    BOOST_TEST(*end == lease_end::shut_down);
    BOOST_TEST(held.ended_by() == lease_end::shut_down);
    BOOST_TEST(!held.held());
    BOOST_TEST(client.locks.stats().lost == 1U);
    BOOST_TEST(copies(servers, "k") == 0U);
    BOOST_TEST(is_down(client.locks));
}

// The holder hears of the loss before the deadline, and keeps the key until the deadline.
BOOST_AUTO_TEST_CASE(a_lease_that_is_lost_meanwhile_is_told_of_after_its_deadline) {
    for (auto const by_limit : {false, true}) {
        fleet servers(3);
        test_client client(servers);
        auto held = by_limit ? client.hold("k", {.ttl = 60s, .max_hold = 1s})
                             : client.hold("k", {.ttl = 1s});
        if (!by_limit) held.extend_while([] { return false; });
        ending drained;
        std::optional<lease_end> end;
        std::optional<lease_clock::time_point> over_at;
        auto const at_deadline = held.deadline();
        held.wait_end([&](error, lease_end how) {
            end = how;
            auto const seen = copies(servers, "k");
            if (lease_clock::now() < at_deadline) BOOST_TEST(seen == 3U);
            BOOST_TEST(!drained.done());
        });
        client.locks.drain(1h, [&](error e) {
            over_at = lease_clock::now();
            drained.how = std::move(e);
        });
        BOOST_REQUIRE(client.until([&] { return drained.done() && end; }));
        BOOST_TEST(*end == lease_end::expired);
        BOOST_TEST((*drained.how == errc::lease_lost), drained.how->what());
        BOOST_TEST((*over_at >= at_deadline));
        BOOST_TEST(client.locks.stats().lost == 1U);
        BOOST_TEST(copies(servers, "k") == 0U);
        BOOST_TEST(is_down(client.locks));
    }
}

// The holder hears of the loss ahead of the deadline. A shutdown in between releases the key.
BOOST_AUTO_TEST_CASE(a_shutdown_releases_the_key_of_a_lease_that_was_lost) {
    fleet servers(3);
    test_client client(servers);
    auto held = client.hold("k", {.ttl = 60s, .max_hold = 2s});
    ending over;
    auto end = lease_end::none;
    held.wait_end([&](error, lease_end how) {
        end = how;
        client.locks.shutdown(over.take());
    });
    BOOST_REQUIRE(client.until([&] { return over.done(); }));
    BOOST_TEST(end == lease_end::expired);
    BOOST_TEST(held.ended_by() == lease_end::expired);
    BOOST_TEST(client.locks.stats().lost == 1U);
    BOOST_TEST(copies(servers, "k") == 0U);
}

BOOST_AUTO_TEST_CASE(without_time_it_is_a_shutdown_at_once) {
    for (auto const limit : {std::chrono::nanoseconds(0), std::chrono::nanoseconds(-1),
                             std::chrono::nanoseconds::min()}) {
        fleet servers(1);
        test_client client(servers);
        auto held = client.hold("k");
        ending drained;
        client.locks.drain(limit, drained.take());
        BOOST_REQUIRE(client.until([&] { return drained.done(); }));
        BOOST_TEST((*drained.how == errc::wait_timeout), drained.how->what());
        BOOST_TEST(!held.held());
    }
}

BOOST_AUTO_TEST_CASE(of_several_limits_the_earliest_counts) {
    for (auto const short_first : {false, true}) {
        fleet servers(1);
        test_client client(servers);
        auto held = client.hold("k");
        ending first, second;
        client.locks.drain(short_first ? 50ms : std::chrono::nanoseconds::max(), first.take());
        client.locks.drain(short_first ? std::chrono::nanoseconds::max() : 50ms, second.take());
        BOOST_REQUIRE(client.until([&] { return first.done() && second.done(); }));
        BOOST_TEST((*first.how == errc::wait_timeout), first.how->what());
        BOOST_TEST((*second.how == errc::wait_timeout), second.how->what());
        // The result of a drain that has ended stays the same.
        ending again;
        client.locks.drain(1h, again.take());
        BOOST_REQUIRE(client.until([&] { return again.done(); }));
    }
}

BOOST_AUTO_TEST_CASE(a_shutdown_ends_it_at_once) {
    for (auto const by_close : {false, true}) {
        fleet servers(1);
        test_client client(servers);
        auto held = client.hold("k");
        ending drained, shut;
        client.locks.drain(1h, drained.take());
        if (by_close) {
            client.locks.close();
        } else {
            client.locks.shutdown(shut.take());
        }
        BOOST_REQUIRE(client.until([&] { return drained.done() && (by_close || shut.done()); }));
        BOOST_TEST((*drained.how == errc::shut_down), drained.how->what());
        BOOST_TEST((by_close || shut.clean()));
        BOOST_TEST(!held.held());
        check_nothing_left(servers);
        ending late;
        client.locks.drain(1h, late.take());
        BOOST_REQUIRE(client.until([&] { return late.done(); }));
        BOOST_TEST((*late.how == errc::shut_down), late.how->what());
    }
}

BOOST_AUTO_TEST_CASE(cancelling_it_ends_the_wait_and_not_the_drain) {
    for (auto const type : every_type) {
        fleet servers(1);
        test_client client(servers);
        auto held = client.hold("k");
        asio::cancellation_signal signal;
        ending drained;
        client.locks.drain(1h, asio::bind_cancellation_slot(signal.slot(), drained.take()));
        BOOST_TEST((client.acquire("new").first == errc::shut_down)); // the drain has begun
        signal.emit(type);
        BOOST_REQUIRE(client.until([&] { return drained.done(); }));
        BOOST_TEST((*drained.how == errc::cancelled), drained.how->what());
        BOOST_TEST(!client.extend(held));
        BOOST_TEST((client.acquire("new").first == errc::shut_down));
        BOOST_TEST(client.releases(held));
        BOOST_TEST(client.until([&] { return is_down(client.locks); }));
        client.context.restart();
        client.context.run_for(10s);
        BOOST_TEST(client.context.stopped());
    }
}

BOOST_AUTO_TEST_CASE(a_limit_holds_also_where_nobody_waits_for_it_any_more) {
    fleet servers(1);
    test_client client(servers);
    auto held = client.hold("k");
    asio::cancellation_signal signal;
    ending drained;
    client.locks.drain(100ms, asio::bind_cancellation_slot(signal.slot(), drained.take()));
    BOOST_TEST((client.acquire("new").first == errc::shut_down));
    signal.emit(asio::cancellation_type::terminal);
    BOOST_REQUIRE(client.until([&] { return drained.done(); }));
    BOOST_TEST(client.until([&] { return !held.held() && is_down(client.locks); }));
}

BOOST_AUTO_TEST_CASE(a_drain_that_was_cancelled_before_it_began_does_not_begin) {
    fleet servers(1);
    test_client client(servers);
    asio::cancellation_signal signal;
    ending drained;
    client.locks.drain(1h, asio::bind_cancellation_slot(signal.slot(), drained.take()));
    signal.emit(asio::cancellation_type::terminal);
    BOOST_REQUIRE(client.until([&] { return drained.done(); }));
    BOOST_TEST((*drained.how == errc::cancelled), drained.how->what());
    auto held = client.hold("k");
    BOOST_TEST(client.releases(held));
}

BOOST_AUTO_TEST_CASE(servers_that_hang_do_not_hold_it_up) {
    fleet servers(3);
    test_client client(servers, hasty());
    auto held = client.hold("k");
    servers.freeze(3);
    ending drained;
    client.locks.drain(1h, drained.take());
    std::optional<release_result> released;
    held.release([&](release_result r) { released = r; });
    BOOST_REQUIRE(client.until([&] { return drained.done() && released.has_value(); }));
    BOOST_TEST(drained.clean(), drained.how->what());
    servers.thaw_all();
}

BOOST_AUTO_TEST_SUITE_END()
