#ifndef HOLDFAST_LEASE_HPP
#define HOLDFAST_LEASE_HPP

#include <holdfast/clock.hpp>
#include <holdfast/detail/initiate.hpp>
#include <holdfast/detail/lease_core.hpp>
#include <holdfast/error.hpp>

#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace holdfast {

/// How a release ended. It is a result and not an error: `co_await lease.release()` does not throw,
/// as there is nothing left to do for whom it did not go well. After it the key is not this
/// lease's, or will not be for longer than its ttl.
class release_result {
public:
    release_result() noexcept = default;
    explicit release_result(errc code) noexcept
        : code_(make_error_code(code)) {}

    /// No error: the lease had lasted until then, and a quorum is known not to have the key any
    /// more, or the next waiter of this process has it now.
    /// - errc::lease_lost: the lease had ended before, or too few instances still had our key.
    /// - errc::no_quorum: too few instances answered, or too many refused. Each is asked to delete
    ///   the key again when it can be reached, and lets it expire if that takes longer than the
    ///   ttl.
    /// - errc::lease_released: it had been released before.
    error_code code() const noexcept { return code_; }
    explicit operator bool() const noexcept { return !code_.failed(); }
    friend bool operator==(release_result const& a, errc b) noexcept {
        return a.code_ == make_error_code(b);
    }

private:
    error_code code_;
};

/// The right to a lock, until its deadline.
///
/// It is a lease and not a mutex: when the servers cannot be reached, or this process is stopped
/// for long, it ends, and another may get it. The holder finds out by held(), deadline() and
/// wait_lost(). The deadline counts from before the request was sent, less an allowance for
/// drifting clocks (ttl / 100 + 2 ms), so it comes before that of any server. A watchdog extends
/// the lease at least every ttl / 3 unless lock_options::watchdog is off.
///
/// Destroying a lease that was not released releases it in the background; nothing is sent if the
/// executor's context runs no more, and then the key goes with its ttl. `co_await lease.release()`
/// is the way to know.
///
/// A lease that was moved from, or default-constructed, is empty: held() is false, and the
/// asynchronous functions throw errc::lease_released from the call itself.
///
/// What a paused holder can and cannot be promised: a process that was stopped past the deadline (a
/// debugger, a full machine, a suspend) finds held() false at the first look, wait_lost() tells as
/// soon as the event loop runs, and release() says errc::lease_lost. What it does *without* looking
/// nobody can prevent from here: a request that was on its way arrives late. For that there is
/// fence(): the resource itself rejects a late holder.
///
/// @par Lifetimes  Operations share the lease's state: the object may be destroyed while one is
///     under way. An extend ends first; the lease is then released, and a wait_lost() under way
///     ends with errc::lease_released. A lease may outlive the client and its context. When the
///     context has been destroyed held() is false, the asynchronous functions and renew_while()
///     throw errc::shut_down from the call, and destroying the lease does nothing.
/// @par Executor  Handlers run on their associated executor, by default the client's; never inside
///     the call.
/// @par Thread safety  Distinct leases: safe. One lease: held(), remaining(), deadline() from any
///     thread, the rest from one coroutine at a time.
class [[nodiscard]] lease {
public:
    lease() noexcept = default;
    lease(lease&&) noexcept = default;
    lease& operator=(lease&&) noexcept = default;
    ~lease() = default;

    /// Whether there is a lease at all, held or not.
    explicit operator bool() const noexcept { return static_cast<bool>(share_); }

    /// The key on the servers, with the client's prefix. Empty for an empty lease.
    std::string const& key() const noexcept;

    /// Whether the lock is ours now: not released, not lost, and before the deadline. A loss is
    /// told up to min(ttl / 20, 50 ms) ahead of the deadline, and then this is false; nobody else
    /// gets the key before the deadline all the same. Reads the clock; no I/O.
    bool held() const noexcept { return share_ && !over() && lease_clock::now() < deadline(); }

    /// Until when the lock is ours unless it is extended.
    lease_clock::time_point deadline() const noexcept {
        return share_ ? share_->core->deadline.load(std::memory_order_acquire)
                      : lease_clock::time_point{};
    }

    /// What is left until the deadline; zero when the lease is over.
    lease_clock::duration remaining() const noexcept {
        if (!share_ || over()) return lease_clock::duration::zero();
        auto const left = deadline() - lease_clock::now();
        return left > lease_clock::duration::zero() ? left : lease_clock::duration::zero();
    }

    /// A number by which the resource that the lock protects can tell who is late, where
    /// lock_options::fencing is on; else 0. Hand it with each request to the resource, which
    /// rejects a smaller one than it has seen (see fence_gate.hpp), and so whatever comes from a
    /// holder that is late. Below 2^53, so scripts and JSON represent it exactly. No I/O.
    ///
    /// No two leases on a key have one number. A lease that was acquired from the instances has a
    /// greater one than all that were given before its first request was sent, whatever clocks,
    /// pauses and networks do, for as long as the instances keep their counters. One that was
    /// handed on in this process has the next after its predecessor's, and so it may be as late as
    /// that one. The assumptions are in doc/safety.md.
    std::uint64_t fence() const noexcept { return share_ ? share_->core->fence : 0; }

    /// Another lease object on this same lease, for another coroutine that works under it. The
    /// lease lasts until the last of them has been released or destroyed, and that ends an extend()
    /// that is under way. release() of one that is not the last gives up that one alone, without
    /// I/O, and says whether the lease had lasted until then. Everything else concerns all of them.
    /// Costs an allocation.
    /// @throws system_error  errc::lease_released for an empty lease, or one that was released.
    lease share() const;

    /// Renews the lease only for as long as `wanted()` says so. It is asked before each renewal of
    /// the watchdog, on the client's executor and from whatever thread runs that, so it must be
    /// quick and may not call the lease. Once it says no, or throws, there is no more renewal, and
    /// the lease ends at its deadline, of which the holder is told by wait_lost(). So a worker that
    /// has stopped making progress does not hold for ever; see also lock_options::max_hold. It is
    /// destroyed soon after the lease has ended. None: always.
    /// @throws system_error  errc::lease_released for an empty lease, errc::shut_down when the
    ///     context has been destroyed.
    void renew_while(std::function<bool()> wanted);

    /// Gives the lock back: to the next waiter of this process, at once and without I/O, while the
    /// limits of lock_options::handoff_limit and handoff_time allow it and enough of the ttl is
    /// left. Else deletes the key, where it still holds our token, on every instance that may have
    /// it; completes as soon as a quorum has confirmed, or cannot any more; at the latest after
    /// twice client_options::instance_timeout.
    ///
    /// @par Handler signature  `void(release_result)`; see there for the codes.
    /// @par Cancellation  None: giving up would leave the key in the way of others for its ttl.
    template <
        boost::asio::completion_token_for<void(release_result)> Token = boost::asio::deferred_t>
    [[nodiscard]] auto release(Token&& token = {}) {
        return boost::asio::async_initiate<Token, void(release_result)>(
            detail::initiate_release{{checked()}, share_}, token);
    }

    /// Extends the lease now, to a whole ttl from now; the watchdog does this by itself, and where
    /// it is just at it, this waits for that and ends as it does. Before its deadline only: an
    /// extension never creates a key, and never brings back a lease that ran out.
    ///
    /// @par Handler signature  `void(error)`
    /// @par Errors
    ///   - errc::no_quorum: too few instances answered; the lease goes on to its old deadline, and
    ///     the watchdog tries again.
    ///   - errc::lease_lost: it had ended, or its loss was due to be told, or a majority no longer
    ///     has our key.
    ///   - errc::lease_released, errc::shut_down, errc::cancelled.
    /// @par Cancellation  total, partial, terminal: completes with errc::cancelled. The request may
    ///     have been sent, and if it wins, the deadline moves all the same.
    template <boost::asio::completion_token_for<void(error)> Token = boost::asio::deferred_t>
    [[nodiscard]] auto extend(Token&& token = {}) {
        return boost::asio::async_initiate<Token, void(error)>(detail::initiate_extend{{checked()}},
                                                               token);
    }

    /// Waits for the lease to be lost. Told no later than the deadline, by a timer that waits for
    /// no server; the key is let go of at the deadline, so until then a try_acquire() in this
    /// process finds it held. Told at once, when a majority of the instances is found to have our
    /// key no longer.
    ///
    /// @par Handler signature  `void(error)`; no error means that the lease is lost.
    /// @par Errors  errc::lease_released: it was released before it could be lost. errc::cancelled.
    /// @par Cancellation  total, partial, terminal: the wait ends; the lease is as it was.
    template <boost::asio::completion_token_for<void(error)> Token = boost::asio::deferred_t>
    [[nodiscard]] auto wait_lost(Token&& token = {}) {
        return wait_lost(std::chrono::nanoseconds(0), std::forward<Token>(token));
    }

    /// As wait_lost(), and at the latest when no more than `ahead` is left until the deadline: as
    /// long as renewals succeed the deadline moves on, so this tells that the lease cannot be kept,
    /// while it still lasts. With an `ahead` of more than half of the ttl it may tell that before a
    /// renewal.
    template <boost::asio::completion_token_for<void(error)> Token = boost::asio::deferred_t>
    [[nodiscard]] auto wait_lost(std::chrono::nanoseconds ahead, Token&& token = {}) {
        return boost::asio::async_initiate<Token, void(error)>(detail::initiate_lost{{checked()}},
                                                               token, ahead);
    }

private:
    friend struct detail::access;
    explicit lease(detail::share_ref share) noexcept
        : share_(std::move(share)) {}

    bool over() const noexcept {
        return share_->core->over.load(std::memory_order_acquire) || share_->released.load();
    }

    detail::lease_ref checked() const {
        if (!share_) throw_error(errc::lease_released);
        detail::require_context(share_->core->lock->executor);
        return detail::lease_ref(share_->core);
    }

    detail::share_ref share_;
};

} // namespace holdfast

#endif
