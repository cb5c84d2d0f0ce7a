// Leases that share a tenure of readers: how they come, and how they leave.
#include "protocol/tenure/fence.hpp"
#include "runtime/lease/lease_keeper.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>

namespace holdfast::runtime {

/// For one more lease. False if memory ran out.
bool lease_keeper::make_room(active_tenure& t) noexcept {
    return turn_.attempt([&] {
        auto& all = t.sharers();
        if (all.size() == all.capacity()) all.reserve(std::max<std::size_t>(4, 2 * all.size()));
    });
}

/// After make_room().
void lease_keeper::add(lease_record& l, lease_clock::time_point now) {
    auto& all = l.tenure->sharers();
    assert(all.size() < all.capacity());
    l.place = static_cast<std::uint32_t>(all.size());
    all.push_back({&l, now});
}

/// Parts the lease from its tenure. Returns when the lease began.
lease_clock::time_point lease_keeper::leave(lease_record& l) noexcept {
    auto& t = *l.tenure;
    if (!t.shared) {
        t.lease = nullptr;
        return t.machine.lease_began();
    }
    auto& all = t.sharers();
    auto const since = all[l.place].since;
    all[l.place] = all.back();
    all[l.place].lease->place = l.place;
    all.pop_back();
    t.lease = all.empty() ? nullptr : all.front().lease;
    t.sharing.leave();
    return since;
}

/// Whether the holder still wants the lease to be extended, or one of those that share it.
bool lease_keeper::is_wanted(active_tenure& t) {
    auto wanted = false;
    for_each_lease(t, [&](lease_record& l) { wanted = wanted || !l.condition || is_condition(l); });
    return wanted;
}

/// The writer is a reader from now on. False if memory ran out, and nothing has changed then.
bool lease_keeper::downgrade(lease_record& l) {
    auto& t = *l.tenure;
    auto const ready = make_room(t) && turn_.attempt([&] {
        if (t.queue == nullptr) folded_.unfold(t);
    });
    if (!ready) return false;
    auto const& options = l.lock->options();
    t.shared = true;
    t.alone = !options.watchdog || options.max_hold.count() != 0;
    t.fair = false;
    add(l, t.machine.lease_began());
    t.queue->machine.downgraded(turn_.time(), t.alone);
    return true;
}

/// A reader's is above those of all writers with the same number or a smaller one.
std::uint64_t lease_keeper::fence_of(active_tenure const& t) {
    auto const served = t.shared ? protocol::leases_per_number - 1 : served_before(t);
    return protocol::fence_of(t.machine.number(), served);
}

/// How many leases the tenure has served before the present one. A permit has no queue to count
/// them.
unsigned lease_keeper::served_before(active_tenure const& t) {
    return t.queue != nullptr ? t.queue->machine.handovers() : t.handovers();
}

} // namespace holdfast::runtime
