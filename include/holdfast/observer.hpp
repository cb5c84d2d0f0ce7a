#ifndef HOLDFAST_OBSERVER_HPP
#define HOLDFAST_OBSERVER_HPP

#include <holdfast/acquire_report.hpp>
#include <holdfast/client_stats.hpp>
#include <holdfast/clock.hpp>
#include <holdfast/detail/api.hpp>
#include <holdfast/error.hpp>
#include <holdfast/lease_end.hpp>
#include <holdfast/trace_context.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace holdfast {

/// The part that all events of locks have. An event and its views are valid during the call.
struct lock_event {
    std::string_view key;          ///< with the client's prefix
    std::string_view holder_label; ///< client_options::holder_label
    trace_context trace;           ///< lock_options::trace of the acquire
    lease_clock::time_point at;    ///< the beginning of the client's turn in which this happened
};

/// An acquire waits: the lock is held, or too few instances can grant it.
struct waiting_event : lock_event {};

/// An acquire got its lease.
struct acquired_event : lock_event {
    std::uint64_t fence = 0;            ///< lease::fence(); 0 without fencing
    std::chrono::nanoseconds waited{0}; ///< from the call to the grant
    std::chrono::nanoseconds lasts{0};  ///< until the deadline
};

/// The servers have a later expiry for the lease.
struct extended_event : lock_event {
    std::uint64_t fence = 0;           ///< lease::fence(); 0 without fencing
    std::chrono::nanoseconds took{0};  ///< from sending to the answers of a quorum
    std::chrono::nanoseconds lasts{0}; ///< until the new deadline
};

/// A lease ended without a release. See lease::held() for the time at which its holder is told.
struct lost_event : lock_event {
    std::uint64_t fence = 0;          ///< lease::fence(); 0 without fencing
    std::chrono::nanoseconds held{0}; ///< from the grant
    lease_end cause{};                ///< how the lease was lost
    /// expired: for so long the event loop stood still meanwhile, so that no extension was sent.
    /// Zero if it did not.
    std::chrono::nanoseconds stalled{0};
    /// revoked: as lease::revoked_by().
    std::string_view revoked_by{};
};

/// A holder gave its lease back.
struct released_event : lock_event {
    std::uint64_t fence = 0;          ///< lease::fence(); 0 without fencing
    std::chrono::nanoseconds held{0}; ///< from the grant
    bool handed_over = false;         ///< a waiter of this client got the lock, without I/O
};

/// An acquire, an extension or a release failed, also one that the watchdog or the destructor of a
/// lease began.
struct failed_event : lock_event {
    reported_call call{};             ///< the call that failed
    error_code code;                  ///< as the handler gets it
    std::chrono::nanoseconds took{0}; ///< acquire: from the call; else from sending
    /// The answers of the instances. Null if none had a part in the failure.
    acquire_report const* report = nullptr;
};

/// This client has revoked a holder: client::revoke(). Each of several readers has an event of its
/// own. `trace` is empty.
struct revoked_event : lock_event {
    /// The client_options::holder_label of the holder; empty if it has none, or if the holder had
    /// been revoked on all instances before.
    std::string_view holder;
    std::string_view digest; ///< of the holder's token, as key_answer::digest
    /// For so long nobody gets the key. Empty if it never expires, or if that is not known.
    std::optional<std::chrono::milliseconds> closed_for{};
};

/// Contenders kept each other from a quorum. All of them try again.
struct split_vote_event : lock_event {};

/// The event loop stood still: the client's next work was due, and ran so much later. A handler
/// blocked the thread, all threads had other work, or the process or the machine was stopped.
struct stall_event {
    std::chrono::nanoseconds length{0}; ///< at least stall_threshold
    lease_clock::time_point at;         ///< the end of the stall
};
/// A shorter delay of the client's work is no stall.
inline constexpr std::chrono::milliseconds stall_threshold{100};

/// An instance, or a node of a Cluster, has another state than before.
struct instance_event {
    instance_status const& status; ///< valid during the call
    instance_state before{};       ///< the state until now
    lease_clock::time_point at;    ///< the beginning of the client's turn in which this happened
};

/// Is told what a client does: for logs (log_observer.hpp), tracing, or alarms of an own. For
/// metrics see metrics.hpp, which needs no observer. Each function does nothing unless a derived
/// class has its own.
///
/// @par Executor  All functions are called on the client's executor, in the middle of its work, and
///     on any thread that runs its context. So they must be quick. For one client they are called
///     one at a time, and in order. Clients that share an observer may call it at the same time.
/// @par Calls  An observer calls nothing of the client, its locks and its leases: post such calls
///     to an executor.
/// @par Exception safety  An exception from a function concerns nobody: the client ignores it, and
///     counts it in client_stats::observer_failures.
/// @par Cost  Without an observer, a comparison for each event. With one, the library allocates
///     memory for the reports of failures, and for the status of an instance that changes; for the
///     other events it allocates none.
/// @par Lifetimes  See client_options::observer. A derived class has no
///     `std::enable_shared_from_this` of its own: the client would not share the ownership then.
class HOLDFAST_API observer : public std::enable_shared_from_this<observer> {
public:
    /// An observer may be destroyed through its base.
    virtual ~observer();

    /// An acquire waits: the lock is held, or too few instances can grant it.
    virtual void on_waiting(waiting_event const&) {}
    /// An acquire got its lease from the instances.
    virtual void on_acquired(acquired_event const&) {}
    /// An acquire got its lease from a holder of the same client, without I/O. The release of that
    /// holder was told before, or both are readers. Calls on_acquired() unless a derived class has
    /// its own.
    virtual void on_handed_over(acquired_event const& e) { on_acquired(e); }
    /// An extension succeeded, the watchdog's or one that the holder called for.
    virtual void on_extended(extended_event const&) {}
    /// A lease ended without a release.
    virtual void on_lost(lost_event const&) {}
    /// The holder has released or destroyed its lease. The answers of the instances are still to
    /// come; if too few confirm, on_failed() follows.
    virtual void on_released(released_event const&) {}
    /// An acquire, an extension or a release failed.
    virtual void on_failed(failed_event const&) {}
    /// This client has revoked a holder. The holder's own client gets on_lost(), with
    /// lease_end::revoked.
    virtual void on_revoked(revoked_event const&) {}
    /// Contenders kept each other from a quorum, and try again.
    virtual void on_split_vote(split_vote_event const&) {}
    /// The event loop stood still. Told of the first stall, and then of each that is more than
    /// twice as long as the longest told before. client_stats::longest_stall has the longest of
    /// all.
    virtual void on_stall(stall_event const&) {}
    /// An instance, or a node of a Cluster, has another state than before.
    virtual void on_instance(instance_event const&) {}

protected:
    /// For derived classes.
    observer() = default;
    /// A derived class decides whether its objects can be copied.
    observer(observer const&) = default;
    /// As the copy constructor.
    observer& operator=(observer const&) = default;
};

} // namespace holdfast

#endif
