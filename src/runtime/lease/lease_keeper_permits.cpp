// Permits that are given back while others of this process wait for one.
#include "runtime/lease/lease_keeper.hpp"

namespace holdfast::runtime {

/// Gives the first waiter of the key a lease of this permit, with its slot and without a command to
/// the servers. Returns the queue, or null if there is no hand-over. `l`: the lease before, or null
/// if that has ended already.
active_queue* lease_keeper::pass_on(active_tenure& tenure, lease_record* l, operation* op,
                                    lease_clock::time_point now) {
    if (!tenure.is_permit() || !tenure.sharing.open()) return nullptr;
    active_tenure_ptr const t(&tenure);
    auto* const q = folded_.queue_of(*t);
    if (q == nullptr) return nullptr;
    auto const& options = t->lock->options();
    auto const& m = t->machine;
    protocol::returned_permit const permit{.slot = m.slot().value(),
                                           .ttl = m.ttl(),
                                           .left = m.valid_until() - now,
                                           .fenced = m.fenced(),
                                           .leases = t->handovers() + 1,
                                           .won_in = t->round_trip,
                                           .age = now - t->won()};
    if (!q->machine.takes(permit, options.handover_limit, options.handover_time)) return nullptr;
    if (!turn_.attempt([&] { t->hand_on(); })) return nullptr;
    auto* const next = new_lease(*t);
    if (next == nullptr) return nullptr;
    end_for_next(l, op);
    grant(static_cast<operation&>(q->machine.take()), *t, *next);
    return q;
}

} // namespace holdfast::runtime
