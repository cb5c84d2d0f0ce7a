// The coroutine of lead(): sections, one after the other.
#ifndef HOLDFAST_DETAIL_LEADING_HPP
#define HOLDFAST_DETAIL_LEADING_HPP

#include <holdfast/detail/lock_state.hpp>
#include <holdfast/detail/section.hpp>
#include <holdfast/error.hpp>
#include <holdfast/lease.hpp>
#include <holdfast/lock.hpp>
#include <holdfast/wait_limit.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

namespace holdfast::detail {

/// How long a campaign lasts until its trouble is reported, and the next begins.
inline constexpr std::chrono::seconds campaign_time{10};
/// After an error that does not go away by waiting: the first pause, and the longest.
inline constexpr std::chrono::seconds first_lead_pause{1}, longest_lead_pause{30};

/// Whether a leader campaigns again after this error.
HOLDFAST_API bool outlasts(error const&) noexcept;

struct tells_nobody {
    void operator()(error const&) const noexcept {}
};

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif

/// The user's body, which notes its exception: the section may end with one of the same kind.
template <class Value, class Executor, class Body>
struct led_body {
    Body& body;
    std::exception_ptr& thrown;

    asio::awaitable<Value, Executor> operator()(lease& held) const {
        try {
            co_return co_await std::invoke(body, held);
        } catch (...) {
            thrown = std::current_exception();
            throw;
        }
    }
};

template <class Value, class Executor, class Body, class Trouble>
asio::awaitable<Value, Executor> leading(lock on, Body body, Trouble on_trouble,
                                         std::shared_ptr<section_stop> stop) {
    co_await asio::this_coro::throw_if_cancelled(false);
    co_await asio::this_coro::reset_cancellation_state(asio::enable_total_cancellation());
    listen(*stop);
    auto const executor = co_await asio::this_coro::executor;
    asio::steady_timer timer(executor);
    asio::use_awaitable_t<Executor> const token;
    std::chrono::nanoseconds pause = first_lead_pause;
    for (;;) {
        // A signal may have come between two sections.
        auto const state = co_await asio::this_coro::cancellation_state;
        if (state.cancelled() != asio::cancellation_type::none) throw_error(errc::cancelled);
        std::exception_ptr thrown;
        led_body<Value, Executor, Body> inner{body, thrown};
        auto const begun = lease_clock::now();
        auto ended = co_await start_section(on, {campaign_time}, inner, asio::as_tuple(token));
        auto const& failure = std::get<0>(ended);
        if (!failure) {
            if constexpr (std::is_void_v<Value>) {
                co_return;
            } else {
                co_return std::move(std::get<1>(ended));
            }
        }
        auto const found = thrown_error(failure);
        if (failure == thrown || !outlasts(found)) std::rethrow_exception(failure);
        if (found == errc::wait_timeout) continue; // somebody else leads
        on_trouble(found);
        // The call itself waits in an outage. Where it does not, the error is a permanent one.
        if (found == errc::lease_lost || lease_clock::now() - begun >= campaign_time) {
            pause = first_lead_pause;
            continue;
        }
        timer.expires_after(pause);
        co_await timer.async_wait(asio::as_tuple(asio::deferred));
        pause = std::min<std::chrono::nanoseconds>(2 * pause, longest_lead_pause);
    }
}

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
#pragma GCC diagnostic pop
#endif

struct initiate_lead {
    asio::any_io_executor fallback;

    using executor_type = asio::any_io_executor;
    executor_type get_executor() const noexcept { return fallback; }

    template <class Handler, class Body, class Trouble>
    void operator()(Handler&& handler, lock on, Body&& body, Trouble&& on_trouble) const {
        using traits = section_traits<Body>;
        using spawned_on = typename traits::executor;
        require_context(fallback);
        spawn_section<spawned_on>(
            std::forward<Handler>(handler), fallback, [&](std::shared_ptr<section_stop> stop) {
                return leading<typename traits::value, spawned_on, std::decay_t<Body>,
                               std::decay_t<Trouble>>(std::move(on), std::forward<Body>(body),
                                                      std::forward<Trouble>(on_trouble),
                                                      std::move(stop));
            });
    }
};

} // namespace holdfast::detail

#endif
