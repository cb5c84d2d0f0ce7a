#ifndef HOLDFAST_WITH_LOCK_HPP
#define HOLDFAST_WITH_LOCK_HPP

#include <holdfast/detail/boost_version.hpp>
#include <holdfast/detail/section.hpp>
#include <holdfast/error.hpp>
#include <holdfast/lease.hpp>
#include <holdfast/lease_end.hpp>
#include <holdfast/lock.hpp>
#include <holdfast/wait_limit.hpp>

#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>

#include <utility>

namespace holdfast {

/// A critical section: acquires `on`, runs `body`, and releases the lock on every way out.
///
/// @code
/// int left = co_await holdfast::with_lock(
///     locks.make_lock("seat:12", {.ttl = 10s}),
///     [&](holdfast::lease& held) -> boost::asio::awaitable<int> {
///         co_return co_await book(seat, held.fence());
///     });
/// @endcode
///
/// If the lease cannot be kept, with_lock() cancels `body` (terminal), lock_options::cancel_margin
/// before the deadline at the latest. A body that obeys this has ended by the deadline. with_lock()
/// waits for the body in any case, so all objects that `body` refers to may end afterwards. Then it
/// releases. `body` may share() the lease with coroutines that outlive it. The lock is then kept
/// until the last of those is done.
///
/// @param body  Called with `lease&`, returns a `boost::asio::awaitable<T>`. T is
///     default-constructible, or void. Kept until the end, so a lambda's captures last as long as
///     its coroutine.
///
/// g++ 12 destroys a lambda twice that is written into a co_await expression and captures by value
/// an object with a destructor. With g++ 12 such a body does not compile here. Capture by
/// reference: the section ends before its surroundings. Or give the lambda a name first, and pass
/// it as it is (it is copied) or as `std::ref(body)`. See doc/compilers.md.
///
/// @par Handler signature  `void(std::exception_ptr, T)`, as of boost::asio::co_spawn: co_await
///     throws, and boost::asio::redirect_error does not redirect it.
/// @par Errors  The first of these that applies:
///   - the error of lock::acquire; `body` is then not called;
///   - the exception of `body`, except for a cancellation after the lease was lost;
///   - errc::lease_lost: `body` was cancelled because the lease could not be kept, and ended by
///     that or with a value. Or the release found the lease lost. Another client may have held the
///     lock while `body` ran.
///
/// To wait for the lock for a limited time, give with_lock() a wait_limit. A
/// boost::asio::cancel_after limits all together: it may end the acquire or `body`, and both have
/// one code, errc::cancelled, which is boost::asio::error::operation_aborted. A release that a
/// quorum has not confirmed is no error: the key goes with its ttl.
/// @par Cancellation  While it acquires: total, partial, terminal, by the list of `lock`. After
///     that partial and terminal: with_lock() cancels `body` (terminal), waits for it, releases,
///     and ends as `body` did. The release is not cancelled.
/// @par Executor  `body` runs on the executor of the handler: with co_await, that of the caller's
///     coroutine. It runs on a strand of its own there, because the loss of the lease may cancel it
///     at any time. A `boost::asio::awaitable` for another executor than any_io_executor runs on
///     that executor itself, which must be a strand or run on one thread.
/// @throws system_error  errc::shut_down, from the call itself, for a lock that was moved from or
///     whose context has been destroyed.
template <class Body,
          boost::asio::completion_token_for<typename detail::section_traits<Body>::signature>
              Token = boost::asio::deferred_t>
[[nodiscard]] auto with_lock(lock const& on, Body&& body, Token&& token = {}) {
    return detail::start_section(on, no_limit, std::forward<Body>(body), token);
}

/// As above, and waits for the lock no longer than `limit`: then `body` works for as long as it
/// needs.
///
/// @code
/// try {
///     co_await holdfast::with_lock(locks.make_lock("report"), holdfast::wait_for(1s), body);
/// } catch (holdfast::lock_error const& e) {
///     if (e.code() != holdfast::errc::wait_timeout) throw;  // else: busy, and body was not called
/// }
/// @endcode
///
/// @param limit  try_now, wait_for(1s), or no_limit.
/// @par Errors  As above; of the acquire also errc::contended with try_now, errc::wait_timeout with
///     wait_for(). `body` was not called then.
template <class Body,
          boost::asio::completion_token_for<typename detail::section_traits<Body>::signature>
              Token = boost::asio::deferred_t>
[[nodiscard]] auto with_lock(lock const& on, wait_limit limit, Body&& body, Token&& token = {}) {
    return detail::start_section(on, limit, std::forward<Body>(body), token);
}

/// The section of a lease that is held already, for example one that client::adopt() has given:
/// runs `body`, cancels it if the lease cannot be kept, and releases the lease on every way out.
///
/// @code
/// holdfast::lease lease = co_await seat.try_acquire();
/// co_await holdfast::with_lease(std::move(lease), body);
/// @endcode
///
/// @param held  The section's own from now on; `body` gets it as `lease&`.
/// @par Errors, cancellation, executor  As with_lock(), after its acquire. A cancellation that
/// comes
///     before `body` is called releases the lease, and is errc::cancelled.
/// A lease that is lost before `body` is called is errc::lease_lost, and `body` is not called. A
/// body that releases or detaches the lease goes on without it.
/// @throws system_error  From the call itself: errc::lease_released for a lease that is empty, or
/// was
///     released or detached; errc::shut_down when its context has been destroyed.
template <class Body,
          boost::asio::completion_token_for<typename detail::section_traits<Body>::signature>
              Token = boost::asio::deferred_t>
[[nodiscard]] auto with_lease(lease&& held, Body&& body, Token&& token = {}) {
    detail::check_body<Body>();
    if (held.ended_by() == lease_end::released) throw_error(errc::lease_released);
    auto const executor = detail::access::data_of(held)->lock->executor();
    detail::require_context(executor);
    return boost::asio::async_initiate<Token, typename detail::section_traits<Body>::signature>(
        detail::initiate_section{executor}, token, detail::has_lease{std::move(held)},
        std::forward<Body>(body));
}

} // namespace holdfast

#endif
