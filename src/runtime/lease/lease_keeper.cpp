#include "runtime/lease/lease_keeper.hpp"

#include "protocol/tenure/fence.hpp"

#include <atomic>
#include <memory>
#include <utility>
#include <variant>

namespace holdfast::runtime {

using protocol::command;
using effect = protocol::tenure_effect;
using phase = protocol::tenure_phase;

//
// Tenures
//

active_queue* lease_keeper::on_answer(active_tenure& t, unsigned instance, command c,
                                      std::uint32_t round, redis::answer const& a) {
    auto const present =
        c == command::release || (c == command::extend && round == t.machine.round_number());
    if (c == command::extend && !a.holder.empty()) t.machine.note_tombstone();
    if (present && a.verdict != protocol::verdict::yes) note(t, instance, a);
    auto const action = t.machine.answer(
        c, round, instance, a.verdict, [this] { return turn_.time(); }, a.number, a.slot);
    if (action.effect == effect::none && action.heal.empty() && action.release.empty()) {
        tenures_.schedule_if_late(t);
        return nullptr;
    }
    return apply(t, action);
}

active_queue* lease_keeper::on_time(active_tenure& t, lease_clock::time_point now) {
    // `now` may be up to 1 ms ahead, because timers that are due together run together. Releases at
    // the deadline and extensions use the time of the turn instead.
    auto action = t.machine.time(t.machine.phase() == phase::ending ? turn_.time() : now);
    if (action.effect == effect::renewal_due) {
        if (!is_wanted(t)) {
            t.machine.stop_renewing();
        } else {
            action = begin_extension(t);
        }
    }
    return apply(t, action);
}

// Returns the queue that the caller must settle, or null.
active_queue* lease_keeper::apply(active_tenure& t, protocol::tenure_action const& a) {
    active_tenure_ptr const alive(&t);
    active_queue* concerned = nullptr;
    if (a.effect == effect::lost) claim_loss(t);
    tenures_.send_all(t, a);
    switch (a.effect) {
    case effect::extended:
        on_extended(t);
        break;
    case effect::extension_failed:
        counters::add(counters_.extend_failed);
        fail_extends(t);
        break;
    case effect::lost:
    case effect::released:
    case effect::release_unconfirmed:
        concerned = on_over(t, a.effect);
        break;
    case effect::ended:
        concerned = on_deadline(t);
        break;
    case effect::none:
    case effect::renewal_due:
        break;
    case effect::won:
    case effect::contended:
    case effect::no_quorum:
    case effect::expired:
    case effect::cancelled:
    case effect::arbiter_won:
    case effect::arbiter_refused:
    case effect::arbiter_failed:
    case effect::inspected:
        break; // of tries: handled by the acquirer
    }
    tenures_.schedule(t);
    return concerned;
}

void lease_keeper::on_extended(active_tenure& t) {
    t.forget_revocation();
    counters::add(counters_.extended);
    auto const took = turn_.time() - t.asked;
    counters_.extensions.add(took);
    for_each_lease(t, [&](lease_record& l) {
        l.deadline.store(t.machine.deadline(), std::memory_order_release);
        events_.extended(l, took);
    });
    keep_counters(t);
    for_each_lease(t, [this](lease_record& l) { complete_extends(l, errc{}); });
}

// Writes the counters of the fence again: a lease may last longer than the instances keep the
// counter of an unused key.
void lease_keeper::keep_counters(active_tenure& t) {
    if (t.machine.fenced() && turn_.time() - t.counted >= fence_ttl_ / 4) write_counters(t);
}

void lease_keeper::write_counters(active_tenure& t) {
    t.counted = turn_.time();
    tenures_.send(t, command::raise, t.machine.maybe_held() & instances_.reachable(), 0);
}

active_queue* lease_keeper::on_over(active_tenure& t, effect how) {
    if (t.lease != nullptr) return on_lost(t);
    --releasing_;
    if (how == effect::released && t.gives_back) counters::add(counters_.released);
    auto* const op = std::exchange(t.releaser, nullptr);
    if (op == nullptr && !events_) return nullptr;
    auto const result = how == effect::released ? release_result()
                        : how == effect::lost   ? release_result(errc::lease_lost)
                                                : unconfirmed(t);
    if (!result.confirmed() && t.gives_back) {
        events_.failed(*t.lock, reported_call::release, result.code(), turn_.time() - t.asked,
                       result.report());
    }
    if (op != nullptr) completer_.complete(*op, result);
    return nullptr;
}

/// How the lease of a tenure ends that was lost.
lease_end lease_keeper::loss_of(active_tenure const& t) const {
    auto const by_time = t.machine.phase() == phase::ending || turn_.time() >= t.machine.deadline();
    return t.is_revoked() ? lease_end::revoked : by_time ? lease_end::expired : lease_end::key_gone;
}

// A holder detaches a lease on its own thread, and another process may have adopted it before that
// comes here. So either the holder learns of the loss, or the key is not released.
void lease_keeper::claim_loss(active_tenure& t) {
    for_each_lease(t, [&](lease_record& l) {
        auto held = lease_end::none;
        if (!l.over.compare_exchange_strong(held, loss_of(t))) t.leaves_key = true;
    });
}

// Ends a held lease that was lost.
active_queue* lease_keeper::on_lost(active_tenure& t) {
    auto const how = loss_of(t);
    if (how == lease_end::revoked) t.end_by_revocation();
    while (t.lease != nullptr) {
        auto& l = *t.lease;
        if (l.over.load(std::memory_order_relaxed) == lease_end::released) {
            end_detached(l);
            continue;
        }
        events_.lost(l, close(l, how), t.revoked_by());
        complete_waiters(l, errc::lease_lost);
    }
    // The deadline that the holder knows has not come. Until then the tenure has the key.
    if (t.machine.phase() == phase::ending) {
        ++ending_;
        return nullptr;
    }
    return lose(t);
}

// Called at the deadline of a lease, after its holder was notified of the loss.
active_queue* lease_keeper::on_deadline(active_tenure& t) {
    --ending_;
    if (auto* const q = pass_on(t, nullptr, nullptr, turn_.time())) return q;
    if (hand_over(t, nullptr, nullptr, turn_.time())) return nullptr;
    return end_tenure(t);
}

active_queue* lease_keeper::end_tenure(active_tenure& t) {
    active_tenure_ptr const alive(&t);
    auto* const q = lose(t);
    if (t.machine.phase() == phase::ending) apply(t, t.machine.abandon());
    return q;
}

void lease_keeper::clock_stood_still(active_tenure& t, lease_clock::time_point until,
                                     lease_clock::duration by) {
    t.machine.clock_stood_still(until, by);
    tenures_.schedule(t);
    for_each_lease(t, [&](lease_record& l) { deadline_moved_back(t, l); });
}

// 100,000 leases are checked within a second: not in one great batch, which would keep the servers
// and this process busy.
void lease_keeper::check_all() {
    constexpr std::chrono::microseconds spacing{10};
    auto at = turn_.time();
    tenures_.for_each([&](active_tenure& t) {
        if (t.lease == nullptr || t.machine.phase() != protocol::tenure_phase::held) return;
        at += spacing;
        t.machine.renew_by(at);
        tenures_.schedule(t);
    });
}

void lease_keeper::deadline_moved_back(active_tenure& t, lease_record& l) {
    l.deadline.store(t.machine.deadline(), std::memory_order_release);
    for (auto& op : l.waiters) {
        auto const* const call = std::get_if<wait_end_call>(&op.call);
        if (call == nullptr || call->ahead <= t.machine.margin()) continue;
        timers_.schedule(*op.timer, t.machine.deadline() - call->ahead);
    }
}

//
// Leases
//

lease_record* lease_keeper::new_lease(active_tenure& t) noexcept {
    lease_record* l = nullptr;
    if (t.shared && !make_room(t)) return l;
    turn_.attempt([&] { l = &leases_.take(); });
    return l;
}

void lease_keeper::grant(operation& op, active_tenure& t, lease_record& l) {
    auto const& call = op.as<acquire_call>();
    l.begin(call.lock);
    l.tenure = &t;
    auto const first = t.lease == nullptr;
    protocol::duration const longest = call.lock->options().max_hold;
    if (first) {
        t.machine.begin_lease(op.renewed, turn_.time(),
                              longest.count() == 0 ? protocol::duration::max() : longest);
        t.lease = &l;
    } else if (op.renewed) {
        t.machine.renew_again(turn_.time());
    }
    l.deadline.store(t.machine.deadline(), std::memory_order_release);
    l.fence = op.fenced ? fence_of(t) : 0;
    if (t.shared) add(l, turn_.time());
    if (!first) counters::add(counters_.handovers);
    ++held_;
    counters::add(counters_.acquired);
    l.count(counters_, call.lock->permits() != 0);
    tenures_.schedule(t);
    // It is not known when the holder before has written them.
    if (op.adopts && op.fenced) write_counters(t);
    auto const handed_over = !first || served_before(t) > op.handovers;
    auto const waited = turn_.time() - call.started();
    counters_.ended(handed_over ? acquire_outcome::handed_over : acquire_outcome::acquired, waited,
                    op.behind);
    events_.acquired(l, waited, handed_over);
    if (t.queue != nullptr && t.queue->of_set) folded_.keeps_places(op, *t.queue);
    completer_.complete(op, detail::lease_ref(&l));
}

active_queue* lease_keeper::start_release(operation& op) {
    auto& l = lease_of<release_call>(op);
    if (l.ended == lease_end::none) return end_lease(l, &op, lease_end::released);
    completer_.complete(op, release_result(code_of(l.ended)));
    return nullptr;
}

active_queue* lease_keeper::let_go(lease_record& l, bool dropped) {
    active_queue* concerned = nullptr;
    if (l.ended == lease_end::none) {
        concerned = end_lease(l, nullptr, lease_end::released);
    }
    if (dropped) {
        l.recycle();
        leases_.give_back(l);
    }
    return concerned;
}

// Ends a lease. Also ends its tenure, unless a waiter of this process gets a lease of that tenure.
active_queue* lease_keeper::end_lease(lease_record& l, operation* op, lease_end as) {
    // The detach may still be in the inbox.
    if (l.detached.load(std::memory_order_relaxed)) {
        if (op != nullptr) completer_.complete(*op, release_result(errc::lease_released));
        return detach(l);
    }
    auto const now = turn_.time();
    auto const lost = is_loss(as);
    // A release after the deadline must report the loss, so there is no hand-over.
    auto const in_time = now < l.deadline.load(std::memory_order_relaxed);
    if (!lost && in_time) {
        if (auto* const q = pass_on(*l.tenure, &l, op, now)) return q;
        if (hand_over(*l.tenure, &l, op, now)) return nullptr;
    }
    active_tenure_ptr const t = l.tenure;
    auto const held = close(l, as);
    complete_waiters(l, lost ? errc::shut_down : errc::lease_released);
    auto const others = t->lease != nullptr;
    if (!others) t->lock = l.lock; // for the release: its events are the last holder's
    if (lost) {
        events_.lost(l, held, {});
    } else {
        events_.released(l, held, false);
    }
    if (!others && !t->leaves_key) return release(*t, op, !lost, now);
    if (!lost) counters::add(counters_.released);
    if (op != nullptr)
        completer_.complete(*op, in_time ? release_result() : release_result(errc::lease_lost));
    return others ? nullptr : leave_key(*t);
}

// Ends a lease and its tenure, and leaves the key to its ttl.
active_queue* lease_keeper::detach(lease_record& l) {
    active_tenure_ptr const t = l.tenure;
    end_detached(l);
    if (t->lease == nullptr) return leave_key(*t);
    t->leaves_key = true;
    return nullptr;
}

void lease_keeper::end_detached(lease_record& l) {
    // Before it is not counted any more: its token may be asked for later.
    l.tenure->sharing.hand_over();
    events_.released(l, close(l, lease_end::released), false);
    complete_waiters(l, errc::lease_released);
    counters::add(counters_.released);
}

active_queue* lease_keeper::leave_key(active_tenure& t) {
    active_tenure_ptr const alive(&t);
    t.machine.abandon();
    tenures_.schedule(t);
    return lose(t);
}

// Parts a tenure from its queue. Returns the queue, or null if it is folded.
active_queue* lease_keeper::leave_queue(active_tenure& t) {
    auto* const q = t.queue;
    if (q != nullptr) {
        q->detach();
    } else if (t.has_key()) {
        folded_.forget(t);
    }
    return q;
}

active_queue* lease_keeper::lose(active_tenure& t) {
    auto* const q = leave_queue(t);
    if (q != nullptr) q->machine.lost();
    return q;
}

active_queue* lease_keeper::release(active_tenure& t, operation* op, bool gives_back,
                                    lease_clock::time_point now) {
    ++releasing_;
    t.releaser = op;
    if (op != nullptr) op->stage = operation_stage::attached;
    t.gives_back = gives_back;
    t.asked = now;
    t.clear_failures();
    if (t.queue == nullptr && t.has_key() && t.machine.opposed()) folded_.unfold(t);
    if (t.queue != nullptr) t.note_round_trip(t.queue->machine.round_trip());
    active_tenure_ptr const alive(&t);
    auto* const q = leave_queue(t);
    apply(t, t.machine.release(now, instances_.reachable()));
    // Only after apply() has submitted the release. So later commands reach the instances after it.
    if (q != nullptr) q->machine.released(now, t.machine.opposed());
    return q;
}

// Gives the next waiter of this process a lease of the same tenure, without a command to the
// servers. `l`: the lease before, or null if that has ended already. Returns false if there is no
// hand-over.
bool lease_keeper::hand_over(active_tenure& tenure, lease_record* l, operation* op,
                             lease_clock::time_point now) {
    active_tenure_ptr const t(&tenure);
    auto* const q = t->queue;
    auto const& options = t->lock->options();
    if (q == nullptr || t->converted) return false; // folded: no acquire waits
    if (!t->sharing.open()) return false;           // its token is known elsewhere
    if (!q->machine.hands_over(now, t->machine.valid_until() - now, t->machine.ttl(),
                               options.handover_limit, options.handover_time)) {
        return false;
    }
    auto* const next = new_lease(*t);
    if (next == nullptr) return false;
    end_for_next(l, op);
    grant(static_cast<operation&>(q->machine.hand_over()), *t, *next);
    return true;
}

/// The lease, if it has not ended already, gives way to the next one of its tenure.
void lease_keeper::end_for_next(lease_record* l, operation* op) {
    if (l != nullptr) {
        events_.released(*l, close(*l, lease_end::released), true);
        complete_waiters(*l, errc::lease_released);
        counters::add(counters_.released);
    }
    counters::add(counters_.handovers);
    if (op != nullptr) completer_.complete(*op, release_result());
}

// Marks a held lease as ended. Returns how long it was held.
lease_clock::duration lease_keeper::close(lease_record& l, lease_end as) {
    auto const held = turn_.time() - leave(l);
    counters_.holds.add(held);
    l.ended = as;
    l.over.store(as, std::memory_order_release);
    retire(std::move(l.condition));
    --held_;
    l.discount(counters_);
    if (is_loss(as)) counters::add(counters_.lost);
    if (as == lease_end::revoked) counters::add(counters_.revoked);
    return held;
}

//
// The end
//

void lease_keeper::abandon() noexcept {
    leases_.for_each([this](lease_record& l) { l.abandon(counters_); });
    destroy_retired();
}

void lease_keeper::clear() noexcept {
    leases_.for_each([](lease_record& l) {
        l.waiters.clear();
        l.tenure.detach();
    });
}

} // namespace holdfast::runtime
