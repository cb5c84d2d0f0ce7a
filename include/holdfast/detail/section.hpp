// The critical section of with_lock() and with_lease(), as a coroutine on the caller's executor.
#ifndef HOLDFAST_DETAIL_SECTION_HPP
#define HOLDFAST_DETAIL_SECTION_HPP

#include <holdfast/detail/access.hpp>
#include <holdfast/detail/api.hpp>
#include <holdfast/detail/boost_version.hpp>
#include <holdfast/error.hpp>
#include <holdfast/lease.hpp>
#include <holdfast/lease_end.hpp>
#include <holdfast/lock.hpp>
#include <holdfast/wait_limit.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
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

/// Decides, when one of the two operations of a section has ended, whether the other must end.
struct ends_section {
    template <class... Result>
    asio::cancellation_type_t operator()(std::exception_ptr const&,
                                         Result const&...) const noexcept {
        return asio::cancellation_type::all;
    }
    asio::cancellation_type_t operator()(error const& failed, lease_end how) const noexcept {
        return failed || by(failed, how) ? asio::cancellation_type::all
                                         : asio::cancellation_type::none;
    }
    /// True if the wait for the end says that the lease is lost, or cannot be kept.
    static bool by(error const& failed, lease_end how) noexcept {
        return !failed && how != lease_end::released;
    }
};

/// The code of a system_error; none for any other exception.
HOLDFAST_API error_code thrown_code(std::exception_ptr const&) noexcept;
/// The error of a lock_error; none for any other exception.
HOLDFAST_API error thrown_error(std::exception_ptr const&) noexcept;
inline bool is_cancellation(std::exception_ptr const& e) noexcept {
    return thrown_code(e) == boost::system::errc::operation_canceled;
}

/// Stands between the caller's cancellation slot and the section. A signal may come before the
/// section's first step, when no coroutine listens yet. Used on the section's executor alone.
struct section_stop {
    explicit section_stop(asio::any_io_executor on)
        : executor(std::move(on)) {}
    void emit(asio::cancellation_type_t type) {
        if (listening) return signal.emit(type);
        early |= type;
    }
    asio::any_io_executor executor;
    asio::cancellation_signal signal;
    asio::cancellation_type_t early = asio::cancellation_type::none;
    bool listening = false;
};

// A false alarm of g++ 12 about the memory of coroutines.
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif

// A body that is no coroutine itself may throw when it is called.
template <class Value, class Executor, class Body>
asio::awaitable<Value, Executor> call(Body& body, lease& held) {
    co_return co_await std::invoke(body, held);
}

/// A section acquires its lock itself.
struct acquires {
    lock on;
    wait_limit limit;
};

/// A section has a lease from its caller.
struct has_lease {
    lease held;
};

/// lock_options::cancel_margin of the lease's lock, or its default.
HOLDFAST_API std::chrono::nanoseconds cancel_margin_of(lease const&) noexcept;

/// The first steps of a section: from now on the caller's cancellation slot is connected.
/// @throws system_error  errc::cancelled, if a signal has come before.
inline void listen(section_stop& stop) {
    stop.listening = true;
    if (stop.early != asio::cancellation_type::none) throw_error(errc::cancelled);
}

// The body and the wait for the end always end before the section does, and the release cannot be
// cancelled.
template <class Value, class Executor, class From, class Body>
asio::awaitable<Value, Executor> section(From from, Body body, std::shared_ptr<section_stop> stop) {
    // A lease that comes in spite of a cancellation must be given back, so no exception may leave
    // unnoticed.
    co_await asio::this_coro::throw_if_cancelled(false);
    co_await asio::this_coro::reset_cancellation_state(asio::enable_total_cancellation());
    lease held;
    if constexpr (std::is_same_v<From, has_lease>) {
        held = std::move(from.held);
        stop->listening = true;
        if (is_loss(held.ended_by())) throw_error(errc::lease_lost);
    } else {
        listen(*stop);
        auto acquired =
            co_await access::acquire(from.on, from.limit, asio::as_tuple(asio::deferred));
        if (std::get<0>(acquired)) throw_error(std::get<0>(acquired));
        held = std::move(std::get<1>(acquired));
    }
    auto const before = co_await asio::this_coro::cancellation_state;
    if ((before.cancelled() | stop->early) != asio::cancellation_type::none) {
        co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
        co_await held.release();
        throw_error(errc::cancelled);
    }

    // From here on the body has effects, so each kind of cancellation only stops it.
    auto const as_terminal = [](asio::cancellation_type_t type) {
        using kind = asio::cancellation_type;
        return (type & (kind::terminal | kind::partial)) != kind::none ? kind::terminal
                                                                       : kind::none;
    };
    co_await asio::this_coro::reset_cancellation_state(as_terminal);
    auto const executor = co_await asio::this_coro::executor;
    auto const cancel_margin = cancel_margin_of(held);
    // Both on this executor, because the one that ends first cancels the other.
    auto const here = asio::bind_executor(executor, asio::deferred);
    auto work = asio::co_spawn(executor, call<Value, Executor>(body, held), here);
    auto end = held.wait_end(cancel_margin, here);
    auto both = asio::experimental::make_parallel_group(std::move(work), std::move(end));
    auto ended = co_await both.async_wait(ends_section(), asio::deferred);

    co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
    auto const& failure = std::get<1>(ended);
    constexpr auto last = std::tuple_size_v<decltype(ended)> - 1;
    auto lost = ends_section::by(std::get<last - 1>(ended), std::get<last>(ended));
    if (held) { // it may have been moved away
        auto const released = co_await held.release();
        lost = lost || released == errc::lease_lost;
    }
    if (failure && !(lost && is_cancellation(failure))) std::rethrow_exception(failure);
    if (lost) throw_error(errc::lease_lost);
    if constexpr (!std::is_void_v<Value>) co_return std::move(std::get<2>(ended));
}

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
#pragma GCC diagnostic pop
#endif

/// The caller's handler, with the slot of the section instead of its own.
template <class Handler>
class section_handler {
public:
    using executor_type = asio::associated_executor_t<Handler, asio::any_io_executor>;
    using allocator_type = asio::associated_allocator_t<Handler>;
    using cancellation_slot_type = asio::cancellation_slot;

    section_handler(Handler handler, std::shared_ptr<section_stop> stop,
                    asio::any_io_executor const& fallback)
        : executor_(asio::get_associated_executor(handler, fallback))
        , handler_(std::move(handler))
        , stop_(std::move(stop)) {}

    executor_type get_executor() const noexcept { return executor_; }
    allocator_type get_allocator() const noexcept {
        return asio::get_associated_allocator(handler_);
    }
    cancellation_slot_type get_cancellation_slot() const noexcept { return stop_->signal.slot(); }

    template <class... Result>
    void operator()(Result&&... result) {
        auto slot = asio::get_associated_cancellation_slot(handler_);
        if (slot.is_connected()) slot.clear();
        std::move(handler_)(std::forward<Result>(result)...);
    }

private:
    executor_type executor_;
    Handler handler_;
    std::shared_ptr<section_stop> stop_;
};

/// An executor that runs one function at a time: the body, its cancellation, and its completion.
template <class Executor>
Executor one_at_a_time(Executor const& executor) {
    if constexpr (std::is_same_v<Executor, asio::any_io_executor>) {
        return asio::make_strand(executor);
    } else {
        return executor;
    }
}

/// The handler's executor, unless no coroutine can run on it, as on an inline executor.
template <class Executor, class Handler>
Executor section_executor(Handler const& handler, asio::any_io_executor const& fallback) {
    using own = asio::associated_executor_t<Handler, asio::any_io_executor>;
    if constexpr (std::is_convertible_v<own, Executor>) {
        return asio::get_associated_executor(handler, fallback);
    } else {
        return fallback;
    }
}

/// Runs the coroutine `make(stop)` for this handler, on an executor of its own.
template <class Executor, class Handler, class Make>
void spawn_section(Handler&& handler, asio::any_io_executor const& fallback, Make&& make) {
    auto const executor = one_at_a_time<Executor>(section_executor<Executor>(handler, fallback));
    auto stop = std::make_shared<section_stop>(executor);
    auto slot = asio::get_associated_cancellation_slot(handler);
    if (slot.is_connected()) {
        // The signal may outlive the context, and with it the executor.
        slot.assign([weak = std::weak_ptr(stop)](asio::cancellation_type_t type) {
            auto const it = weak.lock();
            if (it) asio::dispatch(it->executor, [it, type] { it->emit(type); });
        });
    }
    asio::co_spawn(
        executor, make(stop),
        section_handler<std::decay_t<Handler>>(std::forward<Handler>(handler), stop, fallback));
}

struct initiate_section {
    asio::any_io_executor fallback;

    using executor_type = asio::any_io_executor;
    executor_type get_executor() const noexcept { return fallback; }

    template <class Handler, class From, class Body>
    void operator()(Handler&& handler, From from, Body&& body) const {
        using traits = section_traits<Body>;
        using spawned_on = typename traits::executor;
        require_context(fallback);
        spawn_section<spawned_on>(
            std::forward<Handler>(handler), fallback, [&](std::shared_ptr<section_stop> stop) {
                return section<typename traits::value, spawned_on, From, std::decay_t<Body>>(
                    std::move(from), std::forward<Body>(body), std::move(stop));
            });
    }
};

template <class Body>
void check_body() {
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
    static_assert(std::is_lvalue_reference_v<Body> || std::is_trivially_destructible_v<Body>,
                  "g++ 12 would destroy this body twice: give it a name first, and pass that");
#endif
}

template <class Body, class Token>
auto start_section(lock const& on, wait_limit limit, Body&& body, Token&& token) {
    check_body<Body>();
    auto const executor = on.get_executor();
    require_context(executor);
    return asio::async_initiate<Token, typename section_traits<Body>::signature>(
        initiate_section{executor}, token, acquires{on, limit}, std::forward<Body>(body));
}

} // namespace holdfast::detail

#endif
