// The critical section of client::run(), as a coroutine on the caller's executor.
#ifndef HOLDFAST_DETAIL_SECTION_HPP
#define HOLDFAST_DETAIL_SECTION_HPP

#include <holdfast/error.hpp>
#include <holdfast/lease.hpp>
#include <holdfast/lock.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/this_coro.hpp>

#include <chrono>
#include <exception>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace holdfast::detail {

template <class Awaitable>
struct awaitable_traits;
template <class T, class Executor>
struct awaitable_traits<asio::awaitable<T, Executor>> {
    using value = T;
    using executor = Executor;
    using signature = void(std::exception_ptr, T);
};
template <class Executor>
struct awaitable_traits<asio::awaitable<void, Executor>> {
    using value = void;
    using executor = Executor;
    using signature = void(std::exception_ptr);
};

template <class Body>
using section_traits = awaitable_traits<std::invoke_result_t<std::decay_t<Body>&, lease&>>;

/// When one of the two in a section has ended, whether the other must.
struct ends_section {
    template <class... Result>
    asio::cancellation_type_t operator()(std::exception_ptr const&, Result const&...) const noexcept {
        return asio::cancellation_type::all;
    }
    asio::cancellation_type_t operator()(error const& watched) const noexcept {
        return watched == errc::lease_released ? asio::cancellation_type::none : asio::cancellation_type::all;
    }
};

bool is_cancellation(std::exception_ptr const&) noexcept;

// A body that is no coroutine itself may throw when it is called.
template <class Value, class Executor, class Body>
asio::awaitable<Value, Executor> call(Body& body, lease& held) {
    co_return co_await std::invoke(body, held);
}

// The two always end before it does, and the release cannot be cancelled.
template <class Value, class Executor, class Body>
asio::awaitable<Value, Executor> section(lock on, Body body) {
    // A lease that comes in spite of a cancellation must be given back, so nothing may throw unseen.
    co_await asio::this_coro::throw_if_cancelled(false);
    co_await asio::this_coro::reset_cancellation_state(asio::enable_total_cancellation());
    auto acquired = co_await on.acquire(asio::as_tuple(asio::deferred));
    if (std::get<0>(acquired)) throw_error(std::get<0>(acquired));
    lease held = std::move(std::get<1>(acquired));
    auto const before = co_await asio::this_coro::cancellation_state;
    if (before.cancelled() != asio::cancellation_type::none) {
        co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
        co_await held.release();
        throw_error(errc::cancelled);
    }

    // From here on it has had effects.
    co_await asio::this_coro::reset_cancellation_state(asio::enable_partial_cancellation());
    auto const executor = co_await asio::this_coro::executor;
    auto const& options = on.options();
    auto const grace = options.grace.count() < 0 ? options.ttl / 10 : options.grace;
    auto work = asio::co_spawn(executor, call<Value, Executor>(body, held), asio::deferred);
    auto watch = held.lost(grace, asio::deferred);
    auto both = asio::experimental::make_parallel_group(std::move(work), std::move(watch));
    auto ended = co_await both.async_wait(ends_section(), asio::deferred);

    co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
    auto const& failure = std::get<1>(ended);
    auto const& watched = std::get<std::tuple_size_v<decltype(ended)> - 1>(ended);
    auto lost = !watched;
    if (held) { // it may have been moved away
        auto const lasted = held.held() || watched == errc::lease_released;
        auto const released = co_await held.release();
        lost = lost || !lasted || released == errc::lease_lost;
    }
    if (failure && !(lost && is_cancellation(failure))) std::rethrow_exception(failure);
    if (lost) throw_error(errc::lease_lost);
    if constexpr (!std::is_void_v<Value>) co_return std::move(std::get<2>(ended));
}

struct initiate_run {
    asio::any_io_executor fallback;

    using executor_type = asio::any_io_executor;
    executor_type get_executor() const noexcept { return fallback; }

    template <class Handler, class Body>
    void operator()(Handler&& handler, lock on, Body&& body) const {
        using traits = section_traits<Body>;
        using spawned_on = traits::executor;
        spawned_on const executor(asio::get_associated_executor(handler, fallback));
        asio::co_spawn(executor,
                       section<typename traits::value, spawned_on, std::decay_t<Body>>(
                           std::move(on), std::forward<Body>(body)),
                       std::forward<Handler>(handler));
    }
};

} // namespace holdfast::detail

#endif
