// What follows when an instance takes longer to answer than it usually does.
#include "runtime/engine.hpp"

namespace holdfast::runtime {

// After an answer that decided nothing, except how long the others are waited for.
void engine::schedule_if_late(holding& h) {
    if (h.machine.depends_on_late_answers()) schedule(h);
}

// A push of an instance that hangs comes when it goes on, and the key may be free long before. This is looked at as
// turns come by, so it costs no timer.
void engine::look_for_late_instances() {
    auto const now = time();
    for (unsigned i = 0; i < instances_.size(); ++i) {
        auto const since = instances_[i]->waits_since();
        if (!since || !round_trips_[i].look(now, *since)) continue;
        for (auto it = waiting_.begin(); it != waiting_.end();) {
            auto& q = *it++;
            q.machine.disconnected(now, i, pause_bits());
            settle(q, now);
        }
    }
}

// Those of them that are not late, if there are such.
protocol::instance_set engine::punctual(protocol::instance_set of) const {
    auto rest = of;
    of.for_each([&](unsigned i) {
        if (round_trips_[i].late()) rest.erase(i);
    });
    return rest.empty() ? of : rest;
}

} // namespace holdfast::runtime
