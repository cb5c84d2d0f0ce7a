// Readers of this process that share a tenure, and the notes of its waiting writers.
#include "protocol/tenure/tenure.hpp"
#include "runtime/acquire/acquirer.hpp"

#include <string_view>
#include <utility>

namespace holdfast::runtime {

/// The tenure of readers of which the reader gets a lease without I/O, or null. The lease has
/// joined it.
active_tenure* acquirer::join_tenure(operation const& op, active_queue* q) const {
    if (q == nullptr || !q->machine.held()) return nullptr;
    auto& t = *q->tenure;
    if (t.lease == nullptr || t.leaves_key || t.machine.phase() != protocol::tenure_phase::held)
        return nullptr;
    auto const now = turn_.time();
    auto const may_share = q->machine.shares(op, now, t.machine.valid_until() - now);
    return may_share && t.sharing.join() ? &t : nullptr;
}

active_tenure* acquirer::rejoin(active_tenure& t, operation const& winner) {
    auto& q = *t.queue;
    auto const others = std::move(q.parted);
    if (!t.shared || !others || others->lease == nullptr || others->alone || others->leaves_key ||
        others->machine.phase() != protocol::tenure_phase::held) {
        return nullptr;
    }
    auto const& m = others->machine;
    if (!others->sharing.join()) return nullptr;
    if (!q.machine.rejoins(winner, m.valid_until() - turn_.time(), m.ttl(), m.fenced())) {
        others->sharing.leave();
        return nullptr;
    }
    q.detach();
    q.tenure = others;
    others->queue = &q;
    return others.get();
}

operation* acquirer::take_sharer(active_tenure& t) {
    auto* const q = t.queue;
    if (q == nullptr || q->machine.empty() || join_tenure(q->front(), q) == nullptr) return nullptr;
    return &static_cast<operation&>(q->machine.share());
}

// No writer of this process waits any more. Its note would keep readers out for its ttl. An
// instance that is away is asked when it is back.
void acquirer::withdraw(active_queue& q) noexcept {
    auto const lock = std::move(q.noting);
    withdraw(lock, std::exchange(q.noted, {}));
}

// Where its try is granted, or is not answered yet, a writer leaves no note.
void acquirer::withdraw_after_win(active_queue& q, active_tenure const& t) noexcept {
    auto const lock = std::move(q.noting);
    withdraw(lock, std::exchange(q.noted, {}) - t.machine.maybe_held());
}

void acquirer::withdraw(detail::lock_state_ptr const& lock, protocol::instance_set at) noexcept {
    if (at.empty()) return;
    turn_.run([&] {
        active_tenure_ptr const t(&tenures_.take());
        t->machine = protocol::tenure(instances_.size(), lock->options().ttl, false);
        t->machine.cancel();
        t->lock = lock;
        t->fair = t->shared = false;
        t->set_token(random_.next_token());
        tenures_.send(*t, protocol::command::release, at, 0);
    });
}

// An instance refuses a try that has been decided, or the try was not sent again in other words. It
// has the note of this try or of an earlier one, of a writer that may have the key by now, or may
// have released it.
void acquirer::on_late_refusal(active_tenure const& t, unsigned instance) noexcept {
    if (t.lock->access() != lock_access::write) return;
    if (has_writers(t.lock->key())) {
        auto* const q = keys_.find(t.lock->key()).queue();
        q->noting = t.lock;
        q->noted.insert(instance);
    } else {
        withdraw(t.lock, protocol::instance_set::only(instance));
    }
}

bool acquirer::has_writers(std::string_view key) const {
    auto* const q = keys_.find(key).queue();
    return q != nullptr && q->machine.has_writers();
}

} // namespace holdfast::runtime
