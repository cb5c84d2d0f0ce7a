// A lease in production, and the rules by which the objects behind it live and go.
//
// lease           A detail::lease_data is the public part of a lease_record. It counts its handles.
//                 Each object lease, and each operation on the lease, has one; a wait for the loss
//                 gives its handle up when it begins. The last handle calls detail::drop(), from
//                 any thread, and so the lease comes to the inbox.
// share           Each object lease refers to a detail::lease_share, and each share counts as one
//                 handle. detail::lease_data::shares counts the shares that have not been given
//                 up: a release gives a share up, and so does the end of the share. The last one
//                 that is given up releases the lease, though operations may still have handles.
//                 The first share is part of the lease; only the others are allocated.
// drop            The inbox notes a lease once (drop_hook), for one of two reasons: its last share
//                 was given up, or its last handle is gone (lease_record::dropped). A lease whose
//                 last handle is gone gets no further note. The keeper then ends the lease if it
//                 has not ended, and recycles it if it was dropped.
// pool            A lease_record comes from the keeper's pool with begin(). It goes back after
//                 recycle(), in the turn that takes its drop from the inbox. So it stays in use for
//                 as long as there is a handle, whether the lease has ended or not.
// lock state      detail::lock_state keeps the engine. A lease has a reference to it from begin()
//                 to recycle(), and a tenure, a queue and an acquire have one each while they are
//                 in use. An engine that has ended keeps no lock state: otherwise it would keep
//                 itself.
// context         When the context is destroyed, abandon() ends each lease. From then on the last
//                 handle takes the lock state with it (basic_inbox::let_go), as there are no turns.
#ifndef HOLDFAST_RUNTIME_LEASE_RECORD_HPP
#define HOLDFAST_RUNTIME_LEASE_RECORD_HPP

#include <holdfast/detail/lease_data.hpp>

#include "runtime/active_tenure.hpp"
#include "runtime/counters.hpp"
#include "runtime/operation.hpp"

#include <boost/intrusive/list.hpp>
#include <boost/smart_ptr/intrusive_ptr.hpp>

#include <atomic>
#include <cstdint>
#include <utility>

namespace holdfast::runtime {

/// In the inbox, of leases that were given up or dropped.
using drop_hook = boost::intrusive::list_base_hook<boost::intrusive::tag<struct in_drops>>;

/// The executor's part of a lease.
class lease_record final : public detail::lease_data,
                           public boost::intrusive::list_base_hook<>,
                           public drop_hook {
public:
    enum class end : std::uint8_t {
        none,
        lost,
        released
    };

    /// Taken from the pool: becomes a new lease of one share. The keeper connects it with its
    /// tenure.
    void begin(detail::lock_state_ptr of) noexcept {
        lock = std::move(of);
        ended = end::none;
        over.store(false, std::memory_order_relaxed);
        shares.store(1, std::memory_order_relaxed);
        shared.store(false, std::memory_order_relaxed);
        first.released.store(false, std::memory_order_relaxed);
    }
    /// Before it goes back to the pool. The lock state is destroyed here, and not under the inbox's
    /// mutex.
    void recycle() noexcept {
        dropped = false;
        lock.reset();
    }
    /// The context is being destroyed. A lease that still has handles keeps its lock state for
    /// them.
    void abandon(counters& c) noexcept {
        over.store(true, std::memory_order_release);
        discount(c);
        auto const unused = std::move(condition);
        detail::lock_state_ptr last;
        if (handles.load() == 0) last = std::move(lock);
    }

    /// A lease counts as held from its beginning until it ends, or its last handle is gone.
    void count(counters& c) noexcept {
        counted_.store(true, std::memory_order_relaxed);
        counters::add(c.held);
    }
    void discount(counters& c) noexcept {
        if (counted_.exchange(false)) counters::take(c.held);
    }

    boost::intrusive_ptr<active_tenure> tenure; ///< until the lease ends
    operation_list waiters;                     ///< extend and lost
    renewal_condition_ptr condition;            ///< asked before each renewal
    end ended = end::none;
    bool dropped = false; ///< under the inbox's mutex: it has no handle any more

private:
    std::atomic<bool> counted_{false};
};

using drop_list = boost::intrusive::list<lease_record, boost::intrusive::base_hook<drop_hook>,
                                         boost::intrusive::constant_time_size<false>>;
using lease_list =
    boost::intrusive::list<lease_record, boost::intrusive::constant_time_size<false>>;

} // namespace holdfast::runtime

#endif
