// Waiters that are cancelled, time out or shut down just when they get the key. They pass the key
// on, and leave nothing behind.
#include "integration/attempt.hpp"
#include "integration/client_group.hpp"
#include "integration/foreign_client.hpp"
#include "integration/proxy_group.hpp"
#include "support/heap.hpp"
#include "support/proxy.hpp"

#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/post.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

// Clients that acquire, hold, release and cancel at random times, which follow from a seed.
class storm {
public:
    storm(fleet const& servers, unsigned seed)
        : servers_(servers)
        , group_(servers, clients, patient())
        , random_(seed) {
        for (std::size_t c = 0; c < clients; ++c) {
            for (std::size_t k = 0; k < keys; ++k) {
                auto const key = k == 0 ? "hot" : "key:" + std::to_string(k);
                // One tenure can serve locks of the same ttl, but not both kinds.
                for (auto const ttl : {30s, 60s}) {
                    locks_.push_back(group_.key_of(
                        c, key, {.ttl = ttl, .max_retry_delay = 5ms, .handover_limit = 8}));
                }
            }
        }
    }

    // Runs until `cancellations` acquires were cancelled under way, and until `ends` acquires in
    // all have won and `ends` have timed out: how many do so meanwhile depends on the machine. Then
    // all remaining operations come to their end.
    void blow(std::size_t cancellations, std::size_t ends) {
        group_.context.restart();
        auto const until = lease_clock::now() + 60s;
        for (std::size_t told = 0; told < cancellations || won < ends || timed_out < ends;) {
            BOOST_REQUIRE((lease_clock::now() < until));
            // The number of concurrent operations varies: few do not disturb each other, many do.
            if (below(200) == 0) most_ = sizes[below(sizes.size())];
            auto const choice = below(100);
            if (choice < 45) {
                if (operations_.size() < most_) start();
            } else if (choice < 85) {
                if (cancel()) ++told;
            } else {
                release();
            }
            for (auto turns = below(6); turns > 0; --turns) group_.context.poll_one();
            if (below(8) == 0) group_.context.run_one_for(200us);
            clear_up();
        }
        auto const all_done = group_.until(
            [&] {
                for (auto const& op : operations_) op->held = {};
                clear_up();
                return operations_.empty();
            },
            30s);
        BOOST_REQUIRE(all_done);
        check_nothing_left(group_, servers_);
    }

    void check_fresh_acquires() {
        for (auto const& lock : locks_) {
            attempt w;
            w.start_try(lock);
            BOOST_REQUIRE(group_.until([&] { return w.done; }));
            BOOST_TEST(!w.how, w.how.what());
            auto released = w.how ? true : false;
            if (!released) w.held.release([&](release_result r) { released = r.confirmed(); });
            BOOST_REQUIRE(group_.until([&] { return released; }));
        }
        for (auto const& client : group_.clients) {
            BOOST_TEST(client->stats().lost == 0U);
            BOOST_TEST(client->stats().waiters == 0U);
        }
    }

    std::size_t won = 0, cancelled = 0, timed_out = 0, unexpected = 0;
    std::string first_unexpected;

private:
    static constexpr std::size_t clients = 2, keys = 9;
    static constexpr std::array<std::size_t, 4> sizes{2, 5, 20, 200};

    struct operation : attempt {
        bool limited = false, tries_once = false, told = false, counted = false;
    };

    std::size_t below(std::size_t end) { return random_() % end; }

    void start() {
        auto op = std::make_unique<operation>();
        auto const key = below(2) == 0 ? 0 : below(keys);
        auto const& lock = locks_[(below(clients) * keys + key) * 2 + below(2)];
        auto const how = below(20);
        if (how == 0) {
            op->tries_once = true;
            op->start_try(lock);
        } else if (how < 6) {
            op->limited = true;
            op->start_for(lock, std::chrono::microseconds(1 + below(3'000)));
        } else {
            op->start(lock);
        }
        operations_.push_back(std::move(op));
    }
    bool cancel() {
        if (operations_.empty()) return false;
        auto& op = *operations_[below(operations_.size())];
        if (op.done || op.told) return false;
        op.told = true;
        op.signal.emit(every_type[below(every_type.size())]);
        return true;
    }
    void release() {
        for (auto const& op : operations_) {
            if (!op->held || below(2) == 0) continue;
            if (below(4) != 0) op->held.release([](release_result) {});
            op->held = {};
            return;
        }
    }
    void clear_up() {
        for (std::size_t i = 0; i < operations_.size();) {
            auto& op = operations_[i];
            if (op->done && !op->counted) {
                op->counted = true;
                count(*op);
            }
            if (op->done && !op->held) {
                std::swap(op, operations_.back());
                operations_.pop_back();
            } else {
                ++i;
            }
        }
    }
    void count(operation const& op) {
        if (!op.how) {
            ++won;
        } else if (op.told && op.how == errc::cancelled) {
            ++cancelled;
        } else if (op.limited && (op.how == errc::wait_timeout || op.how == errc::no_quorum)) {
            ++timed_out; // no_quorum: no instance answered within the limit
        } else if (!(op.tries_once && op.how == errc::contended) && unexpected++ == 0) {
            first_unexpected = op.how.what();
        }
        if (op.ended != 1 && unexpected++ == 0) first_unexpected = "a handler was called twice";
    }

    fleet const& servers_;
    client_group group_;
    std::mt19937 random_;
    std::size_t most_ = sizes.back();
    std::vector<lock> locks_;
    std::vector<std::unique_ptr<operation>> operations_;
};

} // namespace

BOOST_AUTO_TEST_SUITE(handovers)

//
// Ends of a waiter
//

BOOST_AUTO_TEST_CASE(ten_thousand_cancellations_leave_nothing_behind) {
    constexpr unsigned seed = 20'261;
    constexpr std::size_t in_all = 10'000, rounds = 5, ends = 105; // more than 100
    fleet servers(3);
    storm s(servers, seed);
    std::vector<std::size_t> heap;
    for (std::size_t i = 0; i < rounds; ++i) {
        s.blow(in_all / rounds, (i + 1) * ends / rounds);
        heap.push_back(heap_in_use());
    }
    s.check_fresh_acquires();
    BOOST_TEST(s.unexpected == 0U, s.first_unexpected);
    // Each kind of end has happened many times.
    BOOST_TEST(s.cancelled > in_all / 2);
    BOOST_TEST(s.won > 100U);
    BOOST_TEST(s.timed_out > 100U);
#if !defined HOLDFAST_TEST_SANITIZED
    // A leak grows in each round. Buffers and pools may grow in one round, for example after a
    // pause of the machine.
    std::vector<std::ptrdiff_t> growth;
    for (std::size_t i = 1; i < rounds; ++i)
        growth.push_back(static_cast<std::ptrdiff_t>(heap[i]) -
                         static_cast<std::ptrdiff_t>(heap[i - 1]));
    std::sort(growth.begin(), growth.end());
    BOOST_TEST(growth[rounds - 3] <= 64 * 1024); // 33 bytes for each cancellation exceed this
#endif
}

BOOST_AUTO_TEST_CASE(a_waiter_cancelled_while_it_is_given_the_key_passes_it_on) {
    fleet servers(3);
    for (bool const thread_safe : {true, false}) {
        for (bool const release_first : {true, false}) {
            for (auto const type : every_type) {
                BOOST_TEST_CONTEXT("thread safe " << thread_safe << ", release first "
                                                  << release_first << ", type "
                                                  << static_cast<int>(type)) {
                    auto options = patient();
                    options.thread_safe = thread_safe;
                    test_client client(servers, options);
                    auto held = client.hold("k");
                    auto const lock = client.locks.make_lock("k", long_lived);
                    attempt first, second;
                    first.start(lock);
                    second.start(lock);
                    BOOST_REQUIRE(waits(client, 2));
                    auto released = false;
                    auto const release = [&] {
                        held.release([&](release_result r) {
                            BOOST_TEST(r.confirmed());
                            released = true;
                        });
                    };
                    asio::post(client.context, [&] {
                        if (release_first) release();
                        first.signal.emit(type);
                        if (!release_first) release();
                    });
                    BOOST_REQUIRE(client.until([&] { return released && first.done; }));
                    // A cancellation that comes too late is fine too.
                    BOOST_TEST((first.how == errc::cancelled || (release_first && !first.how)),
                               first.how.what());
                    first.held = {};
                    check_gets(client, second);
                    BOOST_TEST(first.ended == 1);
                    check_nothing_left(client, servers);
                }
            }
        }
    }
}

// With hand-overs the lock passes on in memory, without them by way of the servers.
BOOST_AUTO_TEST_CASE(a_waiter_cancelled_some_turns_after_the_release_passes_the_key_on) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    for (unsigned const limit : {64U, 1U}) {
        lock_options const options{.ttl = 60s, .handover_limit = limit};
        auto const lock = client.locks.make_lock("k", options);
        for (int turns = 0; turns < 40; ++turns) {
            BOOST_TEST_CONTEXT("handover limit " << limit << ", " << turns << " turns") {
                auto held = client.hold("k", options);
                attempt first, second;
                first.start(lock);
                second.start(lock);
                BOOST_REQUIRE(waits(client, 2));
                auto released = false;
                held.release([&](release_result r) { released = r.confirmed(); });
                client.context.restart();
                for (int i = 0; i < turns; ++i) client.context.run_one_for(1ms);
                first.signal.emit(every_type[static_cast<std::size_t>(turns) % every_type.size()]);
                BOOST_REQUIRE(client.until([&] { return released && first.done; }));
                BOOST_TEST((!first.how || first.how == errc::cancelled), first.how.what());
                first.held = {};
                check_gets(client, second);
            }
        }
    }
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(a_waiter_shut_down_while_it_is_given_the_key_passes_it_on) {
    fleet servers(3);
    // The first waiter belongs to the holder's client, or to another one.
    for (std::size_t const of : {0U, 1U}) {
        for (bool const release_first : {true, false}) {
            BOOST_TEST_CONTEXT("first waiter of client " << of << ", release first "
                                                         << release_first) {
                client_group c(servers, 3, patient());
                attempt holder, first, second;
                holder.start(c.key_of(0, "k"));
                BOOST_REQUIRE(c.until([&] { return holder.done; }));
                first.start(c.key_of(of, "k"));
                second.start(c.key_of(2, "k"));
                BOOST_REQUIRE(c.until([&] {
                    return c.clients[of]->stats().waiters == 1 &&
                           c.clients[2]->stats().waiters == 1;
                }));
                auto released = false, down = false;
                auto const release = [&] {
                    holder.held.release([&](release_result) { released = true; });
                };
                asio::post(c.context, [&] {
                    if (release_first) release();
                    c.clients[of]->shutdown([&](error) { down = true; });
                    if (!release_first) release();
                });
                BOOST_REQUIRE(c.until([&] { return released && down && first.done; }));
                BOOST_TEST((!first.how || first.how == errc::shut_down), first.how.what());
                BOOST_TEST(!first.held.held());
                BOOST_REQUIRE(c.until([&] { return second.done; }));
                BOOST_TEST(!second.how, second.how.what());
                BOOST_TEST(second.held.held());
                second.held = {};
                check_nothing_left(c, servers);
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(a_waiter_that_times_out_while_it_is_given_the_key_passes_it_on) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    auto const lock = client.locks.make_lock("k", long_lived);
    std::mt19937 random(4711);
    std::size_t won = 0, timed_out = 0;
    for (int i = 0; i < 200; ++i) {
        BOOST_TEST_CONTEXT("try " << i) {
            auto held = client.hold("k");
            attempt first, second;
            auto const limit = 1ms;
            // The release comes shortly before or after the limit, in the same turn or in another
            // one.
            auto const moment =
                lease_clock::now() + limit - 300us + std::chrono::microseconds(random() % 400);
            auto const idle = random() % 2 == 0;
            first.start_for(lock, limit);
            second.start(lock);
            client.context.restart();
            if (idle) {
                for (int turns = 0; turns < 20; ++turns) client.context.poll_one();
            }
            while (lease_clock::now() < moment) {
                if (!idle) client.context.poll_one();
            }
            auto released = false;
            held.release([&](release_result r) { released = r.confirmed(); });
            BOOST_REQUIRE(client.until([&] { return released && first.done; }));
            BOOST_TEST((!first.how || first.how == errc::wait_timeout), first.how.what());
            ++(first.how ? timed_out : won);
            first.held = {};
            check_gets(client, second);
            BOOST_TEST(first.ended == 1);
        }
    }
    BOOST_TEST_MESSAGE(won << " won, " << timed_out << " timed out");
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(a_waiter_that_times_out_between_two_holders_fails_with_a_wait_timeout) {
    server instance;
    proxy wire(instance);
    test_client client({address(wire.url())});
    BOOST_REQUIRE(client.all_up());
    lock_options const no_handover{.ttl = 60s, .handover_limit = 1};
    auto held = client.hold("k", no_handover);
    attempt w;
    w.start_for(client.locks.make_lock("k", no_handover), 300ms);
    BOOST_REQUIRE(waits(client));
    // The answers to the release and to later commands come after the limit.
    wire.hold_replies();
    held = {};
    BOOST_REQUIRE(client.until([&] { return w.done; }));
    BOOST_TEST((w.how == errc::wait_timeout), w.how.what());
    wire.resume();
}

// A total cancellation does not stop a try under way, but prevents a try at the next arbiter.
BOOST_AUTO_TEST_CASE(a_total_cancellation_does_not_wait_for_another_arbiter) {
    fleet servers(3);
    proxy_group proxies(servers);
    for (auto& proxy : proxies.all)
        proxy.delay_replies(120ms); // slow answers are usual, so no answer is late too soon
    test_client client(proxies.addresses());
    foreign_client foreign(servers);
    foreign.hold("k");
    attempt w;
    w.start(client.locks.make_lock("k", long_lived));
    BOOST_REQUIRE(waits_for_push(client, servers));
    proxies.hold_requests();
    foreign.del("k");
    // The arbiter's connection has the try: SET, CACHING, PTTL.
    auto arbiter = proxies.all.end();
    BOOST_REQUIRE(client.until([&] {
        arbiter = std::find_if(proxies.all.begin(), proxies.all.end(),
                               [](auto const& proxy) { return proxy.commands_held() >= 3; });
        return arbiter != proxies.all.end();
    }));
    w.signal.emit(asio::cancellation_type::total);
    arbiter->cut();
    proxies.resume();
    BOOST_REQUIRE(client.until([&] { return w.done; }));
    BOOST_TEST((w.how == errc::cancelled), w.how.what());
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(a_client_that_stands_back_can_end) {
    fleet servers(1);
    test_client other(servers);
    asio::io_context context;
    {
        auto held = other.hold("k");
        client locks(context.get_executor(), addresses_of(servers), patient());
        attempt w;
        w.start(locks.make_lock("k", long_lived));
        BOOST_REQUIRE(run_until(context, [&] { return locks.stats().waiters == 1; }));
        BOOST_TEST(other.releases(held));
        BOOST_REQUIRE(run_until(context, [&] { return w.done; }));
        BOOST_TEST(!w.how, w.how.what());
    }
    // The client has no work left.
    context.restart();
    context.run_for(10s);
    BOOST_TEST(context.stopped());
    check_nothing_left(other, servers);
}

//
// Leases of a queue
//

// When the first waiter leaves, the next one inherits its try, but not its options.
BOOST_AUTO_TEST_CASE(a_lease_has_the_watchdog_of_its_own_call) {
    for (auto const renewed : {true, false}) {
        BOOST_TEST_CONTEXT("watchdog " << renewed) {
            server instance;
            proxy wire(instance);
            test_client client({address(wire.url())});
            BOOST_REQUIRE(client.all_up());
            attempt first;
            attempt second;
            wire.hold_replies();
            first.start(client.locks.make_lock("k", {.ttl = renewed_ttl, .watchdog = !renewed}));
            second.start(client.locks.make_lock("k", {.ttl = renewed_ttl, .watchdog = renewed}));
            BOOST_REQUIRE(waits(client));
            first.signal.emit(asio::cancellation_type::terminal);
            BOOST_REQUIRE(client.until([&] { return first.done; }));
            wire.resume();
            BOOST_REQUIRE(client.until([&] { return second.done; }));
            BOOST_TEST(!second.how, second.how.what());
            auto const end = second.held.deadline();
            client.pass(end);
            BOOST_TEST(second.held.held() == renewed);
        }
    }
}

// The process stops during a try. That is not a failure of the servers.
BOOST_AUTO_TEST_CASE(a_pause_of_the_process_longer_than_the_ttl_fails_no_acquire) {
    static constexpr auto ttl = 300ms;
    static constexpr lock_options options{.ttl = ttl};
    with_fleets_of({1, 3, 5}, [](fleet& servers) {
        proxy_group proxies(servers);
        test_client client(proxies.addresses());
        BOOST_REQUIRE(client.all_up());
        // The process stops before it reads the answers.
        auto const stop_in_mid_try = [&](auto start) {
            proxies.hold_replies();
            start();
            client.context.restart();
            client.context.poll();
            stand_still(ttl + ttl / 2);
            proxies.resume();
        };
        std::array<attempt, 30> queue;
        stop_in_mid_try([&] {
            for (auto& w : queue) w.start(client.locks.make_lock("k", options));
        });
        for (auto& w : queue) check_gets(client, w);

        attempt once;
        stop_in_mid_try([&] { once.start_try(client.locks.make_lock("k", options)); });
        check_gets(client, once);

        attempt limited;
        stop_in_mid_try([&] { limited.start_for(client.locks.make_lock("k", options), ttl); });
        BOOST_REQUIRE(client.until([&] { return limited.done; }));
        BOOST_TEST(
            (!limited.how || limited.how == errc::wait_timeout || limited.how == errc::no_quorum),
            limited.how.what());
        limited.held = {};
        check_nothing_left(client, servers);
    });
}

// With the shortest ttl, renewals become due as fast as they fail.
BOOST_AUTO_TEST_CASE(the_shortest_leases_are_lost_when_their_servers_go) {
    server instance;
    test_client client({address(instance.url())});
    std::array<attempt, 60> all;
    for (std::size_t i = 0; i < all.size(); ++i) {
        all[i].start(client.locks.make_lock("k" + std::to_string(i), {.ttl = min_ttl}));
    }
    BOOST_REQUIRE(client.until([&] {
        return std::all_of(all.begin(), all.end(), [](attempt const& w) { return w.done; });
    }));
    instance.kill();
    BOOST_TEST(client.until([&] { return client.locks.stats().held == 0; }));
}

// All waiters have waited equally long.
BOOST_AUTO_TEST_CASE(silent_servers_are_told_to_the_whole_queue_at_once) {
    fleet servers(3);
    servers.freeze(3);
    // The connection is given up late. The waiters must not wait for that.
    test_client client(servers, {.instance_timeout = 200ms, .connect_timeout = 30s});
    std::array<attempt, 6> queue;
    for (auto& w : queue) w.start(client.locks.make_lock("k", impatient()));
    BOOST_TEST(client.until([&] {
        return std::all_of(queue.begin(), queue.end(), [](attempt const& w) { return w.done; });
    }));
    for (auto const& w : queue) BOOST_TEST((w.how == error_condition::unavailable), w.how.what());
}

BOOST_AUTO_TEST_CASE(servers_that_are_slower_than_the_lease_is_long_are_told_to_the_queue) {
    server instance;
    proxy wire(instance);
    test_client client({address(wire.url())});
    BOOST_REQUIRE(client.all_up());
    wire.hold_replies();
    std::array<attempt, 6> queue;
    for (auto& w : queue) w.start(client.locks.make_lock("k", {.ttl = 200ms}));
    BOOST_TEST(client.until([&] {
        return std::all_of(queue.begin(), queue.end(), [](attempt const& w) { return w.done; });
    }));
    for (auto const& w : queue) BOOST_TEST((w.how == errc::granted_too_late), w.how.what());
    wire.resume();
}

// The lease is lost while another acquire waits. The next try asks only the arbiter.
BOOST_AUTO_TEST_CASE(instances_that_were_not_asked_are_not_called_unreachable) {
    fleet servers(3);
    test_client client(servers);
    auto held = client.hold("k", {.ttl = renewed_ttl});
    attempt w;
    w.start_for(client.locks.make_lock("k", {.ttl = renewed_ttl}), 3s);
    BOOST_REQUIRE(waits(client));
    for (server& instance : servers) redis_cli(instance).set("k", "foreign", 60s);
    BOOST_REQUIRE(client.until([&] { return w.done; }));
    BOOST_TEST((w.how == errc::wait_timeout), w.how.what());
    BOOST_REQUIRE(w.how.report() != nullptr);
    for (auto const& i : w.how.report()->instances) {
        BOOST_TEST(
            (i.outcome == instance_outcome::held || i.outcome == instance_outcome::not_needed),
            w.how.what());
    }
    BOOST_TEST(w.how.report()->up == 3U);
}

BOOST_AUTO_TEST_SUITE_END()
