// Acts on a standstill of our own clock, which protocol/standstill.hpp detects.
#include "runtime/engine.hpp"

namespace holdfast::runtime {

void engine::on_clock_reading(unsigned instance, protocol::clock_reading const& reading) {
    standstill_.observed(instance, reading);
    judge_clock();
}

void engine::judge_clock() {
    if (!standstill_.has_unexplained_jumps()) return;
    auto const there = instances_.usable_now();
    // Asks the instances for their time at once, because their next regular checks may come seconds
    // later.
    standstill_.to_ask(there).for_each(
        [&](unsigned i) { turn_.attempt([&] { instances_[i].ask_time_now(); }); });
    auto const found = standstill_.judge(there);
    if (found.is_new) {
        acquirer_.for_each_queue([&](active_queue& q) {
            if (q.tenure) keeper_.clock_stood_still(*q.tenure, found.to, found.by);
        });
    }
    if (!found.is_ours) return;
    for (unsigned i = 0; i < instances_.size(); ++i) {
        turn_.attempt([&] {
            if (found.instances.contains(i)) return instances_[i].excuse_jump();
            instances_[i].our_clock_stood_still(found.from, found.to, found.least, found.most);
        });
    }
}

} // namespace holdfast::runtime
