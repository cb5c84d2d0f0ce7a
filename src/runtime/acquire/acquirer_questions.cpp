// Questions about the state of a key, and the events that wake waiters: pushes, and instances that
// come, go, or are late.
#include "protocol/rules.hpp"
#include "protocol/waiting/key_tracker.hpp"
#include "runtime/acquire/acquirer.hpp"

#include <optional>

namespace holdfast::runtime {

using effect = protocol::tenure_effect;

//
// Inspection: asks the instances that refused for the holder and the ttl of the key, and whether
// the key is a lock at all.
//

void acquirer::begin_inspection(active_queue& q) {
    q.round.wrong_types = 0;
    q.round.inspected = {};
    inspect(q, q.round.votes.no() & instances_.reachable());
}

void acquirer::inspect(active_queue& q, protocol::instance_set asked) {
    q.round.inspected = q.round.inspected | asked;
    apply(*q.tenure, q.tenure->machine.inspect(turn_.time(), asked));
}

void acquirer::on_inspection(active_tenure& t, unsigned instance, redis::answer const& a) {
    if (t.queue == nullptr) return;
    auto& q = *t.queue;
    if (a.cause == errc::wrong_type) ++q.round.wrong_types;
    auto& vote = q.round.record(instance, instances_.size());
    if (a.verdict == protocol::verdict::yes) {
        vote.ttl_known = a.ttl_known;
        vote.ttl_left = a.ttl_left;
        vote.holder = a.holder;
        if (a.obstacle != 0) vote.obstacle = a.obstacle;
    } else if (a.cause == errc::wrong_type) {
        vote.held = false;
        vote.cause = a.cause;
        vote.message = a.message;
    }
    auto const action =
        t.machine.answer(protocol::command::inspect, 0, instance, a.verdict, turn_.time());
    if (action.effect == effect::none) return tenures_.schedule_if_late(t);
    apply(t, action);
    settle(q, turn_.time());
}

// If an instance is late, the report lacks its holder and ttl.
void acquirer::on_inspected(active_queue& q) {
    auto const spare = instances_.size() - q.round.votes.quorum();
    auto const found = q.round.wrong_types;
    // The round may have ended before the other instances at which the key is no lock had answered.
    auto const others = instances_.reachable() - q.round.votes.yes() - q.round.inspected;
    if (found != 0 && found <= spare && found + others.size() > spare) return inspect(q, others);
    q.machine.inspected(q.tenure->machine.inspected_all());
    q.detach();
    if (found <= spare) return;
    // The key is no lock at so many instances that a quorum is impossible. So all waiters fail.
    while (!q.machine.empty()) leave(q.front(), errc::wrong_type);
}

//
// Tracking: asks instances to push when a key changes. A queue with waiters asks instances other
// than the arbiter, to notice a majority that becomes free before the arbiter does. A queue that
// stands back, and knows of no contender, asks the arbiter (protocol/waiting/rivals.hpp).
//

void acquirer::listen(active_queue& q) {
    if (q.machine.candidates(instances_.voters()).empty()) return;
    auto const arbiter = arbiter_of(q);
    q.machine.listening(arbiter);
    ask_to_push(q, protocol::instance_set::only(arbiter));
}

void acquirer::ask_to_push(active_queue& q, protocol::instance_set asked) {
    auto const round = q.machine.tracking_round();
    if (!q.tracking) {
        auto& t = tenures_.take();
        t.machine = protocol::tenure(instances_.size(), {}, false);
        t.lock = q.lock;
        t.fair = t.shared = false; // its questions are those of any lock
        t.queue = &q;
        q.tracking = &t;
    }
    // Whether a permit is free depends on the number of them.
    if (!q.machine.empty() && q.machine.front().permits != 0)
        q.tracking->lock = q.front().as<acquire_call>().lock;
    tenures_.send(*q.tracking, protocol::command::track, asked, round);
}

void acquirer::on_tracked(active_tenure& t, unsigned instance, std::uint32_t round,
                          redis::answer const& a) {
    if (t.queue == nullptr) return;
    auto& q = *t.queue;
    protocol::sighting seen;
    if (a.verdict == protocol::verdict::yes) {
        using state = protocol::sighting::state;
        seen = {.is = a.ttl_known ? state::held : state::gone, .tracked = a.push_follows};
        if (a.ttl_left) seen.left = *a.ttl_left;
    }
    auto const now = turn_.time();
    q.machine.tracked(now, instance, round, seen, random_.pause_bits());
    settle(q, now);
}

//
// Pushes
//

void acquirer::on_push(unsigned instance, std::string_view key) {
    if (wake(instance, key)) counters::add(counters_.pushes);
    auto* const q = line_.called(key);
    auto const now = turn_.time();
    auto const certain = !instances_[instance].moves_keys();
    if (q == nullptr || !q->machine.called(now, instance, certain)) return;
    counters::add(counters_.pushes);
    settle(*q, now);
}

bool acquirer::wake(unsigned instance, std::string_view key) {
    auto* const q = keys_.find(key).queue();
    auto const woken = q != nullptr && push(*q, instance);
    auto* const set = lines_.any() ? queue_of_set(key) : nullptr;
    return (set != nullptr && push(*set, instance)) || woken;
}

bool acquirer::push(active_queue& q, unsigned instance) {
    auto const now = turn_.time();
    if (!q.machine.push(now, instance, random_.pause_bits())) return false;
    settle(q, now);
    return true;
}

void acquirer::on_push_for_all(unsigned instance) {
    auto const now = turn_.time();
    for (auto it = waiting_.begin(); it != waiting_.end();) {
        auto& q = *it++;
        if (!q.machine.push(now, instance, random_.pause_bits())) continue;
        counters::add(counters_.pushes);
        settle(q, now);
    }
}

//
// Instances that come, go, or are late
//

void acquirer::on_unavailable(unsigned instance) {
    auto const now = turn_.time();
    auto const outage = !instances_.has_quorum();
    for (auto it = waiting_.begin(); it != waiting_.end();) {
        auto& q = *it++;
        q.machine.disconnected(now, instance, random_.pause_bits());
        if (outage) q.machine.outage(now + instance_timeout_);
        settle(q, now);
    }
}

void acquirer::on_available() {
    known_counters_.forget(turn_.time());
    if (!instances_.has_quorum()) return;
    auto const now = turn_.time();
    for (auto it = waiting_.begin(); it != waiting_.end();) {
        auto& q = *it++;
        q.machine.restored(now, random_.pause_bits());
        settle(q, now);
    }
}

void acquirer::leave_late_instances() {
    auto const now = turn_.time();
    instances_.newly_late().for_each([&](unsigned i) {
        for (auto it = waiting_.begin(); it != waiting_.end();) {
            auto& q = *it++;
            q.machine.late(now, i, random_.pause_bits());
            settle(q, now);
        }
    });
}

} // namespace holdfast::runtime
