// What is asked of the instances beside the arbiter while somebody waits, so that a majority that becomes free
// without the arbiter is noticed.
#include "runtime/engine.hpp"

#include <optional>

namespace holdfast::runtime {

void engine::begin_watch(key_queue& q) {
    auto const whom = q.machine.to_watch();
    auto const round = q.machine.watch_round();
    auto const ready = q.watch || attempt([&] {
                           auto& h = holdings_.take(*this);
                           h.machine = protocol::tenure(static_cast<unsigned>(instances_.size()), {}, false);
                           h.lock = q.lock;
                           h.queue = &q;
                           q.watch = &h;
                       });
    if (ready) return send(*q.watch, protocol::command::watch, whom, round);
    auto const now = time();
    whom.for_each([&](unsigned i) { q.machine.watched(now, i, round, {}, pause_bits()); });
}

void engine::on_watched(holding& h, unsigned instance, std::uint32_t round, redis::answer const& a) {
    if (h.queue == nullptr) return;
    auto& q = *h.queue;
    protocol::sighting seen;
    if (a.verdict == protocol::verdict::yes) {
        using state = protocol::sighting::state;
        seen = {.is = a.ttl_known ? state::held : state::gone, .told = a.told};
        if (a.ttl_left) seen.left = *a.ttl_left;
    }
    auto const now = time();
    q.machine.watched(now, instance, round, seen, pause_bits());
    settle(q, now);
}

} // namespace holdfast::runtime
