#ifndef HOLDFAST_LOCK_HPP
#define HOLDFAST_LOCK_HPP

#include <holdfast/detail/api.hpp>
#include <holdfast/detail/boost_version.hpp>
#include <holdfast/detail/initiate.hpp>
#include <holdfast/error.hpp>
#include <holdfast/lease.hpp>
#include <holdfast/options.hpp>
#include <holdfast/wait_limit.hpp>

#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>

#include <chrono>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast {

/// A lock by name, made by client::make_lock. Cheap to copy; copies are the same lock.
///
/// Each acquire makes a lease of its own. Two acquires of one lock exclude each other, also in one
/// process, also in one coroutine (it is not recursive). Of a semaphore
/// (client::make_semaphore()) several may be held.
///
/// @par Fairness  In a process: first come, first served. Only the first in the queue asks the
///     instances. A released lease goes to the next waiter in memory, up to
///     lock_options::handover_limit and handover_time. Between processes that wait with this
///     library, the next is drawn at random. The odds of a process grow with each turn that it
///     missed. No process is passed over for ever, and no order is promised. Clients of other
///     libraries that poll may starve beside these processes: see lock_options::yield_to_pollers.
/// @par Lifetimes  The lock may be destroyed while an acquire is under way. The client may too, and
///     then the acquire completes with errc::shut_down. The lock may outlive the client and its
///     context: an acquire throws errc::shut_down from the call when the context has been
///     destroyed. A lock that was moved from has no key and does the same.
/// @par Executor  Handlers run on their associated executor, by default the client's; never inside
///     the call. On a context with one thread, handlers of that context may follow each other for
///     about 1 ms without other work in between. Such a handler must not run the context itself:
///     see client_options::thread_safe.
/// @par Thread safety  Safe, one object or many, unless client_options::thread_safe is off.
/// @par Cancellation of an acquire, and the key
/// A *try* is one attempt of this process to get the key from the instances.
///   - Before a try was sent for it (behind other waiters, or between tries): the acquire
///     completes, and nothing is on the servers.
///   - While a try for it is under way: partial and terminal cancellation complete it (1). Total
///     cancellation waits for the outcome of the try: a win is delivered, otherwise the acquire
///     completes (1).
///   - After a quorum has granted, or a holder has handed the lock on: too late. The lease is
///     delivered.
///
/// (1) The try goes on for the next in the queue. If there is none, the client releases the key on
/// every instance that may have it, before it sends anything else there.
///
/// A lock on several keys that takes one after the other releases those that it has, too.
///
/// An acquire that fails, for any reason, releases in the same way. The client sends the release to
/// an unreachable instance once that is back, or leaves the key to expire. No key lives longer than
/// its ttl.
class HOLDFAST_API lock {
public:
    /// The key on the servers, with the client's prefix. Of a lock on several keys: their common
    /// name, the keys with a space between two. Valid while there is a copy of this lock, or a
    /// lease of it.
    std::string_view key() const noexcept;
    /// The keys on the servers, with the client's prefix, in byte order. Valid as long as key().
    std::vector<std::string_view> keys() const;
    /// Whether the lock is exclusive, one of the two of a read_write_lock, or a semaphore.
    lock_access access() const noexcept;
    /// How many leases of a semaphore may be valid at one time. Zero for any other lock.
    unsigned permits() const noexcept;
    /// The options that client::make_lock() was called with, else the defaults of lock_options.
    lock_options const& options() const noexcept;
    /// The client's executor. Empty when the context has been destroyed.
    boost::asio::any_io_executor get_executor() const noexcept {
        return state_ ? state_->executor() : boost::asio::any_io_executor();
    }

    /// Acquires the lock, and waits for as long as another holder has it, or too few instances can
    /// grant it: lock_options::on_outage. Between two tries in an outage it pauses 50 ms, twice as
    /// long each time, up to a second; it tries at once when enough instances are back.
    ///
    /// Keep the lease: dropped, it releases the lock at once, and the section runs without it.
    /// clang++ warns of that; g++ 12 does not.
    ///
    /// @code
    /// holdfast::lease lease = co_await lock.acquire(boost::asio::cancel_after(5s));
    /// @endcode
    ///
    /// @par Handler signature  `void(error, lease)`; the lease is empty if there is an error.
    /// @par Errors
    ///   - errc::no_quorum, or the code that all missing instances share
    ///     (error_condition::unavailable): too few instances can grant the lock, and the errors
    ///     are permanent, or the policy is outage_policy::fail. The call fails within twice
    ///     client_options::instance_timeout for each round.
    ///   - errc::wrong_type: on a quorum the key holds something that is no lock.
    ///   - errc::granted_too_late: the servers take longer than the ttl.
    ///   - errc::cancelled, with the report of the wait; errc::shut_down, errc::out_of_memory.
    /// @par Cancellation  total, partial, terminal: see the list in the comment of this class.
    template <boost::asio::completion_token_for<void(error, lease)> Token = boost::asio::deferred_t>
    [[nodiscard]] auto acquire(Token&& token = {}) const {
        return start(no_limit, token);
    }

    /// Tries once, in one round to all instances. If the lock is held, the client asks the
    /// instances that refused once more, for the report: the rest of the ttl, the holder, and
    /// whether the key is a lock at all. If this client has the lock itself, or has waiters for it,
    /// it asks no instance. Of a semaphore it asks although it has permits, but not while acquires
    /// of this client wait for one.
    ///
    /// @par Handler signature, cancellation  As for acquire.
    /// @par Errors  errc::contended where acquire would wait: a quorum refused; or some instances
    ///     refused, and those that could still decide take longer than they usually do. Else as for
    ///     acquire.
    template <boost::asio::completion_token_for<void(error, lease)> Token = boost::asio::deferred_t>
    [[nodiscard]] auto try_acquire(Token&& token = {}) const {
        return start(try_now, token);
    }

    /// As acquire, for no longer than `limit`. A limit of zero or less makes it try_acquire().
    ///
    /// @par Handler signature, cancellation  As for acquire.
    /// @par Errors  errc::wait_timeout where acquire would go on waiting for a holder. In an outage
    ///     the code of the last try, or errc::no_quorum if no instance has answered in that time:
    ///     both are error_condition::unavailable. Else as for acquire. A round that is under way at
    ///     the limit is given up and released.
    template <boost::asio::completion_token_for<void(error, lease)> Token = boost::asio::deferred_t>
    [[nodiscard]] auto try_acquire_for(std::chrono::nanoseconds limit, Token&& token = {}) const {
        return start(wait_for(limit), token);
    }

private:
    friend struct detail::access;
    explicit lock(detail::lock_state_ptr state) noexcept
        : state_(std::move(state)) {}

    template <class Token>
    auto start(wait_limit limit, Token& token) const {
        return boost::asio::async_initiate<Token, void(error, lease)>(
            detail::initiate_acquire{checked()}, token, limit);
    }

    detail::lock_state_ptr const& checked() const {
        if (!state_) detail::refuse_use("the lock was moved from");
        detail::require_context(state_->executor());
        return state_;
    }

    detail::lock_state_ptr state_;
};

} // namespace holdfast

#endif
