// Every asynchronous function with every completion token.
#include "integration/test_client.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/bind_immediate_executor.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/cancel_at.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/experimental/coro.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/experimental/promise.hpp> // before the next one
#include <boost/asio/experimental/use_coro.hpp>
#include <boost/asio/experimental/use_promise.hpp>
#include <boost/asio/inline_executor.hpp>
#include <boost/asio/redirect_disposition.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <variant>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;
using namespace boost::asio::experimental::awaitable_operators;

namespace {

// The reference names the one token of Asio that does not compile.
template <class Token>
constexpr bool compiles = asio::completion_token_for<Token, void(error, lease)>;
static_assert(compiles<asio::experimental::use_promise_t<>>);
static_assert(!compiles<asio::experimental::use_coro_t<>>);

// A coroutine of Asio's experimental kind awaits the operation itself, and gets a tuple.
[[maybe_unused]] asio::experimental::coro<void> take(asio::any_io_executor, lock key) {
    auto [e, held] = co_await key.acquire();
    if (!e) (void)co_await held.release();
}

// Calls every function with the token `adapt(handler)`, and checks each result.
template <class Adapt>
void call_everything(fleet const& servers, Adapt adapt) {
    test_client client(servers);
    auto const key = client.locks.make_lock("k", long_lived);
    auto ended = 0;
    lease held;
    auto const take = [&](error e, lease l) {
        BOOST_TEST(!e, e.what());
        held = std::move(l);
        ++ended;
    };
    auto const succeed = [&](error e) {
        BOOST_TEST(!e, e.what());
        ++ended;
    };
    auto const over = [&](error e, lease_end how) {
        BOOST_TEST(!e, e.what());
        BOOST_TEST(how == lease_end::released);
        ++ended;
    };
    auto const given_back = [&](release_result r) {
        BOOST_TEST(r.confirmed());
        ++ended;
    };
    auto const settled = [&](int count) { return client.until([&] { return ended == count; }); };
    key.acquire(adapt(take));
    BOOST_REQUIRE(settled(1));
    held.extend(adapt(succeed));
    BOOST_REQUIRE(settled(2));
    held.wait_end(adapt(over));
    held.release(adapt(given_back));
    BOOST_REQUIRE(settled(4));
    key.try_acquire(adapt(take));
    BOOST_REQUIRE(settled(5));
    held.release(adapt(given_back));
    BOOST_REQUIRE(settled(6));
    key.try_acquire_for(1h, adapt(take));
    BOOST_REQUIRE(settled(7));
    held.release(adapt(given_back));
    BOOST_REQUIRE(settled(8));
    client.locks.shutdown(adapt(succeed));
    BOOST_REQUIRE(settled(9));
}

// The memory from the handlers' own allocator.
struct allocations {
    std::size_t made = 0, alive = 0;
};

template <class T>
struct counting_allocator {
    using value_type = T;

    explicit counting_allocator(allocations& c)
        : counts(&c) {}
    template <class U>
    counting_allocator(counting_allocator<U> const& other)
        : counts(other.counts) {}

    T* allocate(std::size_t n) {
        ++counts->made;
        ++counts->alive;
        return std::allocator<T>().allocate(n);
    }
    void deallocate(T* memory, std::size_t n) {
        --counts->alive;
        std::allocator<T>().deallocate(memory, n);
    }
    template <class U>
    friend bool operator==(counting_allocator const& a, counting_allocator<U> const& b) {
        return a.counts == b.counts;
    }

    allocations* counts;
};

} // namespace

BOOST_AUTO_TEST_SUITE(tokens)

BOOST_AUTO_TEST_CASE(coroutines_await_everything) {
    fleet servers(3);
    asio::io_context context;
    client locks(context.get_executor(), addresses_of(servers), patient());
    auto const key = locks.make_lock("k", long_lived);
    run(context, [&]() -> asio::awaitable<void> {
        auto by_default = co_await key.acquire();
        BOOST_TEST(by_default.held());
        co_await by_default.extend();
        BOOST_TEST((co_await by_default.release()).code() == error_code());

        auto named = co_await key.try_acquire(asio::use_awaitable);
        co_await named.extend(asio::use_awaitable);
        BOOST_TEST((co_await named.release(asio::use_awaitable)).confirmed());

        auto later = co_await key.try_acquire_for(1s, asio::deferred);
        auto operation = later.release(asio::deferred);
        auto again = later.release(); // nothing was started yet
        BOOST_TEST(later.held());
        BOOST_TEST((co_await std::move(operation)).confirmed());
        BOOST_TEST(((co_await std::move(again)) == errc::lease_released));

        auto acquired = co_await key.acquire(asio::as_tuple);
        auto& [e, l] = acquired;
        BOOST_TEST(!e);
        auto [extended] = co_await l.extend(asio::as_tuple);
        BOOST_TEST(!extended);
        auto refused = co_await key.try_acquire(asio::as_tuple);
        auto& [contended, none] = refused;
        BOOST_TEST((contended == errc::contended));
        BOOST_TEST(!none);
        try {
            auto const never = co_await key.try_acquire();
            BOOST_ERROR("acquired what is held");
        } catch (system_error const& thrown) {
            BOOST_TEST((thrown.code() == errc::contended));
            std::string const said = thrown.what();
            BOOST_TEST(said.find("\"k\"") != said.npos, said);
            for (server& instance : servers)
                BOOST_TEST(said.find(instance.shown()) != said.npos, said);
        }
        auto [result] = co_await l.release(asio::as_tuple);
        BOOST_TEST(result.confirmed());
        co_await locks.shutdown();
    });
}

BOOST_AUTO_TEST_CASE(every_function_takes_adapted_handlers) {
    fleet servers(1);
    call_everything(servers, [](auto handler) { return handler; });
    call_everything(servers, [](auto handler) { return asio::cancel_after(1h, handler); });
    call_everything(servers, [](auto handler) {
        return asio::cancel_at(std::chrono::steady_clock::now() + 1h, handler);
    });
    asio::cancellation_signal unused;
    call_everything(servers, [&](auto handler) {
        return asio::bind_cancellation_slot(unused.slot(), handler);
    });
    allocations counts;
    call_everything(servers, [&](auto handler) {
        return asio::bind_allocator(counting_allocator<void*>(counts), handler);
    });
    BOOST_TEST(counts.made >= 9U); // at least once for each call
    BOOST_TEST(counts.alive == 0U);
}

BOOST_AUTO_TEST_CASE(coroutines_await_every_function_in_every_way) {
    fleet servers(3);
    asio::io_context context;
    client locks(context.get_executor(), addresses_of(servers), patient());
    auto const key = locks.make_lock("k", long_lived);
    run(context, [&]() -> asio::awaitable<void> {
        auto held = co_await key.acquire(asio::use_awaitable);
        auto refused = co_await key.try_acquire_for(30ms, asio::as_tuple);
        auto& [contended, none] = refused;
        BOOST_TEST((contended == errc::wait_timeout), contended.what());
        BOOST_TEST(!none);
        BOOST_TEST((co_await held.release(asio::use_awaitable)).confirmed());
        auto [failed, how] = co_await held.wait_end(asio::as_tuple);
        BOOST_TEST(!failed, failed.what());
        BOOST_TEST(how == lease_end::released);
        BOOST_TEST(co_await held.wait_end(asio::use_awaitable) == lease_end::released);
        BOOST_TEST(co_await held.wait_end() == lease_end::released);
        try {
            co_await held.extend();
            BOOST_ERROR("what was released cannot be extended");
        } catch (system_error const& thrown) {
            BOOST_TEST((thrown.code() == errc::lease_released));
        }
        auto later = co_await key.try_acquire_for(1h, asio::use_awaitable);
        BOOST_TEST(later.held());
        auto [shut] = co_await locks.shutdown(asio::as_tuple);
        BOOST_TEST(!shut, shut.what());
        co_await locks.shutdown(asio::use_awaitable);
    });
}

BOOST_AUTO_TEST_CASE(a_disposition_may_be_redirected) {
    fleet servers(3);
    asio::io_context context;
    client locks(context.get_executor(), addresses_of(servers), patient());
    auto const key = locks.make_lock("k", long_lived);
    run(context, [&]() -> asio::awaitable<void> {
        error e(errc::rejected);
        auto held = co_await key.acquire(asio::redirect_disposition(e));
        BOOST_TEST(!e, e.what());
        BOOST_TEST(held.held());
        auto const none = co_await key.try_acquire(asio::redirect_disposition(e));
        BOOST_TEST((e == errc::contended), e.what());
        BOOST_TEST((e.report() != nullptr)); // the report comes with the error
        BOOST_TEST(!none);
        auto const late =
            co_await key.try_acquire_for(1ms, asio::redirect_disposition(asio::deferred, e));
        BOOST_TEST((e == errc::wait_timeout), e.what());
        BOOST_TEST(!late);
        co_await held.extend(asio::redirect_disposition(asio::use_awaitable, e));
        BOOST_TEST(!e, e.what());
        BOOST_TEST((co_await held.release()).confirmed());
        e = errc::rejected;
        auto const how = co_await held.wait_end(asio::redirect_disposition(e));
        BOOST_TEST(!e, e.what());
        BOOST_TEST(how == lease_end::released);
        std::exception_ptr thrown;
        co_await held.extend(asio::redirect_disposition(thrown));
        BOOST_TEST((thrown != nullptr));
        e = errc::rejected;
        co_await locks.shutdown(asio::redirect_disposition(e));
        BOOST_TEST(!e, e.what());
        auto const never = co_await key.acquire(asio::redirect_disposition(e));
        BOOST_TEST((e == errc::shut_down), e.what());
        BOOST_TEST(!never);
    });
}

BOOST_AUTO_TEST_CASE(an_error_may_be_redirected) {
    fleet servers(3);
    asio::io_context context;
    client locks(context.get_executor(), addresses_of(servers), patient());
    auto const key = locks.make_lock("k", long_lived);
    run(context, [&]() -> asio::awaitable<void> {
        error_code ec = errc::rejected;
        auto held = co_await key.acquire(asio::redirect_error(ec));
        BOOST_TEST(!ec, ec.message());
        BOOST_TEST(held.held());
        auto const none = co_await key.try_acquire(asio::redirect_error(ec));
        BOOST_TEST((ec == errc::contended), ec.message());
        BOOST_TEST(!none);
        auto const late =
            co_await key.try_acquire_for(1ms, asio::redirect_error(asio::deferred, ec));
        BOOST_TEST((ec == errc::wait_timeout), ec.message());
        BOOST_TEST(!late);
        auto const limited = asio::cancel_after(5ms, asio::redirect_error(ec));
        auto const cut = co_await key.acquire(limited);
        BOOST_TEST((ec == errc::cancelled), ec.message());
        BOOST_TEST(!cut);
        auto const turned = asio::redirect_error(asio::cancel_after(5ms, asio::deferred), ec);
        auto const cut_too = co_await key.acquire(turned);
        BOOST_TEST((ec == asio::error::operation_aborted), ec.message());
        BOOST_TEST(!cut_too);
        co_await held.extend(asio::redirect_error(asio::use_awaitable, ec));
        BOOST_TEST(!ec, ec.message());
        // The result of a release is no error.
        BOOST_TEST((co_await held.release(asio::redirect_error(ec))).confirmed());
        ec = errc::rejected;
        auto const how = co_await held.wait_end(asio::redirect_error(ec));
        BOOST_TEST(!ec, ec.message());
        BOOST_TEST(how == lease_end::released);
        co_await locks.drain(1h, asio::redirect_error(ec));
        BOOST_TEST(!ec, ec.message());
        ec = errc::rejected;
        co_await locks.shutdown(asio::redirect_error(ec));
        BOOST_TEST(!ec, ec.message());
        auto const never = co_await key.acquire(asio::redirect_error(ec));
        BOOST_TEST((ec == errc::shut_down), ec.message());
        BOOST_TEST(!never);
    });
}

BOOST_AUTO_TEST_CASE(callbacks_may_take_error_codes_and_be_move_only) {
    fleet servers(1);
    test_client client(servers);
    auto const key = client.locks.make_lock("k", long_lived);
    auto done = 0;
    lease held;
    key.acquire([&, owned = std::make_unique<int>(7)](error_code e, lease l) {
        BOOST_TEST(!e.failed());
        done += *owned;
        held = std::move(l);
    });
    BOOST_REQUIRE(client.until([&] { return done == 7; }));
    held.extend([&, owned = std::make_unique<int>(1)](error_code e) {
        BOOST_TEST(!e.failed());
        done += *owned;
    });
    BOOST_REQUIRE(client.until([&] { return done == 8; }));
    held.wait_end([&, owned = std::make_unique<int>(1)](error_code e, lease_end how) {
        BOOST_TEST(!e.failed());
        BOOST_TEST(how == lease_end::released);
        done += *owned;
    });
    held.release([&, owned = std::make_unique<int>(1)](release_result r) {
        BOOST_TEST(r.confirmed());
        done += *owned;
    });
    BOOST_REQUIRE(client.until([&] { return done == 10; }));
    client.locks.shutdown([&, owned = std::make_unique<int>(1)](error) { done += *owned; });
    BOOST_REQUIRE(client.until([&] { return done == 11; }));
}

BOOST_AUTO_TEST_CASE(futures_throw_the_report) {
    fleet servers(1);
    asio::thread_pool pool(1);
    {
        client locks(pool.get_executor(), addresses_of(servers), patient());
        auto const key = locks.make_lock("k", long_lived);
        auto held = key.acquire(asio::use_future).get();
        held.extend(asio::use_future).get();
        auto refused = key.try_acquire(asio::use_future);
        BOOST_CHECK_EXCEPTION((void)refused.get(), system_error, [&](system_error const& e) {
            return e.code() == errc::contended &&
                   std::string(e.what()).find("\"k\"") != std::string::npos;
        });
        auto end = held.wait_end(asio::use_future);
        BOOST_TEST(held.release(asio::use_future).get().confirmed());
        BOOST_TEST(end.get() == lease_end::released);
        locks.shutdown(asio::use_future).get();
    }
    pool.join();
}

BOOST_AUTO_TEST_CASE(detached_operations_happen) {
    fleet servers(1);
    test_client client(servers);
    auto held = client.hold("k");
    held.release(asio::detached);
    BOOST_TEST(client.sees(servers, "k", false));
    client.locks.make_lock("k").acquire(asio::detached);
    // The lease without a handler is released.
    BOOST_TEST(client.until([&] { return client.locks.stats().released == 2; }));
    client.locks.shutdown(asio::detached);
    BOOST_TEST(client.until([&] { return client.status(0).state == instance_state::down; }));
}

BOOST_AUTO_TEST_CASE(handlers_run_on_their_own_executor) {
    fleet servers(1);
    test_client client(servers);
    asio::thread_pool pool(1);
    auto const strand = asio::make_strand(pool.get_executor());
    std::atomic<int> done{0}, elsewhere{0};
    lease held;
    auto const here = [&](auto... results) {
        if constexpr (sizeof...(results) == 2) {
            ((void)std::tie(results...), held = std::move(std::get<1>(std::tie(results...))));
        }
        if (!strand.running_in_this_thread()) ++elsewhere;
        ++done;
    };
    auto const key = client.locks.make_lock("k", long_lived);
    key.acquire(asio::bind_executor(strand, here));
    BOOST_REQUIRE(client.until([&] { return done == 1; }));
    held.extend(asio::bind_executor(strand, here));
    BOOST_REQUIRE(client.until([&] { return done == 2; }));
    held.wait_end(asio::bind_executor(strand, here));
    held.release(asio::bind_executor(strand, here));
    BOOST_REQUIRE(client.until([&] { return done == 4; }));
    client.locks.shutdown(asio::bind_executor(strand, here));
    BOOST_REQUIRE(client.until([&] { return done == 5; }));
    // This also holds for a call that completes at once.
    key.acquire(asio::bind_executor(strand, here));
    BOOST_REQUIRE(client.until([&] { return done == 6; }));
    BOOST_TEST(elsewhere == 0);
    pool.join();
}

BOOST_AUTO_TEST_CASE(no_handler_runs_inside_the_call) {
    fleet servers(1);
    test_client client(servers);
    auto const key = client.locks.make_lock("k", long_lived);
    auto held = client.hold("k");
    BOOST_TEST(client.releases(held));
    auto running = false; // within a handler, where an inline completion would be possible
    auto inside = 0;
    auto done = 0;
    auto const check = [&](auto&&...) {
        if (running) ++inside;
        ++done;
    };
    asio::post(client.context, [&] {
        running = true;
        held.release(check); // released already, so the result is known at once
        held.extend(check);
        held.wait_end(check);
        key.try_acquire(check);
        running = false;
    });
    BOOST_REQUIRE(client.until([&] { return done == 4; }));
    client.locks.shutdown(check);
    BOOST_REQUIRE(client.until([&] { return done == 5; }));
    asio::post(client.context, [&] {
        running = true;
        key.acquire(check); // shut down, so the result is known at once
        client.locks.shutdown(check);
        running = false;
    });
    BOOST_REQUIRE(client.until([&] { return done == 7; }));
    BOOST_TEST(inside == 0);
}

BOOST_AUTO_TEST_CASE(an_immediate_executor_makes_no_difference_to_that) {
    fleet servers(1);
    test_client client(servers);
    auto const key = client.locks.make_lock("k", long_lived);
    auto held = client.hold("k");
    BOOST_TEST(client.releases(held));
    auto running = true;
    auto inside = 0;
    auto done = 0;
    // This executor would run the handler at once.
    auto const check = asio::bind_immediate_executor(asio::system_executor(), [&](auto&&...) {
        if (running) ++inside;
        ++done;
    });
    held.release(check);
    held.extend(check);
    held.wait_end(check);
    key.acquire(check);
    client.locks.shutdown(check);
    running = false;
    BOOST_REQUIRE(client.until([&] { return done == 5; }));
    running = true;
    key.try_acquire_for(1s, check);
    client.locks.shutdown(check);
    running = false;
    BOOST_REQUIRE(client.until([&] { return done == 7; }));
    BOOST_TEST(inside == 0);
}

// An inline executor runs the handler at once: on the client's executor, but not within the call.
BOOST_AUTO_TEST_CASE(a_handler_may_have_an_inline_executor) {
    fleet servers(1);
    test_client client(servers);
    auto const key = client.locks.make_lock("k", long_lived);
    auto held = client.hold("k");
    BOOST_TEST(client.releases(held));
    auto inside = 0, done = 0;
    auto running = true;
    auto const check = asio::bind_executor(asio::inline_executor(), [&](auto&&...) {
        if (running) ++inside;
        if (!client.context.get_executor().running_in_this_thread()) ++inside;
        ++done;
    });
    held.release(check);
    held.extend(check);
    held.wait_end(check);
    auto const body = [](lease&) -> asio::awaitable<void> { co_return; };
    with_lock(client.locks.make_lock("section", long_lived), body, check);
    key.acquire(check);
    running = false;
    BOOST_REQUIRE(client.until([&] { return done == 5; }));
    running = true;
    client.locks.drain(1h, check);
    client.locks.shutdown(check);
    key.try_acquire_for(1s, check);
    running = false;
    BOOST_REQUIRE(client.until([&] { return done == 8; }));
    BOOST_TEST(inside == 0);
}

BOOST_AUTO_TEST_CASE(groups_and_operators_compose) {
    fleet servers(3);
    asio::io_context context;
    client locks(context.get_executor(), addresses_of(servers), patient());
    auto const first_lock = locks.make_lock("one", long_lived);
    auto const second_lock = locks.make_lock("two", long_lived);
    run(context, [&]() -> asio::awaitable<void> {
        auto [first, second] = co_await (first_lock.acquire(asio::use_awaitable) &&
                                         second_lock.acquire(asio::use_awaitable));
        BOOST_TEST(first.held());
        BOOST_TEST(second.held());

        // Waits for the work and the end of the lease. The first one to end cancels the other.
        asio::steady_timer work(context, 1ms);
        auto const ended =
            co_await (work.async_wait(asio::use_awaitable) || first.wait_end(asio::use_awaitable));
        BOOST_TEST(ended.index() == 0U);
        BOOST_TEST(first.held());

        auto [order, e1, r1, r2] =
            co_await asio::experimental::make_parallel_group(first.extend(), first.release(),
                                                             second.release())
                .async_wait(asio::experimental::wait_for_all(), asio::deferred);
        BOOST_TEST(order.size() == 3U);
        BOOST_TEST((!e1 || e1 == errc::lease_released), e1.what());
        BOOST_TEST(r1.confirmed());
        BOOST_TEST(r2.confirmed());
    });
    check_nothing_left(servers);
}

BOOST_AUTO_TEST_CASE(the_loser_of_a_race_leaves_nothing) {
    fleet servers(3);
    asio::io_context context;
    client locks(context.get_executor(), addresses_of(servers), patient());
    auto const taken = locks.make_lock("taken", long_lived);
    auto const first_lock = locks.make_lock("one", long_lived);
    auto const second_lock = locks.make_lock("two", long_lived);
    run(context, [&]() -> asio::awaitable<void> {
        auto held = co_await taken.acquire();
        asio::steady_timer soon(context, 20ms);
        {
            auto const first = co_await (taken.acquire(asio::use_awaitable) ||
                                         soon.async_wait(asio::use_awaitable));
            BOOST_TEST(first.index() == 1U);
        }
        BOOST_TEST((co_await held.release()).confirmed());
        auto const either = co_await (first_lock.acquire(asio::use_awaitable) ||
                                      second_lock.acquire(asio::use_awaitable));
        BOOST_TEST(std::visit([](lease const& l) { return l.held(); }, either));
    });
    for (server& each : servers) {
        BOOST_TEST(has_no_locks(each, [&](auto const& none) { return run_until(context, none); }));
    }
    BOOST_TEST(locks.stats().pending == 0U);
    BOOST_TEST(locks.stats().held == 0U);
}

BOOST_AUTO_TEST_CASE(a_cancelled_coroutine_cancels_the_operation_that_it_awaits) {
    fleet servers(3);
    test_client client(servers);
    auto held = client.hold("k");
    asio::cancellation_signal signal;
    auto const body = [&]() -> asio::awaitable<void> {
        auto const never = co_await client.locks.make_lock("k", long_lived).acquire();
        BOOST_ERROR("acquired what is held");
    };
    error_code how;
    auto done = false;
    asio::co_spawn(client.context, body(),
                   asio::bind_cancellation_slot(signal.slot(), [&](std::exception_ptr thrown) {
                       done = true;
                       try {
                           if (thrown) std::rethrow_exception(thrown);
                       } catch (system_error const& e) {
                           how = e.code();
                       }
                   }));
    BOOST_REQUIRE(client.until([&] { return client.locks.stats().pending == 1; }));
    signal.emit(asio::cancellation_type::terminal);
    BOOST_REQUIRE(client.until([&] { return done; }));
    BOOST_TEST((how == errc::cancelled), how.message());
    BOOST_TEST(client.locks.stats().pending == 0U);
    BOOST_TEST(client.releases(held));
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(a_failed_acquire_ends_a_group_that_waits_for_one_error) {
    fleet servers(3);
    asio::io_context context;
    client locks(context.get_executor(), addresses_of(servers), patient());
    auto const taken = locks.make_lock("taken", long_lived);
    run(context, [&]() -> asio::awaitable<void> {
        auto const held = co_await taken.acquire();
        asio::steady_timer never(context, 1h);
        auto [order, e, none, waited] =
            co_await asio::experimental::make_parallel_group(taken.try_acquire(),
                                                             never.async_wait(asio::deferred))
                .async_wait(asio::experimental::wait_for_one_error(), asio::deferred);
        BOOST_TEST((e == errc::contended));
        BOOST_TEST((waited == asio::error::operation_aborted));
    });
}

BOOST_AUTO_TEST_CASE(a_time_limit_of_asio_cancels) {
    fleet servers(3);
    asio::io_context context;
    client locks(context.get_executor(), addresses_of(servers), patient());
    auto const key = locks.make_lock("k", long_lived);
    run(context, [&]() -> asio::awaitable<void> {
        auto const in_good_time = asio::cancel_after(1h, asio::deferred);
        auto held = co_await key.acquire(in_good_time);
        BOOST_TEST(held.held());
        auto const soon = asio::cancel_after(5ms, asio::as_tuple(asio::deferred));
        auto refused = co_await key.acquire(soon);
        auto& [e, none] = refused;
        BOOST_TEST((e == errc::cancelled), e.what());
        BOOST_TEST((e == asio::error::operation_aborted), e.what());
        BOOST_TEST(!none);
        auto const at_once =
            asio::cancel_at(std::chrono::steady_clock::now(), asio::as_tuple(asio::deferred));
        auto too_late = co_await key.acquire(at_once);
        auto& [at, nothing] = too_late;
        BOOST_TEST((at == errc::cancelled), at.what());
        auto [cut, how] = co_await held.wait_end(soon);
        BOOST_TEST((cut == errc::cancelled), cut.what());
        BOOST_TEST(how == lease_end::none);
        BOOST_TEST(held.held());
        BOOST_TEST((co_await held.release()).confirmed());
    });
    check_nothing_left(servers);
}

BOOST_AUTO_TEST_SUITE_END()
