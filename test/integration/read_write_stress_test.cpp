// Many readers, writers that come all the time, threads that cancel at random, and calls in any
// order.
#include "integration/read_write_crowd.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

constexpr lock_options quick{.ttl = 60s, .max_retry_delay = 5ms};

void run_crowd(crowd_size const& size, std::size_t reads, std::size_t writes) {
    fleet servers(3);
    read_write_crowd c(addresses_of(servers), quick, patient(), size);
    c.goes_on(reads, writes, 120s);
    c.stops();
    BOOST_TEST(c.lost == 0U);
    BOOST_TEST(c.all.most_readers() > 100);
    std::uint64_t shared = 0, acquired = 0;
    for (auto const& each : c.group.clients) {
        shared += each->stats().handovers;
        acquired += each->stats().acquired;
    }
    BOOST_TEST_MESSAGE(acquired << " leases, " << shared << " of them without I/O, at most "
                                << c.all.most_readers() << " readers at one time");
    check_only_turns_left(c.group, servers);
}

} // namespace

BOOST_AUTO_TEST_SUITE(read_write_stress)

BOOST_AUTO_TEST_CASE(a_thousand_readers_in_one_process) {
    run_crowd({.clients = 1, .readers = 1'000, .writers = 2, .between_writes = 5ms}, 10'000, 50);
}

BOOST_AUTO_TEST_CASE(a_thousand_readers_of_four_processes) {
    run_crowd({.clients = 4, .readers = 250, .writers = 1, .between_writes = 5ms}, 10'000, 50);
}

namespace {

/// On several threads, where the macros of the tests may not be used.
struct counts {
    std::atomic<unsigned> won = 0, running = 0, lost = 0, thrown = 0;
};

asio::awaitable<void> pause_for(std::chrono::microseconds d) {
    asio::steady_timer timer(co_await asio::this_coro::executor, d);
    co_await timer.async_wait(asio::deferred);
}

/// Acquires with limits at random, from any thread, and does whatever a holder may do.
asio::awaitable<void> hurry(read_write_lock on, unsigned rounds, unsigned seed,
                            read_write_ledger& all, counts& n) {
    std::mt19937 random(seed);
    auto const moment = [&random] { return std::chrono::microseconds(random() % 3'000); };
    auto const quietly = asio::as_tuple(asio::use_awaitable);
    for (unsigned i = 0; i < rounds; ++i) {
        auto writer = random() % 4 == 0;
        auto const& wanted = writer ? on.write() : on.read();
        auto token = asio::cancel_after(moment(), asio::as_tuple(asio::use_awaitable));
        error failed;
        lease held;
        switch (random() % 4) {
        case 0: {
            auto got = co_await wanted.try_acquire(quietly);
            std::tie(failed, held) = std::move(got);
            break;
        }
        case 1: {
            auto got = co_await wanted.try_acquire_for(moment(), quietly);
            std::tie(failed, held) = std::move(got);
            break;
        }
        default: {
            auto got = co_await wanted.acquire(token);
            std::tie(failed, held) = std::move(got);
        }
        }
        if (failed) continue;
        ++n.won;
        writer ? all.writer_enters() : all.reader_enters();
        co_await pause_for(moment() / 10);
        if (writer && random() % 2 == 0) {
            all.writer_leaves();
            all.reader_enters();
            writer = false;
            auto hasty = asio::cancel_after(moment(), asio::as_tuple(asio::use_awaitable));
            (void)co_await held.downgrade(hasty);
        }
        switch (random() % 8) {
        case 0: {
            auto hasty = asio::cancel_after(moment(), asio::as_tuple(asio::use_awaitable));
            (void)co_await held.extend(hasty);
            break;
        }
        case 1:
            (void)co_await held.extend(std::chrono::milliseconds(30'000 + random() % 20'000),
                                       quietly);
            break;
        case 2:
            held.extend_while([] { return true; });
            break;
        case 3: {
            auto hasty = asio::cancel_after(moment() / 10, asio::as_tuple(asio::use_awaitable));
            (void)co_await held.wait_end(hasty);
            break;
        }
        default:
            break;
        }
        if (!held.held()) ++n.lost;
        writer ? all.writer_leaves() : all.reader_leaves();
        if (random() % 3 != 0) (void)co_await held.release();
    }
}

} // namespace

BOOST_AUTO_TEST_CASE(threads_that_cancel_at_random_leave_nothing) {
    fleet servers(3);
    asio::io_context context(4);
    client one(context.get_executor(), addresses_of(servers), patient());
    client two(context.get_executor(), addresses_of(servers), patient());
    read_write_ledger all;
    counts n;
    auto const end = [&](std::exception_ptr e) {
        if (e) ++n.thrown;
        if (--n.running != 0) return;
        for (auto* const each : {&one, &two}) each->drain(10s, [each](error) { each->close(); });
    };
    n.running = 24;
    for (unsigned i = 0; i < 24; ++i) {
        lock_options options{.ttl = 50s};
        options.ttl -= std::chrono::seconds(i % 3); // tenures of their own
        options.fencing = i % 5 == 0;
        if (i % 7 == 0) options.max_hold = 10s;
        auto const on = (i % 2 == 0 ? one : two).make_read_write_lock("k", options);
        asio::co_spawn(asio::make_strand(context), hurry(on, 300, i + 1, all, n), end);
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) threads.emplace_back([&] { context.run(); });
    context.run();
    for (auto& t : threads) t.join();
    BOOST_TEST(n.won.load() > 0U);
    BOOST_TEST(all.reads() > 0U);
    BOOST_TEST(all.writes() > 0U);
    BOOST_TEST(all.overlaps() == 0U);
    BOOST_TEST(n.lost.load() == 0U);
    BOOST_TEST(n.thrown.load() == 0U);
    BOOST_TEST(one.stats().pending + two.stats().pending == 0U);
    BOOST_TEST(copies(servers, "k") + copies(servers, readers_of_k) == 0U);
    BOOST_TEST(copies(servers, intent_on_k) == 0U);
    BOOST_TEST_MESSAGE(n.won.load() << " leases, " << one.stats().handovers + two.stats().handovers
                                    << " of them without I/O");
}

// Leases pass from client to client, and through all calls, in an order that changes with the seed.
BOOST_AUTO_TEST_CASE(calls_in_any_order_keep_readers_and_writers_apart) {
    fleet servers(3);
    std::uint64_t done = 0;
    for (unsigned seed = 1; seed <= 50; ++seed) {
        BOOST_TEST_CONTEXT("seed " << seed) {
            client_group group(servers, 3, patient());
            std::mt19937 random(seed);
            struct holding {
                lease held;
                bool writes;
            };
            std::vector<std::unique_ptr<attempt>> waiting;
            std::vector<bool> wants_to_write;
            std::vector<holding> all;
            auto const collect = [&] {
                for (std::size_t i = 0; i < waiting.size();) {
                    if (!waiting[i]->done) {
                        ++i;
                        continue;
                    }
                    if (!waiting[i]->how)
                        all.push_back({std::move(waiting[i]->held), wants_to_write[i]});
                    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(i));
                    wants_to_write.erase(wants_to_write.begin() + static_cast<std::ptrdiff_t>(i));
                }
            };
            auto const steps = [&](int n) {
                for (int i = 0; i < n; ++i) group.context.run_one_for(1ms);
            };
            group.context.restart();
            for (int i = 0; i < 300; ++i) {
                auto& c = *group.clients[random() % 3];
                lock_options o{.ttl = std::chrono::seconds(20 + random() % 3 * 10)};
                auto const both = c.make_read_write_lock("k", o);
                auto const pick = all.empty() ? 0 : random() % all.size();
                switch (random() % 10) {
                case 0:
                case 1:
                case 2: {
                    auto const write = random() % 3 == 0;
                    waiting.push_back(std::make_unique<attempt>());
                    wants_to_write.push_back(write);
                    auto const& on = write ? both.write() : both.read();
                    random() % 2 == 0 ? waiting.back()->start(on) : waiting.back()->start_try(on);
                    break;
                }
                case 3:
                    if (!waiting.empty())
                        waiting[random() % waiting.size()]->signal.emit(
                            asio::cancellation_type::terminal);
                    break;
                case 4:
                    if (!all.empty() && all[pick].writes) {
                        all[pick].held.downgrade([](error) {});
                        all[pick].writes = false;
                    }
                    break;
                case 5:
                    if (!all.empty()) all[pick].held.extend([](error) {});
                    break;
                case 6:
                    if (!all.empty()) {
                        auto const token = all[pick].held.token();
                        auto const write = all[pick].writes;
                        // Others that share it go on, and so it stays for its ttl.
                        if (!write) break;
                        all[pick].held.detach();
                        all.erase(all.begin() + static_cast<std::ptrdiff_t>(pick));
                        auto adopted = false;
                        c.adopt(both.write(), token, [&](error e, lease l) {
                            adopted = true;
                            if (!e) all.push_back({std::move(l), true});
                        });
                        BOOST_REQUIRE(group.until([&] { return adopted; }));
                        group.context.restart();
                    }
                    break;
                default:
                    if (!all.empty()) {
                        if (random() % 2 == 0) all[pick].held.release([](release_result) {});
                        all.erase(all.begin() + static_cast<std::ptrdiff_t>(pick));
                    }
                }
                steps(static_cast<int>(random() % 4));
                collect();
                std::size_t readers = 0, writers = 0;
                for (auto const& each : all)
                    if (each.held.held()) ++(each.writes ? writers : readers);
                BOOST_TEST((writers == 0 || (writers == 1 && readers == 0)),
                           writers << " writers and " << readers << " readers");
                done += all.size();
            }
            for (auto& each : waiting) each->signal.emit(asio::cancellation_type::terminal);
            BOOST_REQUIRE(group.until([&] {
                collect();
                all.clear();
                return waiting.empty();
            }));
            check_only_turns_left(group, servers);
            forget_turns(servers);
        }
    }
    BOOST_TEST(done > 100U);
}

BOOST_AUTO_TEST_SUITE_END()
