// Every asynchronous function with every completion token, and what cancelling it does to the caller and to
// the servers.
#include "integration/party.hpp"
#include "integration/wires.hpp"
#include "support/fake_server.hpp"

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
#include <boost/asio/experimental/parallel_group.hpp>
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

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;
using namespace boost::asio::experimental::awaitable_operators;

namespace {

// Three servers behind proxies, so that votes can be held up.
struct guarded_party {
    guarded_party() { BOOST_REQUIRE(p.all_up()); }
    // A lease is given at the quorum; this waits for the last vote too, so that the next reply that is held
    // up is the next call's.
    lease hold(std::string const& key) {
        auto held = p.hold(key);
        BOOST_REQUIRE(p.sees(servers, key, true));
        BOOST_REQUIRE(p.until([&] { return ways.are_quiet(); }));
        return held;
    }

    fleet servers{3};
    wires ways{servers};
    party p{ways.addresses(), without_questions()};
};

// An acquire that can be cancelled, and how it ended.
struct cancellable {
    void start(lock const& key) {
        key.acquire(asio::bind_cancellation_slot(signal.slot(), [this](error e, lease l) {
            how = std::move(e);
            held = std::move(l);
            done = true;
        }));
    }
    void start_for(lock const& key, std::chrono::nanoseconds limit) {
        key.try_acquire_for(limit, asio::bind_cancellation_slot(signal.slot(), [this](error e, lease l) {
                                how = std::move(e);
                                held = std::move(l);
                                done = true;
                            }));
    }

    asio::cancellation_signal signal;
    bool done = false;
    error how;
    lease held;
};

// Calls every function, with `adapt(handler)` as the token, and checks how each ended.
template <class Adapt>
void call_everything(fleet const& servers, Adapt adapt) {
    party p(servers);
    auto const key = p.locks.make_lock("k", long_lived);
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
    auto const over = [&](error e) {
        BOOST_TEST((e == errc::lease_released), e.what());
        ++ended;
    };
    auto const given_back = [&](release_result r) {
        BOOST_TEST(static_cast<bool>(r));
        ++ended;
    };
    auto const settled = [&](int count) { return p.until([&] { return ended == count; }); };
    key.acquire(adapt(take));
    BOOST_REQUIRE(settled(1));
    held.extend(adapt(succeed));
    BOOST_REQUIRE(settled(2));
    held.lost(adapt(over));
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
    p.locks.shutdown(adapt(succeed));
    BOOST_REQUIRE(settled(9));
}

// Counts what the handlers' own allocator is asked for.
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
    void deallocate(T* what, std::size_t n) {
        --counts->alive;
        std::allocator<T>().deallocate(what, n);
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
        BOOST_TEST(static_cast<bool>(co_await named.release(asio::use_awaitable)));

        auto later = co_await key.try_acquire_for(1s, asio::deferred);
        auto operation = later.release(asio::deferred);
        auto again = later.release(); // nothing has been started yet
        BOOST_TEST(later.held());
        BOOST_TEST(static_cast<bool>(co_await std::move(operation)));
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
            for (auto const& where : servers.addresses()) BOOST_TEST(said.find(where) != said.npos, said);
        }
        auto [result] = co_await l.release(asio::as_tuple);
        BOOST_TEST(static_cast<bool>(result));
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
    call_everything(servers,
                    [&](auto handler) { return asio::bind_cancellation_slot(unused.slot(), handler); });
    allocations counts;
    call_everything(servers, [&](auto handler) {
        return asio::bind_allocator(counting_allocator<void*>(counts), handler);
    });
    BOOST_TEST(counts.made >= 9U); // once per call at least
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
        BOOST_TEST((contended == errc::timeout), contended.what());
        BOOST_TEST(!none);
        BOOST_TEST(static_cast<bool>(co_await held.release(asio::use_awaitable)));
        auto [lost] = co_await held.lost(asio::as_tuple);
        BOOST_TEST((lost == errc::lease_released), lost.what());
        try {
            co_await held.lost(asio::use_awaitable);
            BOOST_ERROR("what was released is not lost");
        } catch (system_error const& thrown) {
            BOOST_TEST((thrown.code() == errc::lease_released));
        }
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
        BOOST_TEST((e.report() != nullptr)); // it comes along
        BOOST_TEST(!none);
        auto const late = co_await key.try_acquire_for(1ms, asio::redirect_disposition(asio::deferred, e));
        BOOST_TEST((e == errc::timeout), e.what());
        BOOST_TEST(!late);
        co_await held.extend(asio::redirect_disposition(asio::use_awaitable, e));
        BOOST_TEST(!e, e.what());
        BOOST_TEST(static_cast<bool>(co_await held.release()));
        co_await held.lost(asio::redirect_disposition(e));
        BOOST_TEST((e == errc::lease_released), e.what());
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
        auto const late = co_await key.try_acquire_for(1ms, asio::redirect_error(asio::deferred, ec));
        BOOST_TEST((ec == errc::timeout), ec.message());
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
        // Its result is no error.
        BOOST_TEST(static_cast<bool>(co_await held.release(asio::redirect_error(ec))));
        co_await held.lost(asio::redirect_error(ec));
        BOOST_TEST((ec == errc::lease_released), ec.message());
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

BOOST_AUTO_TEST_CASE(callbacks_may_take_error_codes_and_own_what_cannot_be_copied) {
    fleet servers(1);
    party p(servers);
    auto const key = p.locks.make_lock("k", long_lived);
    auto done = 0;
    lease held;
    key.acquire([&, owned = std::make_unique<int>(7)](error_code e, lease l) {
        BOOST_TEST(!e.failed());
        done += *owned;
        held = std::move(l);
    });
    BOOST_REQUIRE(p.until([&] { return done == 7; }));
    held.extend([&, owned = std::make_unique<int>(1)](error_code e) {
        BOOST_TEST(!e.failed());
        done += *owned;
    });
    BOOST_REQUIRE(p.until([&] { return done == 8; }));
    held.lost([&, owned = std::make_unique<int>(1)](error_code e) {
        BOOST_TEST((e == errc::lease_released));
        done += *owned;
    });
    held.release([&, owned = std::make_unique<int>(1)](release_result r) {
        BOOST_TEST(static_cast<bool>(r));
        done += *owned;
    });
    BOOST_REQUIRE(p.until([&] { return done == 10; }));
    p.locks.shutdown([&, owned = std::make_unique<int>(1)](error) { done += *owned; });
    BOOST_REQUIRE(p.until([&] { return done == 11; }));
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
            return e.code() == errc::contended && std::string(e.what()).find("\"k\"") != std::string::npos;
        });
        auto lost = held.lost(asio::use_future);
        BOOST_TEST(static_cast<bool>(held.release(asio::use_future).get()));
        BOOST_CHECK_EXCEPTION((void)lost.get(), system_error,
                              [](system_error const& e) { return e.code() == errc::lease_released; });
        locks.shutdown(asio::use_future).get();
    }
    pool.join();
}

BOOST_AUTO_TEST_CASE(what_is_detached_happens_all_the_same) {
    fleet servers(1);
    party p(servers);
    auto held = p.hold("k");
    held.release(asio::detached);
    BOOST_TEST(p.sees(servers, "k", false));
    p.locks.make_lock("k").acquire(asio::detached);
    // The lease that nobody took is released.
    BOOST_TEST(p.until([&] { return p.locks.stats().released == 2; }));
    p.locks.shutdown(asio::detached);
    BOOST_TEST(p.until([&] { return p.status(0).state == instance_state::down; }));
}

BOOST_AUTO_TEST_CASE(handlers_run_on_their_own_executor) {
    fleet servers(1);
    party p(servers);
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
    auto const key = p.locks.make_lock("k", long_lived);
    key.acquire(asio::bind_executor(strand, here));
    BOOST_REQUIRE(p.until([&] { return done == 1; }));
    held.extend(asio::bind_executor(strand, here));
    BOOST_REQUIRE(p.until([&] { return done == 2; }));
    held.lost(asio::bind_executor(strand, here));
    held.release(asio::bind_executor(strand, here));
    BOOST_REQUIRE(p.until([&] { return done == 4; }));
    p.locks.shutdown(asio::bind_executor(strand, here));
    BOOST_REQUIRE(p.until([&] { return done == 5; }));
    // Also where there is nothing to wait for.
    key.acquire(asio::bind_executor(strand, here));
    BOOST_REQUIRE(p.until([&] { return done == 6; }));
    BOOST_TEST(elsewhere == 0);
    pool.join();
}

BOOST_AUTO_TEST_CASE(no_handler_runs_inside_the_call) {
    fleet servers(1);
    party p(servers);
    auto const key = p.locks.make_lock("k", long_lived);
    auto held = p.hold("k");
    BOOST_TEST(p.releases(held));
    auto running = false; // inside a handler of ours, where an inline completion is most tempting
    auto inside = 0;
    auto done = 0;
    auto const check = [&](auto&&...) {
        if (running) ++inside;
        ++done;
    };
    asio::post(p.context, [&] {
        running = true;
        held.release(check); // has been: known at once
        held.extend(check);
        held.lost(check);
        key.try_acquire(check);
        running = false;
    });
    BOOST_REQUIRE(p.until([&] { return done == 4; }));
    p.locks.shutdown(check);
    BOOST_REQUIRE(p.until([&] { return done == 5; }));
    asio::post(p.context, [&] {
        running = true;
        key.acquire(check); // shut down: known at once
        p.locks.shutdown(check);
        running = false;
    });
    BOOST_REQUIRE(p.until([&] { return done == 7; }));
    BOOST_TEST(inside == 0);
}

BOOST_AUTO_TEST_CASE(an_immediate_executor_makes_no_difference_to_that) {
    fleet servers(1);
    party p(servers);
    auto const key = p.locks.make_lock("k", long_lived);
    auto held = p.hold("k");
    BOOST_TEST(p.releases(held));
    auto running = true;
    auto inside = 0;
    auto done = 0;
    // It would run the handler on the spot.
    auto const check = asio::bind_immediate_executor(asio::system_executor(), [&](auto&&...) {
        if (running) ++inside;
        ++done;
    });
    held.release(check);
    held.extend(check);
    held.lost(check);
    key.acquire(check);
    p.locks.shutdown(check);
    running = false;
    BOOST_REQUIRE(p.until([&] { return done == 5; }));
    running = true;
    key.try_acquire_for(1s, check);
    p.locks.shutdown(check);
    running = false;
    BOOST_REQUIRE(p.until([&] { return done == 7; }));
    BOOST_TEST(inside == 0);
}

// It runs what it is given where it is given it: on the client's executor, and not inside the call.
BOOST_AUTO_TEST_CASE(a_handler_may_have_an_inline_executor) {
    fleet servers(1);
    party p(servers);
    auto const key = p.locks.make_lock("k", long_lived);
    auto held = p.hold("k");
    BOOST_TEST(p.releases(held));
    auto inside = 0, done = 0;
    auto running = true;
    auto const check = asio::bind_executor(asio::inline_executor(), [&](auto&&...) {
        if (running) ++inside;
        if (!p.context.get_executor().running_in_this_thread()) ++inside;
        ++done;
    });
    held.release(check);
    held.extend(check);
    held.lost(check);
    auto const body = [](lease&) -> asio::awaitable<void> { co_return; };
    p.locks.run("section", long_lived, body, check);
    key.acquire(check);
    running = false;
    BOOST_REQUIRE(p.until([&] { return done == 5; }));
    running = true;
    p.locks.drain(1h, check);
    p.locks.shutdown(check);
    key.try_acquire_for(1s, check);
    running = false;
    BOOST_REQUIRE(p.until([&] { return done == 8; }));
    BOOST_TEST(inside == 0);
}

BOOST_AUTO_TEST_CASE(groups_and_operators_compose) {
    fleet servers(3);
    asio::io_context context;
    client locks(context.get_executor(), addresses_of(servers), patient());
    auto const one = locks.make_lock("one", long_lived);
    auto const two = locks.make_lock("two", long_lived);
    run(context, [&]() -> asio::awaitable<void> {
        auto [first, second] =
            co_await (one.acquire(asio::use_awaitable) && two.acquire(asio::use_awaitable));
        BOOST_TEST(first.held());
        BOOST_TEST(second.held());

        // The work and the loss of the lease: whichever comes first ends the other.
        asio::steady_timer work(context, 1ms);
        auto const ended = co_await (work.async_wait(asio::use_awaitable) || first.lost(asio::use_awaitable));
        BOOST_TEST(ended.index() == 0U);
        BOOST_TEST(first.held());

        auto [order, e1, r1, r2] = co_await asio::experimental::make_parallel_group(
                                       first.extend(), first.release(), second.release())
                                       .async_wait(asio::experimental::wait_for_all(), asio::deferred);
        BOOST_TEST(order.size() == 3U);
        BOOST_TEST((!e1 || e1 == errc::lease_released), e1.what());
        BOOST_TEST(static_cast<bool>(r1));
        BOOST_TEST(static_cast<bool>(r2));
    });
    BOOST_TEST(redis_cli(servers[0]).dbsize() == 0);
}

BOOST_AUTO_TEST_CASE(what_loses_a_race_leaves_nothing) {
    fleet servers(3);
    asio::io_context context;
    client locks(context.get_executor(), addresses_of(servers), patient());
    auto const taken = locks.make_lock("taken", long_lived);
    auto const one = locks.make_lock("one", long_lived);
    auto const two = locks.make_lock("two", long_lived);
    run(context, [&]() -> asio::awaitable<void> {
        auto held = co_await taken.acquire();
        asio::steady_timer soon(context, 20ms);
        {
            auto const first =
                co_await (taken.acquire(asio::use_awaitable) || soon.async_wait(asio::use_awaitable));
            BOOST_TEST(first.index() == 1U);
        }
        BOOST_TEST(static_cast<bool>(co_await held.release()));
        auto const either = co_await (one.acquire(asio::use_awaitable) || two.acquire(asio::use_awaitable));
        BOOST_TEST(std::visit([](lease const& l) { return l.held(); }, either));
    });
    for (server& each : servers) {
        redis_cli cli(each);
        BOOST_TEST(run_until(context, [&] { return cli.dbsize() == 0; }));
    }
    BOOST_TEST(locks.stats().pending == 0U);
    BOOST_TEST(locks.stats().held == 0U);
}

BOOST_AUTO_TEST_CASE(a_cancelled_coroutine_cancels_what_it_awaits) {
    fleet servers(3);
    party p(servers);
    auto held = p.hold("k");
    asio::cancellation_signal signal;
    auto const body = [&]() -> asio::awaitable<void> {
        auto const never = co_await p.locks.make_lock("k", long_lived).acquire();
        BOOST_ERROR("acquired what is held");
    };
    error_code how;
    auto done = false;
    asio::co_spawn(p.context, body(),
                   asio::bind_cancellation_slot(signal.slot(), [&](std::exception_ptr thrown) {
                       done = true;
                       try {
                           if (thrown) std::rethrow_exception(thrown);
                       } catch (system_error const& e) {
                           how = e.code();
                       }
                   }));
    BOOST_REQUIRE(p.until([&] { return p.locks.stats().pending == 1; }));
    signal.emit(asio::cancellation_type::terminal);
    BOOST_REQUIRE(p.until([&] { return done; }));
    BOOST_TEST((how == errc::cancelled), how.message());
    BOOST_TEST(p.locks.stats().pending == 0U);
    BOOST_TEST(p.releases(held));
    BOOST_TEST(p.sees_no_keys(servers));
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
        auto [lost] = co_await held.lost(soon);
        BOOST_TEST((lost == errc::cancelled), lost.what());
        BOOST_TEST(held.held());
        BOOST_TEST(static_cast<bool>(co_await held.release()));
    });
    BOOST_TEST(redis_cli(servers[0]).dbsize() == 0);
}

BOOST_AUTO_TEST_CASE(a_cancelled_wait_says_what_it_has_waited_for) {
    fleet servers(5);
    party p(servers);
    party other(servers);
    BOOST_REQUIRE(p.all_up());
    auto held = other.hold("k");
    BOOST_REQUIRE(other.sees(servers, "k", true)); // also beyond the quorum
    cancellable c;
    c.start(p.locks.make_lock("k", long_lived));
    BOOST_REQUIRE(p.until([&] { return p.locks.stats().waiters == 1; }));
    c.signal.emit(asio::cancellation_type::terminal);
    BOOST_REQUIRE(p.until([&] { return c.done; }));
    BOOST_TEST((c.how == errc::cancelled), c.how.what());
    auto const* const why = c.how.report();
    BOOST_REQUIRE(why != nullptr);
    BOOST_TEST(why->key == "k");
    BOOST_TEST(why->attempts >= 1U);
    BOOST_TEST(why->up == 5U);
    auto const seen_held = std::count_if(why->instances.begin(), why->instances.end(),
                                         [](auto const& i) { return i.what == outcome::held; });
    BOOST_TEST(seen_held >= 3);
    for (auto const& i : why->instances) {
        BOOST_TEST((i.what == outcome::held || i.what == outcome::not_needed), c.how.what());
    }
    BOOST_TEST(c.how.what().find("5 of 5 up, quorum 3") != std::string::npos, c.how.what());
    // Behind a holder of the same client.
    auto own = p.hold("own");
    cancellable behind;
    behind.start(p.locks.make_lock("own", long_lived));
    BOOST_REQUIRE(p.until([&] { return p.locks.stats().waiters == 1; }));
    behind.signal.emit(asio::cancellation_type::terminal);
    BOOST_REQUIRE(p.until([&] { return behind.done; }));
    BOOST_REQUIRE(behind.how.report() != nullptr);
    BOOST_TEST(behind.how.report()->holder == "this client");
    BOOST_TEST(p.releases(own));
    BOOST_TEST(other.releases(held));
}

// With three of five dead the other two have failed nobody.
BOOST_AUTO_TEST_CASE(a_report_says_who_is_up) {
    fleet servers(5);
    party p(servers, hasty());
    BOOST_REQUIRE(p.all_up());
    servers.kill(3);
    for (std::size_t i = 0; i < 3; ++i) BOOST_REQUIRE(p.goes_down(i, errc::unreachable));
    auto const e = p.acquire("k").first;
    BOOST_TEST((e == condition::unavailable), e.what());
    BOOST_REQUIRE(e.report() != nullptr);
    auto const& why = *e.report();
    BOOST_TEST(why.up == 2U);
    BOOST_TEST(e.what().starts_with("lock \"k\": 2 of 5 up, quorum 3"), e.what());
    for (std::size_t i = 0; i < 5; ++i) {
        BOOST_TEST((why.instances.at(i).what == (i < 3 ? outcome::unreachable : outcome::not_needed)),
                   e.what());
    }
}

// Silence is none of these: it was waited for.
BOOST_AUTO_TEST_CASE(an_instance_that_was_asked_and_is_silent_is_unanswered) {
    guarded_party g;
    g.ways.hold_replies();
    cancellable c;
    c.start_for(g.p.locks.make_lock("k", long_lived), 30ms);
    BOOST_REQUIRE(g.p.until([&] { return c.done; }));
    BOOST_REQUIRE(c.how.report() != nullptr);
    for (auto const& i : c.how.report()->instances) {
        BOOST_TEST((i.what == outcome::unanswered), c.how.what());
    }
    g.ways.resume();
}

// A try at the arbiter asks the others nothing: what the last round to all has found is told.
BOOST_AUTO_TEST_CASE(a_try_at_the_arbiter_makes_nobody_unreachable) {
    guarded_party g;
    for (std::size_t i : {0U, 1U}) redis_cli(g.servers[i]).set("k", "foreign", 60s);
    cancellable c;
    c.start(g.p.locks.make_lock("k", long_lived));
    // It waits at the arbiter, which is one of those that have the key.
    BOOST_REQUIRE(g.p.until([&] {
        return redis_cli(g.servers[0]).info("tracking_total_keys") != "0" ||
               redis_cli(g.servers[1]).info("tracking_total_keys") != "0";
    }));
    auto const rounds = g.p.locks.stats().rounds;
    g.ways.hold_requests();
    for (std::size_t i : {0U, 1U}) redis_cli(g.servers[i]).set("k", "another", 60s); // which wakes
    BOOST_REQUIRE(g.p.until([&] { return g.p.locks.stats().rounds > rounds; }));
    c.signal.emit(asio::cancellation_type::terminal);
    BOOST_REQUIRE(g.p.until([&] { return c.done; }));
    BOOST_TEST((c.how == errc::cancelled), c.how.what());
    BOOST_REQUIRE(c.how.report() != nullptr);
    // The last round to all may have ended before each of them had answered.
    auto const& all = c.how.report()->instances;
    BOOST_TEST((all.at(0).what == outcome::held || all.at(1).what == outcome::held), c.how.what());
    for (auto const& i : all) BOOST_TEST((i.what != outcome::unreachable), c.how.what());
    g.ways.resume();
}

//
// Cancelling an acquire: the table in lock.hpp
//

BOOST_AUTO_TEST_CASE(cancelled_before_it_was_sent_it_leaves_nothing) {
    for (auto const type : every_type) {
        guarded_party g;
        auto const sent = g.ways[0].commands_forwarded();
        cancellable c;
        c.start(g.p.locks.make_lock("k", long_lived));
        c.signal.emit(type);
        BOOST_REQUIRE(g.p.until([&] { return c.done; }));
        BOOST_TEST((c.how == errc::cancelled), c.how.what());
        BOOST_TEST(!c.held);
        BOOST_TEST(g.p.locks.stats().rounds == 0U);
        BOOST_TEST(g.ways[0].commands_forwarded() == sent);
    }
}

BOOST_AUTO_TEST_CASE(cancelled_in_mid_round_the_total_way_it_waits_and_delivers_a_win) {
    guarded_party g;
    g.ways.hold_replies();
    cancellable c;
    c.start(g.p.locks.make_lock("k", long_lived));
    BOOST_REQUIRE(g.p.until([&] { return g.ways[0].replies_held() > 0; }));
    c.signal.emit(asio::cancellation_type::total);
    BOOST_TEST(!run_until(
        g.p.context, [&] { return c.done; }, 0s));
    g.ways.resume();
    BOOST_REQUIRE(g.p.until([&] { return c.done; }));
    BOOST_TEST(!c.how, c.how.what());
    BOOST_TEST(c.held.held());
    BOOST_TEST(g.p.releases(c.held));
}

BOOST_AUTO_TEST_CASE(cancelled_in_mid_round_the_total_way_it_ends_with_a_refusal) {
    guarded_party g;
    for (server& one : g.servers) redis_cli(one).set("k", "foreign", 60s);
    g.ways.hold_replies();
    cancellable c;
    c.start(g.p.locks.make_lock("k", long_lived));
    BOOST_REQUIRE(g.p.until([&] { return g.ways[0].replies_held() > 0; }));
    c.signal.emit(asio::cancellation_type::total);
    g.ways.resume();
    BOOST_REQUIRE(g.p.until([&] { return c.done; }));
    BOOST_TEST((c.how == errc::cancelled), c.how.what());
    BOOST_TEST(g.p.locks.stats().rounds == 1U);
    for (server& one : g.servers) BOOST_TEST(redis_cli(one).get("k").value_or("gone") == "foreign");
}

BOOST_AUTO_TEST_CASE(cancelled_in_mid_round_it_ends_at_once_and_gives_back) {
    for (auto const type : {asio::cancellation_type::partial, asio::cancellation_type::terminal}) {
        for (auto const executed : {false, true}) {
            guarded_party g;
            executed ? g.ways.hold_replies() : g.ways.hold_requests();
            cancellable c;
            c.start(g.p.locks.make_lock("k", long_lived));
            BOOST_REQUIRE(g.p.until(
                [&] { return executed ? g.ways[0].replies_held() > 0 : g.ways[0].commands_held() > 0; }));
            c.signal.emit(type);
            // While the servers are still silent.
            BOOST_REQUIRE(g.p.until([&] { return c.done; }));
            BOOST_TEST((c.how == errc::cancelled), c.how.what());
            BOOST_TEST(!c.held);
            g.ways.resume();
            BOOST_TEST(g.p.sees_no_keys(g.servers));
            // And there was a key to be deleted.
            BOOST_TEST(g.p.until([&] { return g.p.locks.stats().commands >= 6; }));
        }
    }
}

BOOST_AUTO_TEST_CASE(cancelled_the_total_way_before_the_servers_heard_of_it_it_still_waits) {
    guarded_party g;
    g.ways.hold_requests();
    cancellable c;
    c.start(g.p.locks.make_lock("k", long_lived));
    BOOST_REQUIRE(g.p.until([&] { return g.ways[0].commands_held() > 0; }));
    c.signal.emit(asio::cancellation_type::total);
    g.ways.resume();
    BOOST_REQUIRE(g.p.until([&] { return c.done; }));
    BOOST_TEST(!c.how, c.how.what());
    BOOST_TEST(c.held.held());
    BOOST_TEST(g.p.releases(c.held));
    BOOST_TEST(g.p.sees_no_keys(g.servers));
}

BOOST_AUTO_TEST_CASE(cancelled_with_one_vote_it_gives_that_back_too) {
    for (auto const type : {asio::cancellation_type::partial, asio::cancellation_type::terminal}) {
        guarded_party g;
        g.ways[1].hold_requests();
        g.ways[2].hold_requests();
        auto const answered = g.ways[0].replies_forwarded();
        cancellable c;
        c.start(g.p.locks.make_lock("k", long_lived));
        BOOST_REQUIRE(g.p.until([&] { return g.ways[0].replies_forwarded() > answered; }));
        BOOST_TEST(redis_cli(g.servers[0]).exists("k"));
        c.signal.emit(type);
        BOOST_REQUIRE(g.p.until([&] { return c.done; }));
        BOOST_TEST((c.how == errc::cancelled), c.how.what());
        // It waits for nobody who is silent.
        BOOST_TEST(g.p.sees_no_keys(g.servers[0]));
        g.ways.resume();
        // What was held up arrives: the key, and its release behind it.
        auto const sent = g.p.locks.stats().commands;
        BOOST_TEST(sent >= 6U);
        BOOST_TEST(g.p.sees_no_keys(g.servers));
        auto again = g.p.hold("k"); // everything sent before it has been carried out
        BOOST_TEST(g.p.sees(g.servers, "k", true));
        BOOST_TEST(g.p.releases(again));
    }
}

BOOST_AUTO_TEST_CASE(cancelled_in_mid_round_it_gives_back_over_a_new_connection) {
    for (auto const type : {asio::cancellation_type::partial, asio::cancellation_type::terminal}) {
        guarded_party g;
        g.ways.hold_replies();
        cancellable c;
        c.start(g.p.locks.make_lock("k", long_lived));
        for (auto& one : g.ways.all) {
            BOOST_REQUIRE(g.p.until([&] { return one.replies_held() > 0; }));
        }
        for (server& one : g.servers) BOOST_TEST(redis_cli(one).exists("k"));
        c.signal.emit(type);
        BOOST_REQUIRE(g.p.until([&] { return c.done; }));
        BOOST_TEST((c.how == errc::cancelled), c.how.what());
        for (auto& one : g.ways.all) one.cut();
        g.ways.resume();
        BOOST_TEST(g.p.sees_no_keys(g.servers));
    }
}

BOOST_AUTO_TEST_CASE(cancelled_while_it_asks_what_is_in_the_way_it_ends_at_once) {
    for (auto const type : every_type) {
        guarded_party g;
        for (server& one : g.servers) redis_cli(one).set("k", "foreign", 60s);
        for (auto& one : g.ways.all) {
            one.intercept([wire = &one](command_line const& words) -> std::optional<std::string> {
                if (is_command(words, "PTTL")) wire->hold_replies();
                return std::nullopt;
            });
        }
        cancellable c;
        c.start(g.p.locks.make_lock("k", long_lived));
        auto const asked = [&] {
            std::size_t held = 0;
            for (auto& one : g.ways.all) held += one.replies_held();
            return held >= 2;
        };
        BOOST_REQUIRE(g.p.until(asked));
        c.signal.emit(type);
        BOOST_REQUIRE(g.p.until([&] { return c.done; }));
        BOOST_TEST((c.how == errc::cancelled), c.how.what());
        BOOST_TEST(g.p.locks.stats().rounds == 1U);
        g.ways.resume();
        for (server& one : g.servers) BOOST_TEST(redis_cli(one).get("k").value_or("gone") == "foreign");
    }
}

bool servers_have_keys(fleet const& servers) {
    for (server& one : servers) {
        if (redis_cli(one).dbsize() > 0) return true;
    }
    return false;
}

BOOST_AUTO_TEST_CASE(cancelled_between_tries_it_ends_at_once) {
    for (auto const type : every_type) {
        fleet servers(3);
        party p(servers);
        party other(servers);
        auto held = other.hold("k");
        cancellable c;
        c.start(p.locks.make_lock("k", long_lived));
        BOOST_REQUIRE(p.until([&] { return p.locks.stats().waiters == 1; }));
        c.signal.emit(type);
        BOOST_REQUIRE(p.until([&] { return c.done; }));
        BOOST_TEST((c.how == errc::cancelled), c.how.what());
        BOOST_TEST(held.held());
        BOOST_TEST(other.releases(held));
        // Its last try may have been on its way still, and won; then it has to give that back.
        BOOST_TEST(p.until([&] {
            other.context.restart();
            other.context.poll();
            return !servers_have_keys(servers);
        }));
    }
}

BOOST_AUTO_TEST_CASE(cancelled_behind_a_holder_of_the_same_client_it_ends_at_once) {
    for (auto const type : every_type) {
        fleet servers(3);
        party p(servers);
        auto held = p.hold("k");
        cancellable c;
        c.start(p.locks.make_lock("k", long_lived));
        BOOST_REQUIRE(p.until([&] { return p.locks.stats().waiters == 1; }));
        c.signal.emit(type);
        BOOST_REQUIRE(p.until([&] { return c.done; }));
        BOOST_TEST((c.how == errc::cancelled), c.how.what());
        BOOST_TEST(p.locks.stats().waiters == 0U);
        BOOST_TEST(p.releases(held));
        BOOST_TEST(p.sees_no_keys(servers));
    }
}

BOOST_AUTO_TEST_CASE(cancelled_after_the_quorum_it_is_too_late) {
    for (auto const type : every_type) {
        fleet servers(3);
        party p(servers);
        BOOST_REQUIRE(p.all_up());
        cancellable c;
        c.start(p.locks.make_lock("k", long_lived));
        // Won, though the handler has not run yet.
        BOOST_REQUIRE(p.until([&] { return p.locks.stats().held == 1 || c.done; }));
        c.signal.emit(type);
        BOOST_REQUIRE(p.until([&] { return c.done; }));
        BOOST_TEST(!c.how, c.how.what());
        BOOST_TEST(c.held.held());
        BOOST_TEST(p.releases(c.held));
    }
}

BOOST_AUTO_TEST_CASE(cancelled_after_the_quorum_it_is_too_late_also_with_a_vote_outstanding) {
    for (auto const type : every_type) {
        guarded_party g;
        g.ways[2].hold_requests();
        cancellable c;
        c.start(g.p.locks.make_lock("k", long_lived));
        BOOST_REQUIRE(g.p.until([&] { return g.p.locks.stats().held == 1; }));
        BOOST_TEST(!c.done); // so the signal is still connected
        c.signal.emit(type);
        BOOST_REQUIRE(g.p.until([&] { return c.done; }));
        BOOST_TEST(!c.how, c.how.what());
        BOOST_TEST(c.held.held());
        BOOST_TEST(g.p.releases(c.held));
        g.ways[2].resume();
        BOOST_TEST(g.p.sees_no_keys(g.servers));
    }
}

BOOST_AUTO_TEST_CASE(a_late_signal_does_not_hit_the_next_call) {
    for (auto const type : every_type) {
        fleet servers(3);
        party p(servers);
        BOOST_REQUIRE(p.all_up());
        cancellable first;
        first.start(p.locks.make_lock("first", long_lived));
        BOOST_REQUIRE(p.until([&] { return p.locks.stats().held == 1; }));
        BOOST_TEST(!first.done);
        // Both in one turn: the next call may get the memory of the one that has won.
        first.signal.emit(type);
        cancellable next;
        next.start(p.locks.make_lock("next", long_lived));
        BOOST_REQUIRE(p.until([&] { return first.done && next.done; }));
        BOOST_TEST(!first.how, first.how.what());
        BOOST_TEST(!next.how, next.how.what());
        BOOST_TEST(next.held.held());
        BOOST_TEST(p.locks.stats().acquire_failed == 0U); // nor is the one that has won counted as failed
        first.signal.emit(type);                          // nothing is left that it could reach
        BOOST_TEST(p.releases(first.held));
        BOOST_TEST(p.releases(next.held));
    }
}

BOOST_AUTO_TEST_CASE(a_cancelled_extension_leaves_the_lease_as_it_was) {
    for (auto const type : every_type) {
        guarded_party g;
        auto held = g.hold("k");
        auto const deadline = held.deadline();
        g.ways.hold_replies();
        asio::cancellation_signal signal;
        error how;
        auto done = false;
        held.extend(asio::bind_cancellation_slot(signal.slot(), [&](error e) {
            how = std::move(e);
            done = true;
        }));
        BOOST_REQUIRE(g.p.until([&] { return g.ways[0].replies_held() > 0; }));
        signal.emit(type);
        BOOST_REQUIRE(g.p.until([&] { return done; }));
        BOOST_TEST((how == errc::cancelled), how.what());
        BOOST_TEST(held.held());
        g.ways.resume();
        // It was sent, so it may win all the same.
        BOOST_TEST(g.p.until([&] { return held.deadline() > deadline; }));
        BOOST_TEST(g.p.releases(held));
    }
}

BOOST_AUTO_TEST_CASE(an_extension_cancelled_before_it_was_sent_is_never_sent) {
    for (auto const type : every_type) {
        fleet servers(1);
        party p(servers);
        auto held = p.hold("k");
        auto const deadline = held.deadline();
        auto const sent = p.locks.stats().commands;
        asio::cancellation_signal signal;
        std::optional<error> how;
        held.extend(asio::bind_cancellation_slot(signal.slot(), [&](error e) { how = std::move(e); }));
        signal.emit(type);
        BOOST_REQUIRE(p.until([&] { return how.has_value(); }));
        BOOST_TEST((*how == errc::cancelled), how->what());
        BOOST_TEST(p.locks.stats().commands == sent);
        BOOST_TEST((held.deadline() == deadline));
        BOOST_TEST(p.releases(held));
    }
}

BOOST_AUTO_TEST_CASE(a_cancelled_wait_for_the_loss_leaves_the_lease_and_the_other_waits) {
    for (auto const type : every_type) {
        for (auto const at_once : {false, true}) {
            fleet servers(1);
            party p(servers);
            auto held = p.hold("k");
            asio::cancellation_signal signal;
            std::optional<error> how, other;
            held.lost([&](error e) { other = std::move(e); });
            held.lost(asio::bind_cancellation_slot(signal.slot(), [&](error e) { how = std::move(e); }));
            if (!at_once) BOOST_TEST(!p.extend(held)); // so the wait has begun
            signal.emit(type);
            BOOST_REQUIRE(p.until([&] { return how.has_value(); }));
            BOOST_TEST((*how == errc::cancelled), how->what());
            BOOST_TEST(!other.has_value());
            BOOST_TEST(held.held());
            BOOST_TEST(p.releases(held));
            BOOST_REQUIRE(p.until([&] { return other.has_value(); }));
            BOOST_TEST((*other == errc::lease_released), other->what());
        }
    }
}

BOOST_AUTO_TEST_CASE(a_release_cannot_be_cancelled) {
    for (auto const type : every_type) {
        guarded_party g;
        auto held = g.hold("k");
        g.ways.hold_replies();
        asio::cancellation_signal signal;
        std::optional<release_result> how;
        held.release(asio::bind_cancellation_slot(signal.slot(), [&](release_result r) { how = r; }));
        BOOST_REQUIRE(g.p.until([&] { return g.ways[0].replies_held() > 0; }));
        signal.emit(type);
        BOOST_TEST(!run_until(
            g.p.context, [&] { return how.has_value(); }, 0s));
        g.ways.resume();
        BOOST_REQUIRE(g.p.until([&] { return how.has_value(); }));
        BOOST_TEST(static_cast<bool>(*how));
        BOOST_TEST(g.p.sees_no_keys(g.servers));
    }
}

//
// Time limits and codes
//

BOOST_AUTO_TEST_CASE(a_limit_is_kept_and_told_as_a_timeout) {
    fleet servers(3);
    party p(servers);
    party other(servers);
    // Each on a key of its own: where a try has just been refused, the next one need not ask.
    auto number = 0;
    for (auto const limit :
         {std::chrono::nanoseconds(30ms), std::chrono::nanoseconds(1), std::chrono::nanoseconds(0),
          std::chrono::nanoseconds(-1s), std::chrono::nanoseconds::min()}) {
        auto const name = "k" + std::to_string(++number);
        auto const held = other.hold(name);
        auto const rounds = p.locks.stats().rounds;
        cancellable c;
        c.start_for(p.locks.make_lock(name, long_lived), limit);
        BOOST_REQUIRE(p.until([&] { return c.done; }));
        if (limit == 1ns) {
            // Over before the answers come, or just after: then it is known that somebody holds it.
            BOOST_TEST((c.how == errc::timeout || c.how == errc::no_quorum), c.how.what());
        } else {
            // Without any time there is one try, which ends as try_acquire does.
            BOOST_TEST((c.how == (limit > 0s ? errc::timeout : errc::contended)), c.how.what());
        }
        BOOST_TEST(p.locks.stats().rounds > rounds);
        BOOST_REQUIRE(c.how.report() != nullptr);
        BOOST_TEST(c.how.report()->attempts >= 1U);
    }
    auto held = other.hold("k");
    auto const key = p.locks.make_lock("k", long_lived);
    // The longest of all limits is none.
    cancellable c;
    c.start_for(key, std::chrono::nanoseconds::max());
    BOOST_REQUIRE(p.until([&] { return p.locks.stats().pending == 1; }));
    BOOST_TEST(other.releases(held));
    BOOST_REQUIRE(p.until([&] { return c.done; }));
    BOOST_TEST(!c.how, c.how.what());
    BOOST_TEST(p.releases(c.held));
}

// What this client holds it needs not ask for.
BOOST_AUTO_TEST_CASE(behind_a_holder_of_the_same_client_nobody_asks_the_instances) {
    fleet servers(3);
    party p(servers);
    auto held = p.hold("k");
    auto const key = p.locks.make_lock("k", long_lived);
    auto const rounds = p.locks.stats().rounds;
    for (auto const limit : {std::chrono::nanoseconds(30ms), std::chrono::nanoseconds(1),
                             std::chrono::nanoseconds(0), std::chrono::nanoseconds(-1s)}) {
        cancellable c;
        c.start_for(key, limit);
        BOOST_REQUIRE(p.until([&] { return c.done; }));
        BOOST_TEST((c.how == (limit > 0s ? errc::timeout : errc::contended)), c.how.what());
        BOOST_REQUIRE(c.how.report() != nullptr);
        BOOST_TEST(c.how.report()->holder == "this client");
        BOOST_TEST(c.how.report()->attempts == 0U);
        for (auto const& i : c.how.report()->instances) {
            BOOST_TEST((i.what == outcome::held));
            BOOST_TEST(i.ttl_known);
        }
    }
    BOOST_TEST(p.locks.stats().rounds == rounds);
    BOOST_TEST(p.releases(held));
}

BOOST_AUTO_TEST_CASE(a_limit_that_ends_before_anybody_answers_is_no_timeout_and_gives_back) {
    guarded_party g;
    g.ways.hold_replies();
    cancellable c;
    c.start_for(g.p.locks.make_lock("k", long_lived), 30ms);
    BOOST_REQUIRE(g.p.until([&] { return c.done; }));
    BOOST_TEST((c.how == errc::no_quorum), c.how.what());
    g.ways.resume();
    BOOST_TEST(g.p.sees_no_keys(g.servers));
}

BOOST_AUTO_TEST_CASE(each_end_has_its_own_code) {
    fleet servers(3);
    party p(servers, hasty());
    BOOST_REQUIRE(p.all_up());
    auto held = p.hold("k");
    BOOST_TEST((p.try_acquire("k").first == errc::contended));
    {
        cancellable c;
        c.start_for(p.locks.make_lock("k"), 10ms);
        BOOST_REQUIRE(p.until([&] { return c.done; }));
        BOOST_TEST((c.how == errc::timeout));
        BOOST_TEST(!(c.how == condition::unavailable));
    }
    BOOST_TEST(p.releases(held));
    BOOST_TEST((p.release(held) == errc::lease_released));
    BOOST_TEST((p.extend(held) == errc::lease_released));
    auto doomed = p.hold("doomed", {.ttl = 200ms, .watchdog = false});
    BOOST_REQUIRE(p.until([&] { return !doomed.held(); }));
    BOOST_TEST((p.extend(doomed) == errc::lease_lost));
    BOOST_TEST((p.release(doomed) == errc::lease_lost));
    servers[0].kill();
    servers[1].freeze();
    auto const down = p.acquire("k").first;
    BOOST_TEST((down == errc::no_quorum), down.what());
    BOOST_TEST((down == condition::unavailable));
    servers[1].thaw();
    auto done = false;
    p.locks.shutdown([&](error) { done = true; });
    BOOST_REQUIRE(p.until([&] { return done; }));
    BOOST_TEST((p.acquire("k").first == errc::shut_down));
}

BOOST_AUTO_TEST_SUITE_END()
