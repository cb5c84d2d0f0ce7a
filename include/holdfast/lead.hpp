#ifndef HOLDFAST_LEAD_HPP
#define HOLDFAST_LEAD_HPP

#include <holdfast/detail/leading.hpp>
#include <holdfast/detail/section.hpp>
#include <holdfast/error.hpp>
#include <holdfast/lock.hpp>

#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>

#include <concepts>
#include <exception>
#include <functional>
#include <utility>

namespace holdfast {

/// Leads, again and again: waits until this client has the lock, runs `body` under it, and if the
/// lock is lost waits for it anew. So of the programs that call this on one key, one runs its body
/// at any time, and another one follows when that ends, dies, hangs or loses the servers.
///
/// @code
/// auto const body = [](holdfast::lease& lease) { return schedule(lease); };
/// auto const log = [](holdfast::error const& e) { std::clog << "follows: " << e.what() << '\n'; };
/// co_await holdfast::lead(locks.make_lock("scheduler", {.ttl = 3s}), body, log);
/// @endcode
///
/// `body` is the section of with_lock(): it is cancelled before the lease ends, and waited for.
/// After that the call campaigns again. It ends when `body` returns, when `body` throws, or when it
/// is cancelled.
///
/// It waits through **outages** of any length, and calls `on_trouble` at once if the lock was lost,
/// else every ten seconds. After an error that does not go away by waiting, such as
/// a wrong password, it tries again after a pause of a second, which doubles up to half a minute.
///
/// The ttl of the lock is how long nobody leads after a leader has died.
///
/// @param on  With outage_policy::fail, `on_trouble` receives the error of each try that fails, and
///     that pause follows.
/// @param body  As of with_lock(). It is called once for each time in which this client leads.
/// @param on_trouble  `void(holdfast::error const&)`, called on the executor of `body`, between two
///     calls of that: errc::lease_lost, or why the lock cannot be had. If it throws, the call ends
///     with that.
/// @par Handler signature  `void(std::exception_ptr, T)` as of with_lock(): the value that `body`
///     returned.
/// @par Errors  The exception of `body`, except for a cancellation after the lease was lost;
///     errc::wrong_type, errc::shut_down, errc::out_of_memory.
/// @par Cancellation  While it waits: total, partial, terminal. While `body` runs: as of
///     with_lock(). The lock is released in any case.
/// @par Executor, lifetimes, exceptions from the call  As of with_lock().
template <class Body, std::invocable<error const&> Trouble,
          boost::asio::completion_token_for<typename detail::section_traits<Body>::signature>
              Token = boost::asio::deferred_t>
[[nodiscard]] auto lead(lock const& on, Body&& body, Trouble&& on_trouble, Token&& token = {}) {
    detail::check_body<Body>();
    detail::check_body<Trouble>();
    auto const executor = on.get_executor();
    detail::require_context(executor);
    return boost::asio::async_initiate<Token, typename detail::section_traits<Body>::signature>(
        detail::initiate_lead{executor}, token, on, std::forward<Body>(body),
        std::forward<Trouble>(on_trouble));
}

/// As above, and troubles are told to nobody but client_options::observer.
template <class Body,
          boost::asio::completion_token_for<typename detail::section_traits<Body>::signature>
              Token = boost::asio::deferred_t>
requires(!std::invocable<Token&, error const&>)
    [[nodiscard]] auto lead(lock const& on, Body&& body, Token&& token = {}) {
    return lead(on, std::forward<Body>(body), detail::tells_nobody(), std::forward<Token>(token));
}

} // namespace holdfast

#endif
