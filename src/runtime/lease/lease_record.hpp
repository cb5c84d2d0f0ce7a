// A lease in production, and the rules for the lifetime of the objects behind it.
//
// lease           detail::lease_data is the public part of a lease_record, and counts the handles.
//                 Each lease object, and each operation on the lease, has a handle. A wait for the
//                 loss gives its handle up when the wait begins. When the last handle goes, on any
//                 thread, detail::drop() puts the lease into the inbox.
// share           Each lease object refers to a detail::lease_share, and each share counts as one
//                 handle. detail::lease_data::shares counts the shares that have not been given
//                 up. A share is given up when it is released, or when it is destroyed. When the
//                 last share is given up, the lease is released, even if operations still have
//                 handles. The first share is part of the lease; only the others are allocated.
// drop            The inbox lists a lease (drop_hook) when its last share was given up, or when its
//                 last handle is gone (lease_record::dropped). A lease is never twice in the list,
//                 and comes into it no more after its last handle is gone. The keeper then ends the
//                 lease if it has not ended, and recycles the lease if it was dropped.
// pool            A lease_record comes from the keeper's pool with begin(). It goes back after
//                 recycle(), in the turn that takes its drop from the inbox. So it stays in use for
//                 as long as there is a handle, whether the lease has ended or not.
// lock state      detail::lock_state keeps the engine alive. A lease has a reference to it from
//                 begin() to recycle(). A tenure, a queue and an acquire have a reference each
//                 while they are in use. An engine that has ended keeps no lock state, because it
//                 would keep itself alive.
// context         When the context is destroyed, abandon() ends each lease. There are no turns
//                 after that, so the last handle drops the lock state (basic_inbox::let_go).
#ifndef HOLDFAST_RUNTIME_LEASE_RECORD_HPP
#define HOLDFAST_RUNTIME_LEASE_RECORD_HPP

#include <holdfast/detail/lease_data.hpp>
#include <holdfast/error.hpp>
#include <holdfast/lease_end.hpp>

#include "runtime/acquire/active_tenure.hpp"
#include "runtime/services/counters.hpp"
#include "runtime/services/operation.hpp"

#include <boost/intrusive/list.hpp>
#include <boost/smart_ptr/intrusive_ptr.hpp>

#include <atomic>
#include <cstdint>
#include <utility>

namespace holdfast::runtime {

/// The result of calls on a lease that has ended.
inline errc code_of(lease_end e) noexcept {
    return is_loss(e) ? errc::lease_lost : errc::lease_released;
}

/// Links a lease that was given up or dropped into the list of the inbox.
using drop_hook = boost::intrusive::list_base_hook<boost::intrusive::tag<struct in_drops>>;

/// The executor's part of a lease.
class lease_record final : public drop_hook, public detail::lease_data {
public:
    /// Called after the record was taken from the pool: makes it a new lease with one share. The
    /// keeper then connects the lease with its tenure.
    void begin(detail::lock_state_ptr of) noexcept {
        lock = std::move(of);
        ended = lease_end::none;
        over.store(lease_end::none, std::memory_order_relaxed);
        detached.store(false, std::memory_order_relaxed);
        shares.store(1, std::memory_order_relaxed);
        shared.store(false, std::memory_order_relaxed);
        released.store(false, std::memory_order_relaxed);
    }
    /// Called before the record goes back to the pool. Drops the lock state here, and not under the
    /// inbox's mutex.
    void recycle() noexcept {
        dropped = false;
        tenure.reset();
        lock.reset();
    }
    /// Called when the execution context is being destroyed. A lease that still has handles keeps
    /// its lock state for them.
    void abandon(counters& c) noexcept {
        auto held = lease_end::none;
        over.compare_exchange_strong(held, lease_end::shut_down);
        discount(c);
        auto const unused = std::move(condition);
        detail::lock_state_ptr last;
        if (handles.load() == 0) last = std::move(lock);
    }

    /// A lease counts as held from its grant until it ends, or until its last share or handle is
    /// gone.
    void count(counters& c, bool permit) noexcept {
        counted_.store(permit ? counted::permit : counted::yes, std::memory_order_relaxed);
        counters::add(c.held);
        if (permit) counters::add(c.permits);
    }
    /// Also when the lock state has gone.
    void discount(counters& c) noexcept {
        auto const before = counted_.exchange(counted::no);
        if (before == counted::no) return;
        counters::take(c.held);
        if (before == counted::permit) counters::take(c.permits);
    }

    // Small members first: they fit behind those of the base class.
    lease_end ended = lease_end::released; ///< so are all records in the pool
    bool dropped = false;                  ///< under the inbox's mutex: the last handle is gone

private:
    enum class counted : std::uint8_t {
        no,
        yes,
        permit
    };
    std::atomic<counted> counted_{counted::no};

public:
    std::uint32_t place = 0; ///< among the leases that share a tenure of readers
    /// Also after the end of the lease: holders read the token of the tenure on any thread.
    boost::intrusive_ptr<active_tenure> tenure;
    operation_list waiters;          ///< waiting operations: extend and wait_end
    renewal_condition_ptr condition; ///< asked before each renewal
};

using drop_list = boost::intrusive::list<lease_record, boost::intrusive::base_hook<drop_hook>,
                                         boost::intrusive::constant_time_size<false>>;

} // namespace holdfast::runtime

#endif
