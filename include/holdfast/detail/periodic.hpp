// The coroutine of at_most_every(): a section that marks its start.
#ifndef HOLDFAST_DETAIL_PERIODIC_HPP
#define HOLDFAST_DETAIL_PERIODIC_HPP

#include <holdfast/clock.hpp>
#include <holdfast/detail/access.hpp>
#include <holdfast/detail/api.hpp>
#include <holdfast/detail/initiate.hpp>
#include <holdfast/detail/lock_state.hpp>
#include <holdfast/detail/section.hpp>
#include <holdfast/error.hpp>
#include <holdfast/key_report.hpp>
#include <holdfast/lease.hpp>
#include <holdfast/lock.hpp>
#include <holdfast/start_report.hpp>
#include <holdfast/wait_limit.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace holdfast::detail {

/// Behind the key of the lock: the key that marks the start of the last run.
inline constexpr std::string_view start_mark_suffix = ":last";
/// How long a call waits for the lock: another one may be looking at the mark.
inline constexpr std::chrono::seconds longest_look{1};

/// @throws system_error  errc::invalid_options, errc::invalid_key, errc::shut_down.
HOLDFAST_API lock make_start_mark(lock const& of, std::chrono::milliseconds interval);
/// How long a call waits for the end of an interval that is nearly over.
HOLDFAST_API std::chrono::milliseconds longest_early(std::chrono::milliseconds interval) noexcept;
/// `took`: since the mark was taken.
HOLDFAST_API start_report report_of_run(lock const& of, std::chrono::milliseconds interval,
                                        std::chrono::nanoseconds took);
/// The last run, by its mark.
HOLDFAST_API start_report report_of(key_report const& mark, lock const& of,
                                    std::chrono::milliseconds interval);

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif

/// The body of the section: takes the mark, and then runs the user's body.
template <class Executor, class Body>
struct marked_body {
    lock const& on;
    lock const& mark;
    std::chrono::milliseconds interval;
    Body& body;
    bool& entered; ///< the lock is ours

    asio::awaitable<start_report, Executor> operator()(lease& held) const {
        entered = true;
        auto begun = lease_clock::now();
        auto taken = co_await mark.try_acquire(asio::as_tuple(asio::deferred));
        if (std::get<0>(taken) == errc::contended) {
            auto const seen = co_await inspect();
            auto found = report_of(seen, on, interval);
            // A mark without an end is none of ours.
            if (seen.state == key_state::held && !found.due) throw_error(std::get<0>(taken));
            // Without a mark by now, its time has come.
            auto const early = found.due.value_or(std::chrono::milliseconds(0));
            if (early > longest_early(interval)) co_return found;
            auto second =
                co_await mark.try_acquire_for(early + longest_look, asio::as_tuple(asio::deferred));
            taken = std::move(second);
            begun = lease_clock::now();
            if (std::get<0>(taken) == errc::wait_timeout) {
                auto const now = co_await inspect();
                co_return report_of(now, on, interval);
            }
        }
        if (std::get<0>(taken)) throw_error(std::get<0>(taken));
        // A call that is cancelled by now begins nothing: the mark goes with its lease.
        auto const state = co_await asio::this_coro::cancellation_state;
        if (state.cancelled() != asio::cancellation_type::none) throw_error(errc::cancelled);
        std::get<1>(taken).detach();
        co_await std::invoke(body, held);
        auto done = report_of_run(on, interval, lease_clock::now() - begun);
        co_return done;
    }

    asio::awaitable<key_report, Executor> inspect() const {
        // Named: g++ 12 destroys such a temporary twice.
        initiate_inspect const call{{access::state_of(mark)}};
        auto found = co_await asio::async_initiate<asio::deferred_t const, void(error, key_report)>(
            call, asio::deferred);
        co_return found;
    }
};

template <class Executor, class Body>
asio::awaitable<start_report, Executor> periodic(lock on, lock mark,
                                                 std::chrono::milliseconds interval, Body body,
                                                 std::shared_ptr<section_stop> stop) {
    co_await asio::this_coro::throw_if_cancelled(false);
    co_await asio::this_coro::reset_cancellation_state(asio::enable_total_cancellation());
    listen(*stop);
    auto entered = false;
    marked_body<Executor, Body> inner{on, mark, interval, body, entered};
    asio::use_awaitable_t<Executor> const token;
    auto ended = co_await start_section(on, {longest_look}, inner, asio::as_tuple(token));
    auto const& failure = std::get<0>(ended);
    if (!failure) co_return std::move(std::get<1>(ended));
    // The body may throw the same.
    if (entered || thrown_code(failure) != errc::wait_timeout) std::rethrow_exception(failure);
    auto const seen = co_await inner.inspect();
    auto found = report_of(seen, on, interval);
    found.running = true;
    co_return found;
}

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
#pragma GCC diagnostic pop
#endif

struct initiate_periodic {
    asio::any_io_executor fallback;

    using executor_type = asio::any_io_executor;
    executor_type get_executor() const noexcept { return fallback; }

    template <class Handler, class Body>
    void operator()(Handler&& handler, lock on, lock mark, std::chrono::milliseconds interval,
                    Body&& body) const {
        using traits = section_traits<Body>;
        static_assert(std::is_void_v<typename traits::value>,
                      "the body of at_most_every() returns boost::asio::awaitable<void>");
        using spawned_on = typename traits::executor;
        require_context(fallback);
        spawn_section<spawned_on>(
            std::forward<Handler>(handler), fallback, [&](std::shared_ptr<section_stop> stop) {
                return periodic<spawned_on, std::decay_t<Body>>(std::move(on), std::move(mark),
                                                                interval, std::forward<Body>(body),
                                                                std::move(stop));
            });
    }
};

} // namespace holdfast::detail

#endif
