// One client in many threads. The tests serve mostly the thread sanitizer.
#include "integration/test_client.hpp"
#include "support/wait.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

constexpr int thread_count = 4;

// Counts the holders of a key.
struct section {
    std::atomic<int> inside{0}, visits{0}, violations{0};
};

asio::awaitable<void> visit(lock key, section& s, int times) {
    for (int i = 0; i < times; ++i) {
        auto held = co_await key.acquire();
        if (s.inside.fetch_add(1) != 0) ++s.violations;
        ++s.visits;
        s.inside.fetch_sub(1);
        if (i % 3 == 0) continue; // the lease is released by its destruction
        co_await held.release();
    }
}

// The lock orders the accesses to this count: releases and wins of a client pass through its
// executor.
asio::awaitable<void> count_once(lock const& key, int& plain) {
    auto held = co_await key.acquire();
    ++plain;
    co_await held.release();
}

// Counts the running coroutines, and rethrows the first exception.
class group {
public:
    template <class Context>
    void spawn(Context& context, asio::awaitable<void> coroutine) {
        ++running_;
        asio::co_spawn(context, std::move(coroutine), [this](std::exception_ptr e) {
            if (e && !failed_.exchange(true)) thrown_ = e;
            --running_;
        });
    }
    void wait() {
        BOOST_REQUIRE(wait_until([&] { return running_ == 0; }, 60s));
        if (failed_) std::rethrow_exception(thrown_);
    }

private:
    std::atomic<int> running_{0};
    std::atomic<bool> failed_{false};
    std::exception_ptr thrown_;
};

} // namespace

BOOST_AUTO_TEST_SUITE(threads)

BOOST_AUTO_TEST_CASE(coroutines_on_every_thread_share_one_lock) {
    fleet servers(3);
    asio::thread_pool pool(thread_count);
    {
        client locks(pool.get_executor(), addresses_of(servers), patient());
        auto const hot = locks.make_lock("hot", {.ttl = 60s, .max_retry_delay = 5ms});
        section s;
        group all;
        for (int i = 0; i < 20; ++i) all.spawn(pool, visit(hot, s, 4));
        all.wait();
        BOOST_TEST(s.visits == 80);
        BOOST_TEST(s.violations == 0);
        all.spawn(pool, [](client& c) -> asio::awaitable<void> { co_await c.shutdown(); }(locks));
        all.wait();
    }
    pool.join();
}

BOOST_AUTO_TEST_CASE(data_under_the_lock_needs_no_atomic) {
    fleet servers(3);
    asio::thread_pool pool(thread_count);
    {
        client locks(pool.get_executor(), addresses_of(servers), patient());
        auto const hot = locks.make_lock(
            "hot", {.ttl = 60s, .max_retry_delay = 50ms}); // all coroutines share it
        constexpr int visitors = 200;
        auto plain = 0;
        group all;
        for (int i = 0; i < visitors; ++i) all.spawn(pool, count_once(hot, plain));
        all.wait();
        BOOST_TEST(plain == visitors);
        locks.shutdown(asio::use_future).get();
    }
    pool.join();
    check_nothing_left(servers);
}

BOOST_AUTO_TEST_CASE(many_locks_on_every_thread_of_a_context) {
    fleet servers(3);
    asio::io_context context(thread_count);
    auto work = std::make_optional(asio::make_work_guard(context));
    std::vector<std::thread> workers;
    for (int i = 0; i < thread_count; ++i) workers.emplace_back([&] { context.run(); });
    {
        client first(context.get_executor(), addresses_of(servers), patient());
        client second(context.get_executor(), addresses_of(servers), patient());
        std::vector<section> sections(25);
        group all;
        for (std::size_t i = 0; i < 200; ++i) {
            auto const key = "key:" + std::to_string(i % sections.size());
            auto& from = i % 2 == 0 ? first : second;
            all.spawn(context, visit(from.make_lock(key, {.ttl = 60s, .max_retry_delay = 5ms}),
                                     sections[i % sections.size()], 3));
        }
        // Any thread may read at any time.
        std::atomic<bool> looking{true};
        std::thread spectator([&] {
            while (looking) {
                (void)first.stats();
                (void)second.instances();
                std::this_thread::yield();
            }
        });
        all.wait();
        looking = false;
        spectator.join();
        for (auto const& s : sections) {
            BOOST_TEST(s.violations == 0);
            BOOST_TEST(s.visits == 24);
        }
    }
    work.reset();
    for (auto& w : workers) w.join();
}

BOOST_AUTO_TEST_CASE(threads_outside_wait_for_futures) {
    fleet servers(3);
    asio::thread_pool pool(2);
    {
        client locks(pool.get_executor(), addresses_of(servers), patient());
        auto const key = locks.make_lock("k", {.ttl = 60s, .max_retry_delay = 5ms});
        section s;
        std::vector<std::thread> outside;
        for (int t = 0; t < thread_count; ++t) {
            outside.emplace_back([&] {
                for (int i = 0; i < 10; ++i) {
                    auto held = key.acquire(asio::use_future).get();
                    if (s.inside.fetch_add(1) != 0) ++s.violations;
                    ++s.visits;
                    if (!held.held() || held.remaining() <= 0s) ++s.violations;
                    s.inside.fetch_sub(1);
                    if (i % 2 == 0) (void)held.release(asio::use_future).get();
                    // In the other case the lease is destroyed here, outside the client's threads.
                }
            });
        }
        for (auto& t : outside) t.join();
        BOOST_TEST(s.visits == 10 * thread_count);
        BOOST_TEST(s.violations == 0);
        locks.shutdown(asio::use_future).get();
    }
    pool.join();
    check_nothing_left(servers);
}

BOOST_AUTO_TEST_CASE(leases_are_read_and_destroyed_on_other_threads) {
    fleet servers(3);
    asio::thread_pool pool(thread_count);
    {
        client locks(pool.get_executor(), addresses_of(servers), patient());
        for (int i = 0; i < 20; ++i) {
            auto const key = locks.make_lock("key:" + std::to_string(i), long_lived);
            auto held = std::make_shared<lease>(key.acquire(asio::use_future).get());
            // The deadline moves during the reads.
            std::atomic<bool> looking{true};
            std::thread spectator([&] {
                while (looking) {
                    (void)held->held();
                    (void)held->remaining();
                    (void)held->deadline();
                    std::this_thread::yield();
                }
            });
            for (auto n = 0; n < 10; ++n) held->extend(asio::use_future).get();
            looking = false;
            spectator.join();
            std::thread([last = std::move(held)]() mutable { last.reset(); }).join();
        }
        BOOST_TEST(wait_until([&] { return locks.stats().held == 0; }));
    }
    pool.join();
}

BOOST_AUTO_TEST_CASE(cancellations_race_with_wins) {
    fleet servers(3);
    asio::thread_pool pool(thread_count);
    {
        client locks(pool.get_executor(), addresses_of(servers), patient());
        auto const key = locks.make_lock("k", {.ttl = 60s, .max_retry_delay = 5ms});
        std::atomic<int> won{0}, cancelled{0}, other{0};
        constexpr int times = 400;
        for (int i = 0; i < times; ++i) {
            // A signal is not thread-safe, so it uses the handler's strand.
            struct call {
                explicit call(asio::thread_pool& on)
                    : strand(asio::make_strand(on.get_executor())) {}
                asio::strand<asio::thread_pool::executor_type> strand;
                asio::cancellation_signal signal;
            };
            auto const c = std::make_shared<call>(pool);
            asio::post(c->strand, [&, c, key, i] {
                key.acquire(asio::bind_cancellation_slot(
                    c->signal.slot(), asio::bind_executor(c->strand, [&, c](error e, lease l) {
                        BOOST_ASSERT(c->strand.running_in_this_thread());
                        if (!e) {
                            ++won;
                        } else if (e == errc::cancelled) {
                            ++cancelled;
                        } else {
                            ++other;
                        }
                        l = {};
                    })));
                auto const type = i % 3 == 0   ? asio::cancellation_type::total
                                  : i % 3 == 1 ? asio::cancellation_type::partial
                                               : asio::cancellation_type::terminal;
                // The signal comes at once, or after other handlers.
                if (i % 2 == 0) {
                    c->signal.emit(type);
                } else {
                    asio::post(pool, [c, type] {
                        asio::post(c->strand, [c, type] { c->signal.emit(type); });
                    });
                }
            });
        }
        BOOST_TEST(wait_until([&] { return won + cancelled + other == times; }, 60s));
        BOOST_TEST(other == 0);
        BOOST_TEST(cancelled > 0);
        // Leases that were granted meanwhile were released.
        auto held = key.acquire(asio::use_future).get();
        BOOST_TEST(held.held());
        (void)held.release(asio::use_future).get();
        check_nothing_left(servers, 5s);
    }
    pool.join();
}

BOOST_AUTO_TEST_CASE(a_shutdown_comes_while_others_acquire) {
    for (int round = 0; round < 5; ++round) {
        fleet servers(1);
        asio::thread_pool pool(thread_count);
        {
            client locks(pool.get_executor(), addresses_of(servers), patient());
            std::atomic<int> ended{0}, wrong{0}, won{0};
            constexpr int times = 200;
            std::vector<std::thread> callers;
            for (int t = 0; t < 2; ++t) {
                callers.emplace_back([&] {
                    for (int i = 0; i < times; ++i) {
                        auto const key = locks.make_lock("key:" + std::to_string(i % 7),
                                                         {.max_retry_delay = 2ms});
                        key.acquire([&](error e, lease) {
                            if (!e) {
                                ++won;
                            } else if (!(e == errc::shut_down)) {
                                ++wrong;
                            }
                            ++ended;
                        });
                    }
                });
            }
            BOOST_TEST(wait_until([&] { return won > round * 3; }));
            locks.shutdown(asio::use_future).get();
            for (auto& c : callers) c.join();
            BOOST_TEST(wait_until([&] { return ended == 2 * times; }));
            BOOST_TEST(wrong == 0);
        }
        pool.join();
    }
}

BOOST_AUTO_TEST_SUITE_END()
