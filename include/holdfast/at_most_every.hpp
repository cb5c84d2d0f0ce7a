#ifndef HOLDFAST_AT_MOST_EVERY_HPP
#define HOLDFAST_AT_MOST_EVERY_HPP

#include <holdfast/detail/api.hpp>
#include <holdfast/detail/periodic.hpp>
#include <holdfast/lock.hpp>
#include <holdfast/start_report.hpp>

#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>

#include <chrono>
#include <utility>

namespace holdfast {

/// Runs `body` under the lock, unless a client has begun to do so within `interval` before: at most
/// once in an interval, over all programs that use this call on this key. The interval counts from
/// the start, so a job that is called every hour, and takes ten minutes, runs every hour. The start
/// is the moment at which the instances note it; the body begins when their answers are here.
///
/// @code
/// auto const body = [](holdfast::lease&) { return clean_up(); };
/// auto const run = co_await holdfast::at_most_every(1h, locks.make_lock("cleanup"), body);
/// if (!run.ran) std::cout << run << '\n';  // cleanup: began 12 min ago at web-2, due in 48 min
/// @endcode
///
/// The lock itself keeps two bodies apart, as with_lock() does, so its ttl is short as ever. Under
/// it, the start is marked by a second key, `KEY:last`, with `interval` as its time to live. That
/// key is no lock that anybody holds, so `interval` may be longer than client_options::max_ttl, and
/// no instance waits for its end after a restart. The mark stays when `body` fails: see below.
///
/// The mark needs a majority of the instances, as a lease does. If as many instances lose their
/// keys that no majority has it any more, the next call runs `body` before its time; two bodies
/// never overlap even then, as far as the lock promises. If the client cannot reach a majority, the
/// call fails, and nothing was begun.
///
/// A call that comes a little before its time waits for that, up to a sixtieth of the interval and
/// a minute at most. Timers of different machines are that different: without this, an hourly timer
/// that fires a moment early would skip every second hour.
///
/// @param interval  1 s to 24 days. All programs should give the same: the mark of the one that ran
///     counts.
/// @param on  The lock. Its key with `:last` behind it is the mark: no lock of its own.
/// @param body  As of with_lock(); returns `boost::asio::awaitable<void>`.
///
/// @par Handler signature  `void(std::exception_ptr, start_report)`
/// @par Errors  As of with_lock(). A lock that is held is none: the call waits for a second, and
///     then says so (start_report::running). If `body` throws, its exception is the result, and the
///     interval counts all the same: at most once. A mark that another program has made without an
///     end is errc::contended. To let another machine try at once, catch the exception in `body`,
///     and release the mark with client::force_release(KEY + ":last").
/// @par Cancellation  total, partial, terminal while it waits for the lock, then partial and
///     terminal, which cancel `body`. The lock is released in any case. The mark is released too if
///     `body` was not called, and stays for its interval if it was.
/// @par Executor, lifetimes  As of with_lock().
/// @throws system_error  From the call itself: errc::invalid_options for the interval,
///     errc::invalid_key for a key that is too long for its mark; what() names the value. Else as
///     with_lock().
template <class Body, boost::asio::completion_token_for<void(std::exception_ptr, start_report)>
                          Token = boost::asio::deferred_t>
[[nodiscard]] auto at_most_every(std::chrono::milliseconds interval, lock const& on, Body&& body,
                                 Token&& token = {}) {
    detail::check_body<Body>();
    auto mark = detail::make_start_mark(on, interval);
    return boost::asio::async_initiate<Token, void(std::exception_ptr, start_report)>(
        detail::initiate_periodic{on.get_executor()}, token, on, std::move(mark), interval,
        std::forward<Body>(body));
}

} // namespace holdfast

#endif
