// When our own clock has stood still: protocol/standstill.hpp finds that out.
#include "runtime/engine.hpp"

#include <atomic>

namespace holdfast::runtime {

void engine::on_clock_look(unsigned instance, protocol::clock_look const& look) {
    standstill_.looked(instance, look);
    judge_clock();
}

void engine::judge_clock() {
    if (!standstill_.in_doubt()) return;
    protocol::instance_set there;
    for (unsigned i = 0; i < instances_.size(); ++i) {
        if (instances_[i]->connected() && instances_[i]->available()) there.insert(i);
    }
    // The others at once, and not within a second or two.
    standstill_.to_ask(there).for_each(
        [&](unsigned i) { attempt([&] { instances_[i]->ask_time_now(); }); });
    auto const found = standstill_.judge(there);
    if (found.is_new) move_deadlines(found);
    if (!found.is_ours) return;
    for (unsigned i = 0; i < instances_.size(); ++i) {
        if (found.who.contains(i)) {
            attempt([&] { instances_[i]->excuse_jump(); });
        } else {
            attempt([&] {
                instances_[i]->our_clock_stood_still(found.from, found.to, found.least, found.most);
            });
        }
    }
}

// Whoever is too late by that is told when the timer runs next.
void engine::move_deadlines(protocol::standstill::finding const& found) {
    queues_.for_each([&](key_queue& q) {
        if (!q.lock || !q.tenure) return;
        auto& h = *q.tenure;
        h.machine.clock_stood_still(found.to, found.by);
        schedule(h);
        if (h.lease == nullptr) return;
        auto& l = *h.lease;
        l.deadline.store(h.machine.deadline(), std::memory_order_release);
        for (auto& op : l.waiters) {
            if (op.what != operation::kind::lost || op.limit.time <= h.machine.margin()) continue;
            deadlines_.schedule(op, h.machine.deadline() - op.limit.time);
        }
    });
}

} // namespace holdfast::runtime
