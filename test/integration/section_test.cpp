// Critical sections. with_lock() calls the body only under the lock, and releases the lock on every
// way out.
#include "integration/sections.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

asio::awaitable<int> plain_function(lease& l) {
    co_await asio::post(asio::deferred);
    co_return l.held() ? 17 : -1;
}

struct counting_functor {
    explicit counting_functor(int& c)
        : calls(c) {}
    counting_functor(counting_functor&&) = default;
    asio::awaitable<int> operator()(lease&) {
        ++calls;
        co_await asio::post(asio::deferred);
        co_return calls;
    }
    int& calls;
    std::unique_ptr<int> only = std::make_unique<int>(1);
};

} // namespace

BOOST_AUTO_TEST_SUITE(section)

//
// Results
//

BOOST_AUTO_TEST_CASE(a_section_returns_the_result_of_its_body) {
    fleet servers(3);
    test_client client(servers);
    run(client.context, [&]() -> asio::awaitable<void> {
        auto& locks = client.locks;
        int const number =
            co_await with_lock(locks.make_lock("k"), [](lease& l) -> asio::awaitable<int> {
                co_return l.held() ? 42 : -1;
            });
        BOOST_TEST(number == 42);
        std::string const text =
            co_await with_lock(locks.make_lock("k"), [](lease& l) -> asio::awaitable<std::string> {
                co_await asio::post(asio::deferred);
                co_return "a text too long to be kept within the string, of " +
                    std::string(l.key());
            });
        BOOST_TEST(text == "a text too long to be kept within the string, of k");
        auto const moved = co_await with_lock(locks.make_lock("k"),
                                              [](lease&) -> asio::awaitable<std::unique_ptr<int>> {
                                                  co_await asio::post(asio::deferred);
                                                  co_return std::make_unique<int>(7);
                                              });
        BOOST_REQUIRE(moved);
        BOOST_TEST(*moved == 7);
        auto called = 0;
        co_await with_lock(locks.make_lock("k"), [&](lease&) -> asio::awaitable<void> {
            ++called;
            co_return;
        });
        BOOST_TEST(called == 1);
    });
    BOOST_TEST(client.locks.stats().acquired == 4U);
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(the_lock_is_held_meanwhile_and_given_back_before_the_end_is_told) {
    for (std::size_t const size : {1U, 3U, 5U}) {
        fleet servers(size);
        test_client client(servers);
        test_client other(servers);
        run(client.context, [&]() -> asio::awaitable<void> {
            auto& locks = client.locks;
            co_await with_lock(locks.make_lock("k", long_lived),
                               [&](lease& l) -> asio::awaitable<void> {
                                   BOOST_TEST(l.held());
                                   BOOST_TEST(l.key() == "k");
                                   BOOST_TEST(is_held(servers));
                                   co_await asio::post(asio::deferred);
                                   BOOST_TEST((other.try_acquire("k").first == errc::contended));
                                   BOOST_TEST(is_held(servers));
                               });
            BOOST_TEST(given_back(servers));
        });
        client.runs_with(other);
        auto next = other.hold("k");
        BOOST_TEST(other.releases(next));
        check_nothing_left(client, servers);
    }
}

BOOST_AUTO_TEST_CASE(an_exception_of_a_body_is_rethrown_after_the_release) {
    fleet servers(3);
    test_client client(servers);
    run(client.context, [&]() -> asio::awaitable<void> {
        auto& locks = client.locks;
        auto caught = 0;
        try {
            co_await with_lock(locks.make_lock("k", long_lived),
                               [](lease&) -> asio::awaitable<int> {
                                   co_await asio::post(asio::deferred);
                                   throw no_seats{3};
                               });
        } catch (no_seats const& e) {
            BOOST_TEST(e.left == 3);
            BOOST_TEST(given_back(servers));
            ++caught;
        }
        // The body throws before its first suspension.
        try {
            co_await with_lock(locks.make_lock("k", long_lived),
                               [](lease&) -> asio::awaitable<void> {
                                   throw std::out_of_range("row 99");
                                   co_return;
                               });
        } catch (std::out_of_range const& e) {
            BOOST_TEST(std::string(e.what()) == "row 99");
            BOOST_TEST(given_back(servers));
            ++caught;
        }
        // The body throws codes that the library and cancellations also use.
        for (auto const code : {make_error_code(errc::lease_lost), make_error_code(errc::cancelled),
                                error_code(asio::error::operation_aborted)}) {
            try {
                co_await with_lock(locks.make_lock("k", long_lived),
                                   [&](lease&) -> asio::awaitable<int> {
                                       co_await asio::post(asio::deferred);
                                       throw system_error(code, "the body's");
                                   });
            } catch (system_error const& e) {
                BOOST_TEST(e.code() == code);
                BOOST_TEST(std::string(e.what()).find("the body's") == 0U);
                BOOST_TEST(given_back(servers));
                ++caught;
            }
        }
        BOOST_TEST(caught == 5);
    });
    check_nothing_left(client, servers);
}

//
// Executors and tokens
//

BOOST_AUTO_TEST_CASE(a_body_runs_on_the_strand_of_its_caller) {
    fleet servers(3);
    test_client client(servers);
    auto const strand = asio::make_strand(client.context);
    auto checked = 0;
    auto done = false;
    auto const caller = [&]() -> asio::awaitable<void> {
        auto& locks = client.locks;
        co_await with_lock(locks.make_lock("k", long_lived),
                           [&](lease& l) -> asio::awaitable<void> {
                               BOOST_TEST(strand.running_in_this_thread());
                               ++checked;
                               co_await asio::post(asio::deferred);
                               BOOST_TEST(strand.running_in_this_thread());
                               auto const quietly = asio::as_tuple(asio::deferred);
                               co_await l.extend(quietly);
                               BOOST_TEST(strand.running_in_this_thread());
                               ++checked;
                           });
        BOOST_TEST(strand.running_in_this_thread());
    };
    asio::co_spawn(strand, caller(), [&](std::exception_ptr e) {
        BOOST_TEST(!e);
        done = true;
    });
    BOOST_REQUIRE(client.until([&] { return done; }));
    BOOST_TEST(checked == 2);
    // With a callback, the body runs on the callback's executor, or on the client's.
    auto told = 0;
    for (auto const bound : {true, false}) {
        auto const body = [&, bound](lease&) -> asio::awaitable<int> {
            BOOST_TEST(strand.running_in_this_thread() == bound);
            co_await asio::post(asio::deferred);
            BOOST_TEST(strand.running_in_this_thread() == bound);
            co_return 1;
        };
        auto const handler = [&, bound](std::exception_ptr e, int) {
            BOOST_TEST(!e);
            BOOST_TEST(strand.running_in_this_thread() == bound);
            ++told;
        };
        if (bound) {
            with_lock(client.locks.make_lock("k", long_lived), body,
                      asio::bind_executor(strand, handler));
        } else {
            with_lock(client.locks.make_lock("k", long_lived), body, handler);
        }
    }
    BOOST_TEST(told == 0); // not within the call
    BOOST_TEST(client.until([&] { return told == 2; }));
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(a_body_runs_in_the_context_of_its_caller) {
    fleet servers(3);
    test_client client(servers);
    asio::io_context elsewhere;
    std::optional<std::thread::id> there;
    std::atomic<bool> done{false};
    auto const caller = [&]() -> asio::awaitable<void> {
        auto& locks = client.locks;
        there = std::this_thread::get_id();
        auto const number = co_await with_lock(
            locks.make_lock("k", long_lived), [&](lease& l) -> asio::awaitable<int> {
                BOOST_TEST((std::this_thread::get_id() == *there));
                co_await asio::post(asio::deferred);
                co_await l.extend();
                BOOST_TEST((std::this_thread::get_id() == *there));
                co_return 5;
            });
        BOOST_TEST(number == 5);
        BOOST_TEST((std::this_thread::get_id() == *there));
    };
    asio::co_spawn(elsewhere, caller(), [&](std::exception_ptr e) {
        BOOST_TEST(!e);
        done = true;
    });
    std::thread thread([&] { elsewhere.run(); });
    BOOST_TEST(client.until([&] { return done.load(); }));
    if (!done) elsewhere.stop();
    thread.join();
    BOOST_TEST((there != std::this_thread::get_id()));
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(a_section_goes_with_every_token) {
    fleet servers(3);
    test_client client(servers);
    auto const body = [](lease& l) -> asio::awaitable<int> {
        co_await asio::post(asio::deferred);
        co_return l.held() ? 1 : -1;
    };
    auto const fails = [](lease&) -> asio::awaitable<int> {
        co_await asio::post(asio::deferred);
        throw no_seats{4};
    };
    auto const silent = [](lease&) -> asio::awaitable<void> {
        co_await asio::post(asio::deferred);
    };

    ending e;
    with_lock(client.locks.make_lock("k"), body, e.take());
    BOOST_TEST(client.until([&] { return e.done; }));
    BOOST_TEST(!e.thrown);
    BOOST_TEST(e.value == 1);
    auto ended = 0;
    with_lock(client.locks.make_lock("k"), silent,
              [&](std::exception_ptr thrown) { ended += thrown ? 100 : 1; });
    BOOST_TEST(client.until([&] { return ended == 1; }));

    auto number = with_lock(client.locks.make_lock("k"), body, asio::use_future);
    auto nothing = with_lock(client.locks.make_lock("k"), silent, asio::use_future);
    auto failed = with_lock(client.locks.make_lock("k"), fails, asio::use_future);
    auto const ready = [](auto& f) { return f.wait_for(0s) == std::future_status::ready; };
    BOOST_REQUIRE(client.until([&] { return ready(number) && ready(nothing) && ready(failed); }));
    BOOST_TEST(number.get() == 1);
    nothing.get();
    BOOST_CHECK_THROW(failed.get(), no_seats);

    run(client.context, [&]() -> asio::awaitable<void> {
        auto& locks = client.locks;
        {
            auto [thrown, value] = co_await with_lock(locks.make_lock("k"), body, asio::as_tuple);
            BOOST_TEST(!thrown);
            BOOST_TEST(value == 1);
        }
        {
            auto [thrown, value] = co_await with_lock(locks.make_lock("k"), fails, asio::as_tuple);
            BOOST_TEST(value == 0);
            BOOST_CHECK_THROW(std::rethrow_exception(thrown), no_seats);
        }
        {
            auto [thrown] = co_await with_lock(locks.make_lock("k"), silent, asio::as_tuple);
            BOOST_TEST(!thrown);
        }
        BOOST_TEST(co_await with_lock(locks.make_lock("k"), body, asio::use_awaitable) == 1);
        auto const in_time = asio::cancel_after(20s);
        BOOST_TEST(co_await with_lock(locks.make_lock("k"), body, in_time) == 1);
        auto const in_time_quietly = asio::cancel_after(20s, asio::as_tuple);
        auto [thrown, value] = co_await with_lock(locks.make_lock("k"), body, in_time_quietly);
        BOOST_TEST(!thrown);
        BOOST_TEST(value == 1);

        // The operation is lazy: it has no effect until it is started.
        {
            auto const before = locks.stats().rounds;
            auto called = 0;
            auto counts = [&](lease&) -> asio::awaitable<void> {
                ++called;
                co_return;
            };
            { [[maybe_unused]] auto const dropped = with_lock(locks.make_lock("k"), counts); }
            auto later = with_lock(locks.make_lock("k"), counts);
            for (int i = 0; i < 5; ++i) co_await asio::post(asio::deferred);
            BOOST_TEST(called == 0);
            BOOST_TEST(locks.stats().rounds == before);
            co_await std::move(later);
            BOOST_TEST(called == 1);
        }

        // Two sections run at once. After that, the first of two sections to end cancels the other.
        auto first = with_lock(locks.make_lock("a"), body);
        auto second = with_lock(locks.make_lock("b"), silent);
        auto both = asio::experimental::make_parallel_group(std::move(first), std::move(second));
        auto ended_both =
            co_await both.async_wait(asio::experimental::wait_for_all(), asio::deferred);
        BOOST_TEST(!std::get<1>(ended_both));
        BOOST_TEST(std::get<2>(ended_both) == 1);
        BOOST_TEST(!std::get<3>(ended_both));
        auto was_cancelled = false;
        auto const endless = [&](lease&) -> asio::awaitable<void> {
            was_cancelled = co_await wait_for_signal();
        };
        auto short_one = with_lock(locks.make_lock("a"), body);
        auto long_one = with_lock(locks.make_lock("b"), endless);
        auto race =
            asio::experimental::make_parallel_group(std::move(short_one), std::move(long_one));
        auto ended_race =
            co_await race.async_wait(asio::experimental::wait_for_one(), asio::deferred);
        BOOST_TEST(std::get<2>(ended_race) == 1);
        BOOST_TEST(copies(servers, "b") <= 1U);
        // The second section may have been cancelled before its body was called.
        BOOST_TEST((was_cancelled || is_cancellation(code_of(std::get<3>(ended_race)))));
    });
    check_nothing_left(client, servers);
}

//
// Sections without the lock
//

BOOST_AUTO_TEST_CASE(without_the_lock_the_body_is_not_called) {
    fleet servers(3);
    auto called = 0;
    auto const body = [&](lease&) -> asio::awaitable<int> {
        ++called;
        co_return 1;
    };
    test_client holder(servers);
    test_client client(servers, hasty());
    BOOST_REQUIRE(client.all_up());
    // Another client holds the lock until the limit.
    auto held = holder.hold("k");
    run(client.context, [&]() -> asio::awaitable<void> {
        auto& locks = client.locks;
        auto const token = asio::cancel_after(200ms, asio::as_tuple);
        auto [thrown, value] = co_await with_lock(locks.make_lock("k", long_lived), body, token);
        BOOST_TEST(is_cancellation(code_of(thrown)));
        BOOST_TEST(value == 0);
    });
    BOOST_TEST(holder.releases(held));
    // The key holds a list.
    for (server& instance : servers) redis_cli(instance).command({"RPUSH", "list", "x"});
    ending wrong;
    with_lock(client.locks.make_lock("list", long_lived), body, wrong.take());
    BOOST_REQUIRE(client.until([&] { return wrong.done; }));
    BOOST_TEST((wrong.code() == errc::wrong_type));
    for (server& instance : servers) redis_cli(instance).del("list");
    // The call itself reports invalid keys and options.
    auto const rejects = [&](std::string const& key, lock_options const& o, errc expected) {
        BOOST_CHECK_EXCEPTION((void)with_lock(client.locks.make_lock(key, o), body), system_error,
                              [&](system_error const& e) { return e.code() == expected; });
        BOOST_CHECK_EXCEPTION(
            with_lock(client.locks.make_lock(key, o), body, [](std::exception_ptr, int) {}),
            system_error, [&](system_error const& e) { return e.code() == expected; });
    };
    rejects("", {}, errc::invalid_key);
    rejects(std::string(max_key_size + 1, 'x'), {}, errc::invalid_key);
    rejects("k", {.ttl = 1ms}, errc::invalid_options);
    rejects("k", {.ttl = 1s, .cancel_margin = 501ms}, errc::invalid_options);
    // Two of three instances are down.
    servers.kill(2);
    ending down;
    with_lock(client.locks.make_lock("k", impatient()), body, down.take());
    BOOST_REQUIRE(client.until([&] { return down.done; }));
    BOOST_TEST((down.code() == error_condition::unavailable));
    BOOST_TEST(called == 0);
    BOOST_TEST((client.locks.stats().pending == 0U));
}

BOOST_AUTO_TEST_CASE(a_shutdown_while_it_waits_ends_it_without_the_body) {
    fleet servers(3);
    test_client client(servers);
    auto held = client.hold("k");
    auto called = 0;
    ending e;
    with_lock(
        client.locks.make_lock("k", long_lived),
        [&](lease&) -> asio::awaitable<int> {
            ++called;
            co_return 1;
        },
        e.take());
    BOOST_REQUIRE(client.until([&] { return client.locks.stats().waiters == 1; }));
    auto shut = false;
    client.locks.shutdown([&](error) { shut = true; });
    BOOST_TEST(client.until([&] { return e.done && shut; }));
    BOOST_TEST((e.code() == errc::shut_down));
    ending after;
    with_lock(
        client.locks.make_lock("k", long_lived),
        [](lease&) -> asio::awaitable<int> { co_return 1; }, after.take());
    BOOST_TEST(client.until([&] { return after.done; }));
    BOOST_TEST((after.code() == errc::shut_down));
    BOOST_TEST(called == 0);
    check_nothing_left(client, servers);
}

//
// Bodies
//

BOOST_AUTO_TEST_CASE(a_body_may_be_anything_that_can_be_called) {
    fleet servers(3);
    test_client client(servers);
    run(client.context, [&]() -> asio::awaitable<void> {
        auto& locks = client.locks;
        BOOST_TEST(co_await with_lock(locks.make_lock("k"), plain_function) == 17);
        BOOST_TEST(co_await with_lock(locks.make_lock("k"), &plain_function) == 17);
        // This function is no coroutine.
        auto const passes_on = [](lease& l) { return plain_function(l); };
        BOOST_TEST(co_await with_lock(locks.make_lock("k"), passes_on) == 17);
        std::function<asio::awaitable<int>(lease&)> const erased = plain_function;
        BOOST_TEST(co_await with_lock(locks.make_lock("k"), erased) == 17);
        auto calls = 0;
        counting_functor once(calls);
        BOOST_TEST(co_await with_lock(locks.make_lock("k"), std::ref(once)) == 1);
        BOOST_TEST(co_await with_lock(locks.make_lock("k"), std::ref(once)) == 2);
        BOOST_REQUIRE(once.only);
        // Outside a co_await expression, the operation can also be moved.
        auto consumed = with_lock(locks.make_lock("k"), plain_function);
        BOOST_TEST(co_await std::move(consumed) == 17);
        // Bodies that throw before they make a coroutine.
        auto const throws = [](lease&) -> asio::awaitable<int> { throw no_seats{5}; };
        auto caught = 0;
        auto const throws_at_once = [&](lease& l) {
            if (l.held()) throw no_seats{6};
            return plain_function(l);
        };
        try {
            co_await with_lock(locks.make_lock("k"), throws);
        } catch (no_seats const& e) {
            BOOST_TEST(e.left == 5);
            ++caught;
        }
        try {
            co_await with_lock(locks.make_lock("k"), throws_at_once);
        } catch (no_seats const& e) {
            BOOST_TEST(e.left == 6);
            BOOST_TEST(given_back(servers));
            ++caught;
        }
        BOOST_TEST(caught == 2);
    });
    check_nothing_left(client, servers);
}

// Compilers had faults that destroyed such captures twice, or before their coroutine ended.
BOOST_AUTO_TEST_CASE(captures_of_a_body_live_as_long_as_its_coroutine_and_die_once) {
    fleet servers(3);
    test_client client(servers);
    auto const shared =
        std::make_shared<std::string>("a text that is too long to be kept in the string");
    run(client.context, [&]() -> asio::awaitable<void> {
        auto& locks = client.locks;
        {
            auto const body = [shared](lease&) -> asio::awaitable<std::size_t> {
                co_await asio::post(asio::deferred);
                BOOST_TEST(shared.use_count() > 1);
                co_return shared->size();
            };
            auto const before = shared.use_count();
            BOOST_TEST(before == 2);
            for (int i = 0; i < 3; ++i) {
                BOOST_TEST(co_await with_lock(locks.make_lock("k"), body) == shared->size());
                BOOST_TEST(shared.use_count() == before);
            }
            auto reference = std::ref(body);
            BOOST_TEST(co_await with_lock(locks.make_lock("k"), reference) == shared->size());
            BOOST_TEST(co_await with_lock(locks.make_lock("k"), std::ref(body)) == shared->size());
            BOOST_TEST(shared.use_count() == before);
            auto const token = asio::cancel_after(20s, asio::as_tuple);
            auto [thrown, size] = co_await with_lock(locks.make_lock("k"), body, token);
            BOOST_TEST(!thrown);
            BOOST_TEST(size == shared->size());
            BOOST_TEST(shared.use_count() == before);
        }
        BOOST_TEST(shared.use_count() == 1);
        // A body with captures by reference may be written in place.
        auto const text =
            std::make_shared<std::string>("another text that is too long to be kept in it");
        auto const size =
            co_await with_lock(locks.make_lock("k"), [&](lease&) -> asio::awaitable<std::size_t> {
                co_await asio::post(asio::deferred);
                co_return text->size() + shared->size();
            });
        BOOST_TEST(size == text->size() + shared->size());
        BOOST_TEST(text.use_count() == 1);
    });
    // The section keeps a copy of the body until its end, also if the original is destroyed.
    ending e;
    auto entered = false, go_on = false;
    {
        auto const body = [shared, &entered, &go_on](lease&) -> asio::awaitable<int> {
            entered = true;
            while (!go_on) co_await asio::post(asio::deferred);
            co_return static_cast<int>(shared->size());
        };
        with_lock(client.locks.make_lock("k"), body, e.take());
    }
    BOOST_TEST(client.until([&] { return entered; }));
    BOOST_TEST(shared.use_count() == 2);
    go_on = true;
    BOOST_TEST(client.until([&] { return e.done; }));
    BOOST_TEST(e.value == static_cast<int>(shared->size()));
    BOOST_TEST(shared.use_count() == 1);
}

//
// Several sections
//

BOOST_AUTO_TEST_CASE(sections_nest_on_other_keys) {
    fleet servers(3);
    test_client client(servers);
    run(client.context, [&]() -> asio::awaitable<void> {
        auto& locks = client.locks;
        auto const all =
            co_await with_lock(locks.make_lock("a"), [&](lease& outer) -> asio::awaitable<int> {
                auto const inner_result = co_await with_lock(
                    locks.make_lock("b"), [&](lease& inner) -> asio::awaitable<int> {
                        BOOST_TEST(is_held(servers, "a"));
                        BOOST_TEST(is_held(servers, "b"));
                        BOOST_TEST((outer.held() && inner.held()));
                        co_return 20;
                    });
                BOOST_TEST(given_back(servers, "b"));
                BOOST_TEST(is_held(servers, "a"));
                co_return inner_result + 1;
            });
        BOOST_TEST(all == 21);
        BOOST_TEST(given_back(servers, "a"));
        // An error of the inner section reaches the outer body.
        try {
            co_await with_lock(locks.make_lock("a"), [&](lease&) -> asio::awaitable<void> {
                co_await with_lock(locks.make_lock("b"), [](lease&) -> asio::awaitable<void> {
                    throw no_seats{9};
                    co_return;
                });
            });
            BOOST_ERROR("nothing was thrown");
        } catch (no_seats const& e) {
            BOOST_TEST(e.left == 9);
        }
    });
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(a_thousand_sections_on_one_key_run_one_at_a_time_and_in_order) {
    constexpr int sections = 1'000;
    fleet servers(3);
    test_client client(servers);
    auto inside = 0, violations = 0, failed = 0, done = 0;
    std::vector<int> order;
    auto const section = [&](int number) -> asio::awaitable<void> {
        auto const body = [&, number](lease& l) -> asio::awaitable<int> {
            if (++inside != 1 || !l.held()) ++violations;
            order.push_back(number);
            co_await asio::post(asio::deferred);
            --inside;
            co_return number;
        };
        if (co_await with_lock(client.locks.make_lock("k", {.ttl = 60s}), body) != number) ++failed;
    };
    for (int i = 0; i < sections; ++i) {
        asio::co_spawn(client.context, section(i), [&](std::exception_ptr e) {
            if (e) ++failed;
            ++done;
        });
    }
    BOOST_REQUIRE(run_until(
        client.context, [&] { return done == sections; }, 60s));
    BOOST_TEST(violations == 0);
    BOOST_TEST(failed == 0);
    BOOST_TEST(order.size() == static_cast<std::size_t>(sections));
    BOOST_TEST(std::is_sorted(order.begin(), order.end()));
    BOOST_TEST(client.locks.stats().handovers > 0U);
    check_nothing_left(client, servers);
}

// The sections run in a pool of threads. A coroutine and its cancellation need one strand.
BOOST_AUTO_TEST_CASE(sections_run_in_many_threads) {
    constexpr int coroutines = 16, each = 25;
    fleet servers(3);
    asio::thread_pool pool(4);
    std::atomic<int> inside{0}, violations{0}, failed{0}, ended{0}, sections{0};
    std::promise<void> all_done;
    {
        client locks(pool.get_executor(), addresses_of(servers), patient());
        auto const worker = [&](std::chrono::microseconds patience) -> asio::awaitable<void> {
            auto const body = [&](lease&) -> asio::awaitable<void> {
                if (++inside != 1) ++violations;
                ++sections;
                co_await asio::post(asio::deferred);
                --inside;
            };
            for (int i = 0; i < each; ++i) {
                auto const token = asio::cancel_after(patience, asio::as_tuple);
                auto [thrown] = co_await with_lock(locks.make_lock("k", long_lived), body, token);
                if (thrown && !is_cancellation(code_of(thrown))) ++failed;
            }
        };
        for (int i = 0; i < coroutines; ++i) {
            // Half of the sections are cancelled, at any step.
            auto const patience =
                i % 2 == 0 ? std::chrono::microseconds(60s) : std::chrono::microseconds(300 * i);
            asio::co_spawn(asio::make_strand(pool), worker(patience), [&](std::exception_ptr e) {
                if (e) ++failed;
                if (++ended == coroutines) all_done.set_value();
            });
        }
        BOOST_TEST((all_done.get_future().wait_for(60s) == std::future_status::ready));
        BOOST_TEST(violations == 0);
        BOOST_TEST(failed == 0);
        BOOST_TEST(sections >= coroutines / 2 * each);
        auto shut = locks.shutdown(asio::use_future);
        BOOST_TEST((shut.wait_for(20s) == std::future_status::ready));
    }
    pool.join();
    check_nothing_left(servers);
}

BOOST_AUTO_TEST_SUITE_END()
