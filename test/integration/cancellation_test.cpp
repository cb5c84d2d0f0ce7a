// Cancelling each asynchronous function: the result for the caller, and the keys on the servers.
#include "integration/attempt.hpp"
#include "integration/loss_wait.hpp"
#include "integration/proxied_client.hpp"
#include "integration/test_client.hpp"
#include "support/fake_server.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(cancellation)

//
// Cancelled acquires, as in the table in lock.hpp
//

BOOST_AUTO_TEST_CASE(cancelled_before_it_was_sent_it_leaves_nothing) {
    for (auto const type : every_type) {
        proxied_client setup;
        auto const sent = setup.proxies[0].commands_forwarded();
        attempt c;
        c.start(setup.client.locks.make_lock("k", long_lived));
        c.signal.emit(type);
        BOOST_REQUIRE(setup.client.until([&] { return c.done; }));
        BOOST_TEST((c.how == errc::cancelled), c.how.what());
        BOOST_TEST(!c.held);
        BOOST_TEST(setup.client.locks.stats().rounds == 0U);
        BOOST_TEST(setup.proxies[0].commands_forwarded() == sent);
    }
}

BOOST_AUTO_TEST_CASE(cancelled_in_mid_round_the_total_way_it_waits_and_delivers_a_win) {
    proxied_client setup;
    setup.proxies.hold_replies();
    attempt c;
    c.start(setup.client.locks.make_lock("k", long_lived));
    BOOST_REQUIRE(setup.client.until([&] { return setup.proxies[0].replies_held() > 0; }));
    c.signal.emit(asio::cancellation_type::total);
    BOOST_TEST(!run_until(
        setup.client.context, [&] { return c.done; }, 0s));
    setup.proxies.resume();
    BOOST_REQUIRE(setup.client.until([&] { return c.done; }));
    BOOST_TEST(!c.how, c.how.what());
    BOOST_TEST(c.held.held());
    BOOST_TEST(setup.client.releases(c.held));
}

BOOST_AUTO_TEST_CASE(cancelled_in_mid_round_the_total_way_it_ends_with_a_refusal) {
    proxied_client setup;
    for (server& instance : setup.servers) redis_cli(instance).set("k", "foreign", 60s);
    setup.proxies.hold_replies();
    attempt c;
    c.start(setup.client.locks.make_lock("k", long_lived));
    BOOST_REQUIRE(setup.client.until([&] { return setup.proxies[0].replies_held() > 0; }));
    c.signal.emit(asio::cancellation_type::total);
    setup.proxies.resume();
    BOOST_REQUIRE(setup.client.until([&] { return c.done; }));
    BOOST_TEST((c.how == errc::cancelled), c.how.what());
    BOOST_TEST(setup.client.locks.stats().rounds == 1U);
    for (server& instance : setup.servers)
        BOOST_TEST(redis_cli(instance).get("k").value_or("gone") == "foreign");
}

BOOST_AUTO_TEST_CASE(cancelled_in_mid_round_it_ends_at_once_and_gives_back) {
    for (auto const type : {asio::cancellation_type::partial, asio::cancellation_type::terminal}) {
        for (auto const executed : {false, true}) {
            proxied_client setup;
            executed ? setup.proxies.hold_replies() : setup.proxies.hold_requests();
            attempt c;
            c.start(setup.client.locks.make_lock("k", long_lived));
            BOOST_REQUIRE(setup.client.until([&] {
                return executed ? setup.proxies[0].replies_held() > 0
                                : setup.proxies[0].commands_held() > 0;
            }));
            c.signal.emit(type);
            // The acquire ends while the servers are still silent.
            BOOST_REQUIRE(setup.client.until([&] { return c.done; }));
            BOOST_TEST((c.how == errc::cancelled), c.how.what());
            BOOST_TEST(!c.held);
            setup.proxies.resume();
            check_nothing_left(setup.client, setup.servers);
            // Six commands show that the release was sent too.
            BOOST_TEST(
                setup.client.until([&] { return setup.client.locks.stats().commands >= 6; }));
        }
    }
}

BOOST_AUTO_TEST_CASE(cancelled_the_total_way_before_the_servers_heard_of_it_it_still_waits) {
    proxied_client setup;
    setup.proxies.hold_requests();
    attempt c;
    c.start(setup.client.locks.make_lock("k", long_lived));
    BOOST_REQUIRE(setup.client.until([&] { return setup.proxies[0].commands_held() > 0; }));
    c.signal.emit(asio::cancellation_type::total);
    setup.proxies.resume();
    BOOST_REQUIRE(setup.client.until([&] { return c.done; }));
    BOOST_TEST(!c.how, c.how.what());
    BOOST_TEST(c.held.held());
    BOOST_TEST(setup.client.releases(c.held));
    check_nothing_left(setup.client, setup.servers);
}

BOOST_AUTO_TEST_CASE(cancelled_with_one_vote_it_gives_that_back_too) {
    for (auto const type : {asio::cancellation_type::partial, asio::cancellation_type::terminal}) {
        proxied_client setup;
        setup.proxies[1].hold_requests();
        setup.proxies[2].hold_requests();
        auto const answered = setup.proxies[0].replies_forwarded();
        attempt c;
        c.start(setup.client.locks.make_lock("k", long_lived));
        BOOST_REQUIRE(
            setup.client.until([&] { return setup.proxies[0].replies_forwarded() > answered; }));
        BOOST_TEST(redis_cli(setup.servers[0]).exists("k"));
        c.signal.emit(type);
        BOOST_REQUIRE(setup.client.until([&] { return c.done; }));
        BOOST_TEST((c.how == errc::cancelled), c.how.what());
        // The release of the granted key does not wait for the silent instances.
        BOOST_TEST(setup.client.sees_no_locks(setup.servers[0]));
        setup.proxies.resume();
        // The held requests arrive: each SET, followed by its release.
        auto const sent = setup.client.locks.stats().commands;
        BOOST_TEST(sent >= 6U);
        check_nothing_left(setup.client, setup.servers);
        auto again = setup.client.hold("k"); // all earlier commands were carried out
        BOOST_TEST(setup.client.sees(setup.servers, "k", true));
        BOOST_TEST(setup.client.releases(again));
    }
}

BOOST_AUTO_TEST_CASE(cancelled_in_mid_round_it_gives_back_over_a_new_connection) {
    for (auto const type : {asio::cancellation_type::partial, asio::cancellation_type::terminal}) {
        proxied_client setup;
        setup.proxies.hold_replies();
        attempt c;
        c.start(setup.client.locks.make_lock("k", long_lived));
        for (auto& proxy : setup.proxies.all) {
            BOOST_REQUIRE(setup.client.until([&] { return proxy.replies_held() > 0; }));
        }
        for (server& instance : setup.servers) BOOST_TEST(redis_cli(instance).exists("k"));
        c.signal.emit(type);
        BOOST_REQUIRE(setup.client.until([&] { return c.done; }));
        BOOST_TEST((c.how == errc::cancelled), c.how.what());
        for (auto& proxy : setup.proxies.all) proxy.cut();
        setup.proxies.resume();
        check_nothing_left(setup.client, setup.servers);
    }
}

BOOST_AUTO_TEST_CASE(cancelled_while_it_asks_for_the_holder_it_ends_at_once) {
    for (auto const type : every_type) {
        proxied_client setup;
        for (server& instance : setup.servers) redis_cli(instance).set("k", "foreign", 60s);
        for (auto& proxy : setup.proxies.all) {
            proxy.intercept(
                [wire = &proxy](command_line const& words) -> std::optional<std::string> {
                    if (is_command(words, "PTTL")) wire->hold_replies();
                    return std::nullopt;
                });
        }
        attempt c;
        c.start(setup.client.locks.make_lock("k", long_lived));
        auto const asked = [&] {
            std::size_t held = 0;
            for (auto& proxy : setup.proxies.all) held += proxy.replies_held();
            return held >= 2;
        };
        BOOST_REQUIRE(setup.client.until(asked));
        c.signal.emit(type);
        BOOST_REQUIRE(setup.client.until([&] { return c.done; }));
        BOOST_TEST((c.how == errc::cancelled), c.how.what());
        BOOST_TEST(setup.client.locks.stats().rounds == 1U);
        setup.proxies.resume();
        for (server& instance : setup.servers)
            BOOST_TEST(redis_cli(instance).get("k").value_or("gone") == "foreign");
    }
}

BOOST_AUTO_TEST_CASE(cancelled_between_tries_it_ends_at_once) {
    for (auto const type : every_type) {
        fleet servers(3);
        test_client client(servers);
        test_client other(servers);
        auto held = other.hold("k");
        attempt c;
        c.start(client.locks.make_lock("k", long_lived));
        BOOST_REQUIRE(client.until([&] { return client.locks.stats().waiters == 1; }));
        c.signal.emit(type);
        BOOST_REQUIRE(client.until([&] { return c.done; }));
        BOOST_TEST((c.how == errc::cancelled), c.how.what());
        BOOST_TEST(held.held());
        BOOST_TEST(other.releases(held));
        // The last try may have won after its cancellation. Then the client releases the lease.
        client.runs_with(other);
        check_nothing_left(client, servers);
    }
}

BOOST_AUTO_TEST_CASE(cancelled_behind_a_holder_of_the_same_client_it_ends_at_once) {
    for (auto const type : every_type) {
        fleet servers(3);
        test_client client(servers);
        auto held = client.hold("k");
        attempt c;
        c.start(client.locks.make_lock("k", long_lived));
        BOOST_REQUIRE(client.until([&] { return client.locks.stats().waiters == 1; }));
        c.signal.emit(type);
        BOOST_REQUIRE(client.until([&] { return c.done; }));
        BOOST_TEST((c.how == errc::cancelled), c.how.what());
        BOOST_TEST(client.locks.stats().waiters == 0U);
        BOOST_TEST(client.releases(held));
        check_nothing_left(client, servers);
    }
}

BOOST_AUTO_TEST_CASE(cancelled_after_the_quorum_it_is_too_late) {
    for (auto const type : every_type) {
        fleet servers(3);
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        attempt c;
        c.start(client.locks.make_lock("k", long_lived));
        // The lease is won, but the handler has not run yet.
        BOOST_REQUIRE(client.until([&] { return client.locks.stats().held == 1 || c.done; }));
        c.signal.emit(type);
        BOOST_REQUIRE(client.until([&] { return c.done; }));
        BOOST_TEST(!c.how, c.how.what());
        BOOST_TEST(c.held.held());
        BOOST_TEST(client.releases(c.held));
    }
}

BOOST_AUTO_TEST_CASE(cancelled_after_the_quorum_it_is_too_late_also_with_a_vote_outstanding) {
    for (auto const type : every_type) {
        proxied_client setup;
        setup.proxies[2].hold_requests();
        attempt c;
        c.start(setup.client.locks.make_lock("k", long_lived));
        BOOST_REQUIRE(setup.client.until([&] { return setup.client.locks.stats().held == 1; }));
        BOOST_TEST(!c.done); // so the signal is still connected
        c.signal.emit(type);
        BOOST_REQUIRE(setup.client.until([&] { return c.done; }));
        BOOST_TEST(!c.how, c.how.what());
        BOOST_TEST(c.held.held());
        BOOST_TEST(setup.client.releases(c.held));
        setup.proxies[2].resume();
        check_nothing_left(setup.client, setup.servers);
    }
}

BOOST_AUTO_TEST_CASE(a_late_signal_does_not_hit_the_next_call) {
    for (auto const type : every_type) {
        fleet servers(3);
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        attempt first;
        first.start(client.locks.make_lock("first", long_lived));
        BOOST_REQUIRE(client.until([&] { return client.locks.stats().held == 1; }));
        BOOST_TEST(!first.done);
        // Both in one turn: the next call may reuse the memory of the acquire that has won.
        first.signal.emit(type);
        attempt next;
        next.start(client.locks.make_lock("next", long_lived));
        BOOST_REQUIRE(client.until([&] { return first.done && next.done; }));
        BOOST_TEST(!first.how, first.how.what());
        BOOST_TEST(!next.how, next.how.what());
        BOOST_TEST(next.held.held());
        BOOST_TEST(client.locks.stats().acquire_failed ==
                   0U);          // the acquire that has won does not count as failed
        first.signal.emit(type); // no operation is connected any more
        BOOST_TEST(client.releases(first.held));
        BOOST_TEST(client.releases(next.held));
    }
}

BOOST_AUTO_TEST_CASE(a_cancelled_extension_leaves_the_lease_as_it_was) {
    for (auto const type : every_type) {
        proxied_client setup;
        auto held = setup.hold("k");
        auto const deadline = held.deadline();
        setup.proxies.hold_replies();
        asio::cancellation_signal signal;
        error how;
        auto done = false;
        held.extend(asio::bind_cancellation_slot(signal.slot(), [&](error e) {
            how = std::move(e);
            done = true;
        }));
        BOOST_REQUIRE(setup.client.until([&] { return setup.proxies[0].replies_held() > 0; }));
        signal.emit(type);
        BOOST_REQUIRE(setup.client.until([&] { return done; }));
        BOOST_TEST((how == errc::cancelled), how.what());
        BOOST_TEST(held.held());
        setup.proxies.resume();
        // The extension was sent, so it may win after its cancellation.
        BOOST_TEST(setup.client.until([&] { return held.deadline() > deadline; }));
        BOOST_TEST(setup.client.releases(held));
    }
}

BOOST_AUTO_TEST_CASE(an_extension_cancelled_before_it_was_sent_is_never_sent) {
    for (auto const type : every_type) {
        fleet servers(1);
        test_client client(servers);
        auto held = client.hold("k");
        auto const deadline = held.deadline();
        auto const sent = client.locks.stats().commands;
        asio::cancellation_signal signal;
        std::optional<error> how;
        held.extend(
            asio::bind_cancellation_slot(signal.slot(), [&](error e) { how = std::move(e); }));
        signal.emit(type);
        BOOST_REQUIRE(client.until([&] { return how.has_value(); }));
        BOOST_TEST((*how == errc::cancelled), how->what());
        BOOST_TEST(client.locks.stats().commands == sent);
        BOOST_TEST((held.deadline() == deadline));
        BOOST_TEST(client.releases(held));
    }
}

BOOST_AUTO_TEST_CASE(a_cancelled_wait_for_the_end_leaves_the_lease_and_the_other_waits) {
    for (auto const type : every_type) {
        for (auto const at_once : {false, true}) {
            fleet servers(1);
            test_client client(servers);
            auto held = client.hold("k");
            asio::cancellation_signal signal;
            std::optional<error> how;
            std::optional<lease_end> other;
            auto end = lease_end::shut_down;
            held.wait_end(noting(other));
            held.wait_end(asio::bind_cancellation_slot(signal.slot(), [&](error e, lease_end none) {
                how = std::move(e);
                end = none;
            }));
            if (!at_once) BOOST_TEST(!client.extend(held)); // so the wait has begun
            signal.emit(type);
            BOOST_REQUIRE(client.until([&] { return how.has_value(); }));
            BOOST_TEST((*how == errc::cancelled), how->what());
            BOOST_TEST(end == lease_end::none);
            BOOST_TEST(!other.has_value());
            BOOST_TEST(held.held());
            BOOST_TEST(client.releases(held));
            BOOST_REQUIRE(client.until([&] { return other.has_value(); }));
            BOOST_TEST(*other == lease_end::released);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_release_cannot_be_cancelled) {
    for (auto const type : every_type) {
        proxied_client setup;
        auto held = setup.hold("k");
        setup.proxies.hold_replies();
        asio::cancellation_signal signal;
        std::optional<release_result> how;
        held.release(
            asio::bind_cancellation_slot(signal.slot(), [&](release_result r) { how = r; }));
        BOOST_REQUIRE(setup.client.until([&] { return setup.proxies[0].replies_held() > 0; }));
        signal.emit(type);
        BOOST_TEST(!run_until(
            setup.client.context, [&] { return how.has_value(); }, 0s));
        setup.proxies.resume();
        BOOST_REQUIRE(setup.client.until([&] { return how.has_value(); }));
        BOOST_TEST(how->confirmed());
        check_nothing_left(setup.client, setup.servers);
    }
}

//
// Time limits and codes
//

BOOST_AUTO_TEST_CASE(a_limit_is_kept_and_told_as_a_timeout) {
    fleet servers(3);
    test_client client(servers);
    test_client other(servers);
    // Each limit has a key of its own. After a refusal, the next try for the same key may ask no
    // instance.
    auto number = 0;
    for (auto const limit :
         {std::chrono::nanoseconds(1s), std::chrono::nanoseconds(1), std::chrono::nanoseconds(0),
          std::chrono::nanoseconds(-1s), std::chrono::nanoseconds::min()}) {
        auto const name = "k" + std::to_string(++number);
        auto const held = other.hold(name);
        auto const rounds = client.locks.stats().rounds;
        attempt c;
        c.start_for(client.locks.make_lock(name, long_lived), limit);
        BOOST_REQUIRE(client.until([&] { return c.done; }));
        if (limit == 1ns) {
            // The limit ends before the answers come, or just after. In the second case the holder
            // is known.
            BOOST_TEST((c.how == errc::wait_timeout || c.how == errc::no_quorum), c.how.what());
        } else {
            // Without time there is one try, which ends as try_acquire() does.
            BOOST_TEST((c.how == (limit > 0s ? errc::wait_timeout : errc::contended)),
                       c.how.what());
        }
        BOOST_TEST(client.locks.stats().rounds > rounds);
        BOOST_REQUIRE(c.how.report() != nullptr);
        BOOST_TEST(c.how.report()->attempts >= 1U);
    }
    auto held = other.hold("k");
    auto const key = client.locks.make_lock("k", long_lived);
    // The greatest limit means none.
    attempt c;
    c.start_for(key, std::chrono::nanoseconds::max());
    BOOST_REQUIRE(client.until([&] { return client.locks.stats().pending == 1; }));
    BOOST_TEST(other.releases(held));
    BOOST_REQUIRE(client.until([&] { return c.done; }));
    BOOST_TEST(!c.how, c.how.what());
    BOOST_TEST(client.releases(c.held));
}

// The client sends nothing for a key that it holds itself.
BOOST_AUTO_TEST_CASE(behind_a_holder_of_the_same_client_no_instance_is_asked) {
    fleet servers(3);
    test_client client(servers);
    auto held = client.hold("k");
    auto const key = client.locks.make_lock("k", long_lived);
    auto const rounds = client.locks.stats().rounds;
    for (auto const limit : {std::chrono::nanoseconds(30ms), std::chrono::nanoseconds(1),
                             std::chrono::nanoseconds(0), std::chrono::nanoseconds(-1s)}) {
        attempt c;
        c.start_for(key, limit);
        BOOST_REQUIRE(client.until([&] { return c.done; }));
        BOOST_TEST((c.how == (limit > 0s ? errc::wait_timeout : errc::contended)), c.how.what());
        BOOST_REQUIRE(c.how.report() != nullptr);
        BOOST_TEST(c.how.report()->holder == "this client");
        BOOST_TEST(c.how.report()->attempts == 0U);
        for (auto const& i : c.how.report()->instances) {
            BOOST_TEST((i.outcome == instance_outcome::held));
            BOOST_TEST(i.ttl_known);
        }
    }
    BOOST_TEST(client.locks.stats().rounds == rounds);
    BOOST_TEST(client.releases(held));
}

BOOST_AUTO_TEST_CASE(a_limit_that_ends_before_anybody_answers_is_no_timeout_and_gives_back) {
    proxied_client setup;
    setup.proxies.hold_replies();
    attempt c;
    c.start_for(setup.client.locks.make_lock("k", long_lived), 30ms);
    BOOST_REQUIRE(setup.client.until([&] { return c.done; }));
    BOOST_TEST((c.how == errc::no_quorum), c.how.what());
    setup.proxies.resume();
    check_nothing_left(setup.client, setup.servers);
}

BOOST_AUTO_TEST_CASE(each_end_has_its_own_code) {
    fleet servers(3);
    test_client client(servers, hasty());
    BOOST_REQUIRE(client.all_up());
    auto held = client.hold("k");
    BOOST_TEST((client.try_acquire("k").first == errc::contended));
    {
        attempt c;
        c.start_for(client.locks.make_lock("k"), 10ms);
        BOOST_REQUIRE(client.until([&] { return c.done; }));
        BOOST_TEST((c.how == errc::wait_timeout));
        BOOST_TEST(!(c.how == error_condition::unavailable));
    }
    BOOST_TEST(client.releases(held));
    BOOST_TEST((client.release(held) == errc::lease_released));
    BOOST_TEST((client.extend(held) == errc::lease_released));
    auto doomed = client.hold("doomed", unwatched(1500ms));
    BOOST_REQUIRE(client.until([&] { return !doomed.held(); }));
    BOOST_TEST((client.extend(doomed) == errc::lease_lost));
    BOOST_TEST((client.release(doomed) == errc::lease_lost));
    servers[0].kill();
    servers[1].freeze();
    auto const down = client.acquire("k").first;
    BOOST_TEST((down == errc::no_quorum), down.what());
    BOOST_TEST((down == error_condition::unavailable));
    servers[1].thaw();
    auto done = false;
    client.locks.shutdown([&](error) { done = true; });
    BOOST_REQUIRE(client.until([&] { return done; }));
    BOOST_TEST((client.acquire("k").first == errc::shut_down));
}

BOOST_AUTO_TEST_SUITE_END()
