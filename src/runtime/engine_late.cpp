// What follows when an instance takes longer to answer than it usually does.
#include "runtime/engine.hpp"

#include <utility>

namespace holdfast::runtime {

// After an answer that decided nothing, except how long the others are waited for.
void engine::schedule_if_late(holding& h) {
    if (h.machine.depends_on_late_answers()) schedule(h);
}

// A push of an instance that hangs comes when it goes on, and the key may be free long before. This
// is looked at as turns come by, so it costs no timer.
void engine::look_for_late_instances() {
    auto const now = time();
    for (unsigned i = 0; i < instances_.size(); ++i) {
        auto const since = instances_[i]->waits_since();
        if (since && round_trips_[i].look(now, *since)) newly_late_.insert(i);
        if (!round_trips_[i].late()) newly_late_.erase(i);
    }
    // Where all are late there is nowhere to go, and mostly it was this process.
    if (newly_late_.empty() || (voters() - late()).empty()) return;
    std::exchange(newly_late_, {}).for_each([&](unsigned i) {
        for (auto it = waiting_.begin(); it != waiting_.end();) {
            auto& q = *it++;
            q.machine.late(now, i, pause_bits());
            settle(q, now);
        }
    });
}

protocol::instance_set engine::late() const {
    protocol::instance_set all;
    for (unsigned i = 0; i < instances_.size(); ++i) {
        if (round_trips_[i].late()) all.insert(i);
    }
    return all;
}

// Those of them that are not late, if there are such.
protocol::instance_set engine::punctual(protocol::instance_set of) const {
    auto const rest = of - late();
    return rest.empty() ? of : rest;
}

} // namespace holdfast::runtime
