// What is asked of the instances without wanting the key: beside the arbiter while somebody waits,
// so that a majority that becomes free without the arbiter is noticed; and of the arbiter while we
// stand back.
#include "runtime/engine.hpp"

#include <optional>

namespace holdfast::runtime {

// While we stand back from a key that nobody else seems to want.
void engine::listen(key_queue& q) {
    if (q.machine.candidates(voters()).empty()) return;
    auto const arbiter = arbiter_of(q);
    q.machine.listening(arbiter);
    ask_to_push(q, protocol::instance_set::only(arbiter));
}

void engine::ask_to_push(key_queue& q, protocol::instance_set whom) {
    auto const round = q.machine.watch_round();
    auto const ready =
        q.watch || attempt([&] {
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

void engine::on_watched(holding& h, unsigned instance, std::uint32_t round,
                        redis::answer const& a) {
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
