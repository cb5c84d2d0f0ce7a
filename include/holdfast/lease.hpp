#ifndef HOLDFAST_LEASE_HPP
#define HOLDFAST_LEASE_HPP

#include <holdfast/clock.hpp>
#include <holdfast/detail/api.hpp>
#include <holdfast/detail/boost_version.hpp>
#include <holdfast/detail/initiate.hpp>
#include <holdfast/detail/lease_data.hpp>
#include <holdfast/error.hpp>
#include <holdfast/lease_end.hpp>
#include <holdfast/lease_token.hpp>

#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast {

/// How a release ended. It is a result and not an error: `co_await lease.release()` does not throw,
/// because the caller can do nothing about a failure. The key does not outlive its ttl, also if the
/// release failed.
class HOLDFAST_API release_result {
public:
    /// Confirmed.
    release_result() noexcept = default;
    /// A failure with this code and the answers of the instances; `report` may be null.
    explicit release_result(errc code,
                            std::shared_ptr<acquire_report const> report = nullptr) noexcept
        : code_(make_error_code(code))
        , report_(std::move(report)) {}

    /// Whether the release is as it should be: the lease had lasted until then, and a quorum is
    /// known not to have the key any more, or the next waiter of this process has the lock now.
    bool confirmed() const noexcept { return !code_.failed(); }
    /// Why the release is not confirmed; no error if it is.
    /// - errc::lease_lost: the lease had ended before, or too few instances still had our key.
    /// - errc::no_quorum: too few instances answered, or too many refused, for different reasons.
    ///   The client asks each one again to delete the key, until the ttl is over.
    /// - errc::access_denied: too many refused for want of a right. The key stays there until its
    ///   ttl is over.
    /// - Another code of an instance: the cause that all those share which kept the release from a
    ///   quorum. The client asks again, as after errc::no_quorum.
    /// - errc::lease_released: the lease had been released before.
    error_code code() const noexcept { return code_; }

    /// The answers that kept the release from a quorum, instance by instance. Null if there is no
    /// such failure.
    acquire_report const* report() const noexcept { return report_.get(); }
    /// One readable line: the report, if any, and the message of the code.
    std::string what() const;

    /// Whether the code is `b`.
    friend bool operator==(release_result const& a, errc b) noexcept {
        return a.code_ == make_error_code(b);
    }

private:
    error_code code_;
    std::shared_ptr<acquire_report const> report_;
};

/// The right to a lock, until its deadline.
///
/// A lease is no mutex: it ends when the servers cannot be reached, or when this process is stopped
/// for long. Then another client may get the lock. The holder learns that by held(),
/// deadline() and wait_end(). The deadline counts from before the request was sent, less an
/// allowance for drifting clocks (ttl / 100 + 2 ms). So it comes before the key expires on any
/// server. A watchdog extends the lease at least every ttl / 3 unless lock_options::watchdog is
/// off.
///
/// Destroying a lease that was not released releases it in the background. Nothing is sent if the
/// executor's context runs no more, and then the key goes with its ttl. Await `lease.release()` to
/// know the result.
///
/// A lease that was moved from, or default-constructed, is empty: held() is false, and the
/// asynchronous functions throw errc::lease_released from the call itself.
///
/// A process may be stopped past the deadline (a debugger, an overloaded machine, a suspend). Then
/// held() is false at the first check, wait_end() completes as soon as the event loop runs, and
/// release() says errc::lease_lost. The library cannot prevent a late write: a request may be on
/// its way, or the process may stop after its check. So send fence() with each request, and let the
/// resource reject late holders.
///
/// @par Lifetimes  Operations share the lease's state: the object may be destroyed while one is
///     under way. An extend ends first; the lease is then released, and a wait_end() under way
///     ends with lease_end::released. A lease may outlive the client and its context. When the
///     context has been destroyed held() is false, extend(), wait_end() and extend_while() throw
///     errc::shut_down from the call, and destroying the lease does nothing. release() and detach()
///     do not throw then, so destructors may call them.
/// @par Executor  Handlers run on their associated executor, by default the client's; never inside
///     the call. On a context with one thread as for lock: they must not run the context.
/// @par Thread safety  Distinct leases: safe. One lease: held(), remaining(), deadline() from any
///     thread, the rest from one coroutine at a time.
class [[nodiscard]] HOLDFAST_API lease {
public:
    /// An empty lease.
    lease() noexcept = default;
    /// The other lease is empty afterwards.
    lease(lease&&) noexcept = default;
    /// Releases this lease as the destructor does, and takes over the other.
    lease& operator=(lease&&) noexcept = default;
    /// Releases the lease in the background, if no other object shares it.
    ~lease() = default;

    /// Whether there is a lease at all, held or not.
    explicit operator bool() const noexcept { return static_cast<bool>(share_); }

    /// The key on the servers, with the client's prefix. Empty for an empty lease. Valid while
    /// there is this lease, or a copy of its lock.
    std::string_view key() const noexcept;
    /// The keys on the servers, with the client's prefix, in byte order: one, or those of a lock on
    /// several keys. Valid as long as key().
    std::vector<std::string_view> keys() const;

    /// Whether the lock is ours now: not released, not lost, and before the deadline. The holder
    /// hears of a loss up to min(ttl / 20, 50 ms) ahead of the deadline, and then this is false. No
    /// other client gets the key before the deadline all the same. Reads the clock; no I/O.
    bool held() const noexcept { return share_ && !over() && lease_clock::now() < deadline(); }

    /// How the lease ended; lease_end::none while it is held. A lease that was released is
    /// `released`, unless it was lost before. So is an empty one. A shared lease that is lost is
    /// lost for all its objects, even for one that was released before. Reads the clock; no I/O.
    lease_end ended_by() const noexcept;
    /// lease_end::revoked: the client_options::holder_label of the client that has revoked the
    /// lease. Empty if that has none, if the lease ended otherwise, and when the context has been
    /// destroyed. Valid while there is this lease.
    std::string_view revoked_by() const noexcept;
    /// For so long the event loop stood still about the deadline of a lease that expired, so that
    /// its extension was late. Zero if it did not, and without a watchdog or with max_hold. A text
    /// of the lease (operator<<) says it too.
    std::chrono::nanoseconds stalled() const noexcept;

    /// The time at which the lease ends unless it is extended.
    lease_clock::time_point deadline() const noexcept {
        return share_ ? share_->data()->deadline.load(std::memory_order_acquire)
                      : lease_clock::time_point{};
    }

    /// The time left until the deadline; zero when the lease is over.
    lease_clock::duration remaining() const noexcept {
        if (!share_ || over()) return lease_clock::duration::zero();
        auto const left = deadline() - lease_clock::now();
        return left > lease_clock::duration::zero() ? left : lease_clock::duration::zero();
    }

    /// A *fencing token*, where lock_options::fencing is on; else 0. Send it with each request to
    /// the resource that the lock protects. The resource rejects a smaller fence than it has seen
    /// (see fence_gate.hpp), and so it rejects late holders. Below 2^53, so scripts and JSON
    /// represent it exactly. No I/O.
    ///
    /// No two leases on a key have one fence, but for readers between the same two writers. A lease
    /// that was acquired from the instances has a greater fence than all that were given before its
    /// first request was sent. Clocks, pauses and networks do not matter, as long as the instances
    /// keep their counters. A lease that was handed on in this process has the next fence after its
    /// predecessor's. If its predecessor was a late holder already, the resource rejects both.
    /// doc/safety.md has the assumptions.
    /// That of a permit (client::make_semaphore()) compares with those of the same slot() alone.
    std::uint64_t fence() const noexcept { return share_ ? share_->data()->fence : 0; }

    /// Of a permit: its number, from 0 to lock::permits() - 1. A lease that was adopted keeps its
    /// slot, which may be greater if the first holder's lock had more permits. Empty for a lease of
    /// another lock, and for an empty lease. Also after the end of the lease. From any thread.
    std::optional<unsigned> slot() const noexcept;

    /// Another lease object on this same lease, for another coroutine that works under it. The
    /// lease lasts until the last object has been released or destroyed, and that ends an extend()
    /// under way. release() of an object that is not the last gives up that object alone, without
    /// I/O, and says whether the lease had lasted until then. All else concerns all objects of the
    /// lease, also through an object that was released, while others are left. Costs an allocation.
    /// @throws system_error  errc::lease_released for an empty lease, or one that was released.
    lease share() const;

    /// Extends the lease only while `condition()` returns true. The watchdog calls `condition`
    /// before each extension, on the client's executor and on any thread that runs its context. So
    /// the function must be quick, and may not call the lease. Once it returns false, or throws,
    /// there is no more extension. The lease then ends at its deadline, and wait_end() tells the
    /// holder. So a worker that has stopped making progress does not hold the lock for ever; see
    /// also lock_options::max_hold. The client destroys `condition` soon after the lease has ended.
    /// Readers that share one reader on the servers (read_write_lock.hpp) are extended together:
    /// while one of them has no condition, or one that returns true.
    /// An empty function: always.
    /// @throws system_error  errc::lease_released for an empty lease, errc::shut_down when the
    ///     context has been destroyed.
    void extend_while(std::function<bool()> condition);

    /// Gives the lock back. The next waiter of this process gets it, at once and without I/O. That
    /// needs enough of the ttl, and lock_options::handover_limit and handover_time must allow it.
    /// Otherwise the client deletes the key, where it still holds our token, on every instance that
    /// may have it. The call completes as soon as a quorum has confirmed, or cannot any more; at
    /// the latest after twice client_options::instance_timeout.
    ///
    /// A reader that shares one reader on the servers with others gives up its own lease alone,
    /// without I/O, and so does not wait for a quorum. The last of them does all the above, unless
    /// one of them was handed to another process: see token().
    ///
    /// @par Handler signature  `void(release_result)`; see there for the codes.
    /// @par Executor  When the client's context has been destroyed, nothing is sent. The handler is
    ///     called on an executor of its own with errc::shut_down. A handler without one is
    ///     destroyed and not called, as Asio does with the handlers of a context that ends.
    /// @par Cancellation  None: giving up would leave the key in the way of others for its ttl.
    template <
        boost::asio::completion_token_for<void(release_result)> Token = boost::asio::deferred_t>
    [[nodiscard]] auto release(Token&& token = {}) {
        return boost::asio::async_initiate<Token, void(release_result)>(
            detail::initiate_release{{present()}, share_}, token);
    }

    /// Extends the lease now, to a whole ttl from now. The watchdog does this by itself; if an
    /// extension is under way, this call waits for that and has its result. Only before the
    /// deadline: an extension never brings back a lease that ended.
    ///
    /// @par Handler signature  `void(error)`
    /// @par Errors
    ///   - errc::no_quorum: too few instances answered, for different reasons. The lease goes on
    ///     to its old deadline, and the watchdog tries again. error::report() has the answers.
    ///   - A code of an instance, for example errc::access_denied: the same, where all that kept
    ///     the call from a quorum share the cause.
    ///   - errc::lease_lost: the lease had ended, or was within min(ttl / 20, 50 ms) of its
    ///     deadline, or a majority no longer has our key.
    ///   - errc::lease_released, errc::shut_down, errc::cancelled.
    /// @par Cancellation  total, partial, terminal: completes with errc::cancelled. The request may
    ///     have been sent. If it wins, the deadline moves all the same.
    template <boost::asio::completion_token_for<void(error)> Token = boost::asio::deferred_t>
    [[nodiscard]] auto extend(Token&& token = {}) {
        return boost::asio::async_initiate<Token, void(error)>(
            detail::initiate_extend{{checked()}}, token, std::optional<std::chrono::nanoseconds>());
    }

    /// Extends the lease now, to `ttl` from now, and the watchdog goes on with that ttl. So a
    /// holder that knows how long its work takes need not rely on the watchdog. A longer ttl keeps
    /// others out for longer after a crash.
    ///
    /// A shorter ttl counts from the call on, whether it succeeds or not, because an instance may
    /// have taken it: the deadline is then no later than `ttl` from now.
    /// Among readers that share one reader on the servers, a ttl below theirs is of no effect.
    ///
    /// @param ttl  min_ttl to client_options::max_ttl.
    /// @par Handler signature, errors, cancellation  As extend().
    /// @throws system_error  From the call itself: errc::invalid_options; what() names the value.
    template <boost::asio::completion_token_for<void(error)> Token = boost::asio::deferred_t>
    [[nodiscard]] auto extend(std::chrono::milliseconds ttl, Token&& token = {}) {
        auto const time = checked(ttl);
        return boost::asio::async_initiate<Token, void(error)>(detail::initiate_extend{{checked()}},
                                                               token, std::optional(time));
    }

    /// Makes a lease of read_write_lock::write() one of its read(), without a gap: no writer comes
    /// between. From the call on the holder may only read. Other readers are let in where an
    /// instance has taken part; the call completes when a quorum has.
    ///
    /// If it fails, the lease is a reader's all the same, and lasts until its deadline. Other
    /// readers may be kept out until an extension succeeds. A second call is an extend().
    ///
    /// @par Handler signature, errors, cancellation  As extend().
    /// @throws system_error  From the call itself: errc::invalid_options for a lease that
    ///     read_write_lock::write() did not give. Else as extend().
    template <boost::asio::completion_token_for<void(error)> Token = boost::asio::deferred_t>
    [[nodiscard]] auto downgrade(Token&& token = {}) {
        return boost::asio::async_initiate<Token, void(error)>(
            detail::initiate_downgrade{{checked_writer()}}, token);
    }
    /// Ends the lease, and leaves the key on the servers until its ttl is over: "at most once in
    /// that time". The key is not released, not even by the destructor. It goes at the latest one
    /// ttl after the last extension was sent; call extend() before for an exact time. An extension
    /// under way may still be executed.
    ///
    /// From now on held() is false, for all objects of the lease. An extend() under way
    /// completes with errc::lease_released, a wait_end() with lease_end::released. A later
    /// release() says errc::lease_released. Waiters of this client find the key held, as all others
    /// do. When the context has been destroyed it does nothing: no lease is left then, and the key
    /// goes with its ttl.
    /// A lease that was lost before stays lost, and its key is not left: see ended_by().
    /// Of readers that share one reader on the servers, the others go on, and none of them then
    /// deletes the key.
    /// @throws system_error  errc::lease_released for an empty lease. std::bad_alloc.
    void detach();

    /// The token of the lease, for client::adopt() in another process. No I/O.
    ///
    /// To hand the lease over, call token() and then detach(). If ended_by() is then
    /// lease_end::released, send the token to the other process. Without detach(), both have the
    /// lock: this process goes on to extend the key, and its release, or the end of this object,
    /// takes the lock from the other process. For that, the next lease of this process has a token
    /// of its own: this one is handed on to no waiter.
    ///
    /// From this call on no other reader of this process shares the reader of this lease on the
    /// servers. If some do so already, the token says so (lease_token::shared). Then none of these
    /// readers deletes the key once the lease has been handed over, wherever they are: it goes one
    /// ttl after their last extension.
    /// @throws system_error  errc::lease_released for an empty lease, or one that is over without
    ///     detach(). errc::shut_down when the context has been destroyed. std::bad_alloc.
    lease_token token() const;

    /// Waits for the end of the lease, and says how it ended. Completes no later than the deadline,
    /// by a timer that waits for no server. The client gives the key up at the deadline, so until
    /// then a try_acquire() in this process finds it held. If a majority of the instances no longer
    /// has our key, the call completes at once.
    ///
    /// @code
    /// holdfast::lease_end how = co_await lease.wait_end();
    /// if (is_loss(how)) std::cerr << "lost: " << how << '\n';
    /// @endcode
    ///
    /// @par Handler signature  `void(error, lease_end)`; lease_end::none if there is an error.
    /// @par Errors  errc::cancelled. An end is no error, whichever it was.
    /// @par Cancellation  total, partial, terminal: the wait ends; the lease is as it was.
    template <
        boost::asio::completion_token_for<void(error, lease_end)> Token = boost::asio::deferred_t>
    [[nodiscard]] auto wait_end(Token&& token = {}) {
        return wait_end(std::chrono::nanoseconds(0), std::forward<Token>(token));
    }

    /// As wait_end(), and also completes with lease_end::none when no more than `ahead` is left
    /// until the deadline. While extensions succeed the deadline moves on. So the completion warns
    /// that the lease cannot be kept, while it still lasts. With an `ahead` of more than half of
    /// the ttl, the call may complete although the next extension would succeed.
    template <
        boost::asio::completion_token_for<void(error, lease_end)> Token = boost::asio::deferred_t>
    [[nodiscard]] auto wait_end(std::chrono::nanoseconds ahead, Token&& token = {}) {
        return boost::asio::async_initiate<Token, void(error, lease_end)>(
            detail::initiate_wait_end{{checked()}}, token, ahead);
    }

private:
    friend struct detail::access;
    explicit lease(detail::share_ref share) noexcept
        : share_(std::move(share)) {}

    bool over() const noexcept {
        return share_->data()->over.load(std::memory_order_acquire) != lease_end::none ||
               share_->released.load();
    }

    /// Checks the ttl, too.
    std::chrono::nanoseconds checked(std::chrono::milliseconds ttl) const;
    /// Throws for a lease that is no writer's.
    detail::lease_ref checked_writer() const;
    /// Throws for an empty lease.
    detail::lease_ref present() const {
        if (!share_) throw_error(errc::lease_released);
        return detail::lease_ref(share_->data());
    }
    /// Throws when the context has been destroyed, too.
    detail::lease_ref checked() const {
        auto data = present();
        detail::require_context(data->lock->executor());
        return data;
    }

    detail::share_ref share_;
};

/// As release_result::what().
HOLDFAST_API std::ostream& operator<<(std::ostream&, release_result const&);

/// One line: the key, whether the lease is held and for how long yet, and the fence.
HOLDFAST_API std::ostream& operator<<(std::ostream&, lease const&);

} // namespace holdfast

#endif
