// Locks on several keys, and the locks on one of these keys behind them.
//
// The keys of such a lock have one queue together, and its tries and its tenure are those of any
// queue. Two things are added: the queue tries only while its first waiter is first in the lines of
// all keys (protocol/waiting/key_line.hpp), and after some refusals the waiter takes the keys one
// after the other (protocol/waiting/set_approach.hpp), by acquires of its own. The lease keeps the
// places of its waiter until it has ended.
//
// What an event means for other queues waits for continue_turns(): no function that settle() calls
// settles a queue.
#include "runtime/acquire/acquirer.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::runtime {

using protocol::set_step;

//
// Lines
//

void acquirer::start_set(operation& op) {
    auto& call = op.as<acquire_call>();
    auto const& lock = *call.lock;
    set_turn_owner& owner = *this;
    auto made = std::make_unique<set_turn>(lock, static_cast<bool>(op.waits), owner);
    made->taken.reserve(lock.keys().size());
    made->op = &op;
    if (call.extras) made->adopted = std::move(call.extras->adopted);
    auto& turn = *made;
    turns_.push_back(turn);
    call.extras = std::move(made);
    auto const in_use = [this](std::string_view key) { return this->in_use(key); };
    if (op.adopts && !has_key_of(lock)) {
        lines_.overtake(turn, lock, in_use, [this](protocol::key_turn& overtaken) {
            on_due(static_cast<set_turn&>(overtaken));
        });
    } else {
        lines_.enter(turn, lock, in_use);
    }
    auto const hash = hash_of_key(lock.key());
    auto* q = keys_.find(lock.keys(), hash).queue();
    if (q == nullptr) {
        lines_.make_room();
        q = make_queue(call.lock, hash);
        lines_.add(*q);
    }
    turn.queue = q;
    auto const ready = turn.first_everywhere();
    turn.waited = !ready;
    if (q->machine.empty() && !q->machine.held()) q->machine.may_try(ready);
    if (!ready && !op.waits) {
        op.stage = operation_stage::queued;
        call.queue = q;
        fail(op, errc::contended);
        return settle(*q, turn_.time());
    }
    join(op, *q);
}

/// True if a lease of this client has one of the keys. Behind an adoption that is under way there
/// may be one that is not seen; then the instances refuse.
bool acquirer::has_key_of(detail::lock_state const& lock) const {
    auto found = false;
    lock.for_each_key([&](std::string_view key) {
        auto const at = keys_.find(key);
        auto* const set = queue_of_set(key);
        found = found || at.is_folded() || (at.queue() != nullptr && at.queue()->machine.held()) ||
                (set != nullptr && set->machine.held());
    });
    return found;
}

/// True if the acquire of one key waits, or has failed, because locks on several keys come first.
bool acquirer::waits_in_line(operation& op) {
    auto const& lock = *op.as<acquire_call>().lock;
    auto* const line = lines_.find(lock.key());
    if (line == nullptr || line->empty() || op.adopts) return false;
    op.stage = operation_stage::queued;
    if (!op.waits) {
        fail(op, errc::contended);
    } else {
        line->wait_behind(op);
        count_as_waiting(op);
    }
    return true;
}

/// The queue whose first waiter, or lease, is first in the line of the key; or null.
active_queue* acquirer::queue_of_set(std::string_view key) const {
    auto const* const line = lines_.find(key);
    if (line == nullptr || !line->has_places()) return nullptr;
    auto const& first = line->front();
    return first.ready ? static_cast<set_turn*>(first.turn)->queue : nullptr;
}

/// The tenure of several keys that has the key, or asks for it.
active_tenure* acquirer::tenure_of_set(std::string_view key) const {
    auto* const q = queue_of_set(key);
    return q == nullptr ? nullptr : q->tenure.get();
}

/// The queue of this key is not in use any more.
void acquirer::freed(std::string_view key) noexcept {
    auto* const line = lines_.find(key);
    if (line == nullptr) return;
    if (auto* const next = protocol::key_turn::freed(*line)) on_due(static_cast<set_turn&>(*next));
    lines_.tidy(key);
}

void acquirer::leave_lines(set_turn& t, detail::lock_state const& lock) noexcept {
    t.due_hook::unlink();
    auto const called = [this](protocol::key_line& l) {
        auto& line = static_cast<key_lines::line&>(l);
        if (!line.is_linked()) called_.push_back(line);
    };
    t.leave(called, [this](protocol::key_turn& next) { on_due(static_cast<set_turn&>(next)); });
    for (auto const key : lock.keys()) lines_.tidy(key);
}

/// An acquire of several keys has failed. What it has, and the acquire of a key that is under way,
/// end with its turn: see proceed().
void acquirer::give_up_set(operation& op) noexcept {
    auto& call = op.as<acquire_call>();
    auto* const turn = turn_if_any(op);
    if (turn == nullptr) return;
    turn->op = nullptr;
    turn->give_back();
    if (turn->entered()) leave_lines(*turn, *call.lock);
    for (auto const key : call.lock->keys()) lines_.tidy(key);
    if (turn->taking() == nullptr) return;
    turn->orphaned = true;
    (void)call.extras.release(); // NOLINT: proceed() destroys it
    on_due(*turn);
}

//
// Leases
//

void acquirer::keeps_places(operation& op, active_queue& q) noexcept {
    auto& holder = lines_.holder(q);
    std::unique_ptr<set_turn> next(static_cast<set_turn*>(op.as<acquire_call>().extras.release()));
    next->op = nullptr;
    next->give_back();
    next->due_hook::unlink();
    if (holder) holder->hand_over_to(*next);
    holder = std::move(next);
    update_gate(q); // for the next one: a hand-over settles no queue
}

/// Gives up the places of the lease that has ended, if there are any.
bool acquirer::end_lease_of(active_queue& q) noexcept {
    auto const ended = std::exchange(lines_.holder(q), nullptr);
    round_trip_of_set_ = q.machine.round_trip();
    if (ended) leave_lines(*ended, *q.lock);
    return ended != nullptr;
}

//
// Tries
//

void acquirer::settle_set(active_queue& q, lease_clock::time_point now) {
    do {
        if (!run(q, now)) return;
    } while (!q.machine.held() && !q.machine.stands_back() && end_lease_of(q));
    auto* const turn = turn_of_front(q);
    if (turn != nullptr && turn->first_everywhere() &&
        turn->approach.step() == set_step::in_order && !q.machine.held())
        on_due(*turn);
}

/// Decides whether the queue may try, or hand its tenure over.
void acquirer::update_gate(active_queue& q) {
    auto const* const turn = turn_of_front(q);
    if (turn == nullptr) return q.machine.may_try(true);
    auto const& holder = lines_.holder(q);
    if (q.machine.held()) {
        q.machine.may_try(holder && holder->is_followed_by(*turn));
    } else {
        q.machine.may_try(turn->first_everywhere() && turn->approach.step() != set_step::in_order);
    }
}

/// The round of the first waiter was refused.
void acquirer::note_refusal(active_queue& q) {
    if (q.machine.empty()) return;
    auto& turn = *turn_of_front(q);
    if (!turn.op->waits) return;
    auto const converted = turn.approach.step() == set_step::conversion;
    turn.approach.refused();
    if (converted) q.machine.wake_at(turn_.time() + turn.approach.pause(random_.pause_bits()));
    turn.give_back();
}

//
// One key after the other
//

void acquirer::continue_turns() {
    while (!due_.empty() || !called_.empty()) {
        if (!called_.empty()) {
            auto& line = called_.front();
            called_.pop_front();
            join_after_sets(line);
            continue;
        }
        auto& t = due_.front();
        due_.pop_front();
        proceed(t);
    }
}

// As after a tenure of the queue itself, other processes get their turn first.
void acquirer::join_after_sets(key_lines::line& first) {
    std::string const key(first.key);
    auto const hash = hash_of_key(key);
    // The line goes with its last acquire.
    for (auto* l = &first; l != nullptr && l->has_called(); l = lines_.find(key)) {
        auto& op = static_cast<operation&>(l->take_called());
        auto const at = keys_.find(key, hash);
        auto* q = at.is_folded() ? unfold(*at.tenure()) : at.queue();
        if (q == nullptr) {
            auto const& lock = op.as<acquire_call>().lock;
            if (!turn_.attempt([&] { q = make_queue(lock, hash); })) {
                fail(op, errc::out_of_memory);
                continue;
            }
            q->machine.follows(turn_.time(), round_trip_of_set_);
        }
        join(op, *q);
    }
    // All of them may have left, or failed.
    if (!in_use(key)) freed(key);
}

void acquirer::proceed(set_turn& t) {
    auto const now = turn_.time();
    if (t.orphaned) {
        std::unique_ptr<set_turn> const last(&t);
        return stop_taking(t);
    }
    if (t.op == nullptr) return;
    if (!t.first_everywhere()) return stand_aside(t);
    auto& q = *t.queue;
    if (turn_of_front(q) != &t) return;
    if (auto const failure = t.take_failure(); failure != errc{}) {
        leave(*t.op, failure);
        return settle(q, now);
    }
    if (std::exchange(t.waited, false) && q.machine.counts().tries == 0)
        q.machine.follows(now, round_trip_of_set_);
    if (!t.taken.empty() && !has_all_taken(t)) {
        t.give_back();
        t.approach.start_over();
        stop_taking(t);
    }
    if (t.approach.step() == set_step::in_order) {
        if (t.may_take_key()) take_next_key(t);
        return;
    }
    if (t.approach.step() == set_step::conversion && t.prior.empty()) begin_conversion(t);
    settle(q, now);
}

/// It has been overtaken: it keeps nothing from others while it waits again.
void acquirer::stand_aside(set_turn& t) {
    if (!t.taken.empty() || t.taking() != nullptr) {
        t.give_back();
        t.approach.start_over();
        stop_taking(t);
    }
    settle(*t.queue, turn_.time());
}

/// The acquire of a key that is under way ends.
void acquirer::stop_taking(set_turn& t) {
    auto* const taking = t.taking();
    if (taking == nullptr) return;
    t.abandon_key();
    auto* const q = taking->as<acquire_call>().queue;
    leave(*taking, errc::cancelled);
    if (q != nullptr) settle(*q, turn_.time());
}

bool acquirer::has_all_taken(set_turn const& t) const {
    return std::all_of(t.taken.begin(), t.taken.end(), [&](detail::lease_ref const& l) {
        return l->over.load(std::memory_order_relaxed) == lease_end::none &&
               turn_.time() < l->deadline.load(std::memory_order_relaxed);
    });
}

// The keys that it takes one by one are kept by the watchdog, and need no fences: the whole lease
// gets one.
void acquirer::take_next_key(set_turn& t) {
    auto const& lock = t.op->as<acquire_call>().lock;
    auto const key = lock->keys()[t.approach.next_key()];
    auto options = lock->options();
    options.watchdog = true;
    options.fencing = false;
    options.max_hold = {};
    operation* op = nullptr;
    active_queue* q = nullptr;
    auto const ready = turn_.attempt([&] {
        op = &t.take_key(locks_.make_lock(options, key));
        if (!admit(*op)) return;
        auto const hash = hash_of_key(key);
        auto const at = keys_.find(key, hash);
        q = at.is_folded()          ? unfold(*at.tenure())
            : at.queue() != nullptr ? at.queue()
                                    : make_queue(op->as<acquire_call>().lock, hash);
    });
    if (!ready && op != nullptr) return fail(*op, errc::out_of_memory);
    if (!ready) {
        auto& whole = *t.queue;
        leave(*t.op, errc::out_of_memory);
        return settle(whole, turn_.time());
    }
    if (q != nullptr) join(*op, *q);
}

// From now on the instances that have all keys give them the token of the lease, so an extension of
// one of them would fail there.
void acquirer::begin_conversion(set_turn& t) {
    auto const keys = t.op->as<acquire_call>().lock->keys();
    auto const ready = turn_.attempt([&] {
        t.prior.reserve(keys.size());
        for (auto const key : keys)
            t.prior.emplace_back(keys_.find(key).tenure()->token_text(random_.label()).view());
    });
    if (!ready) return leave(*t.op, errc::out_of_memory);
    for (auto const key : keys) {
        auto& tenure = *keys_.find(key).tenure();
        tenure.converted = true;
        tenure.machine.stop_renewing();
    }
    t.queue->machine.has_keys();
}

} // namespace holdfast::runtime
