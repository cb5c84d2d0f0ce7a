#include "runtime/lease_keeper.hpp"

#include "protocol/fence.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

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
    if (present && a.verdict != protocol::verdict::yes) note(t, instance, a);
    auto const action =
        t.machine.answer(c, round, instance, a.verdict, [this] { return turn_.time(); });
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
        if (t.lease->condition && !is_condition(*t.lease)) {
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
    tenures_.send_all(t, a);
    switch (a.effect) {
    case effect::extended:
        on_extended(t);
        break;
    case effect::extension_failed:
        counters::add(counters_.renewals_failed);
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
    t.lease->deadline.store(t.machine.deadline(), std::memory_order_release);
    counters::add(counters_.renewals);
    keep_counters(t);
    tell_extends(*t.lease, error{});
}

// Writes the counters of the fence again: a lease may last longer than the instances keep the
// counter of an unused key.
void lease_keeper::keep_counters(active_tenure& t) {
    auto const now = turn_.time();
    if (!t.machine.fenced() || now - t.counted < fence_ttl_ / 4) return;
    t.counted = now;
    tenures_.send(t, command::raise, t.machine.maybe_held() & instances_.reachable(), 0);
}

active_queue* lease_keeper::on_over(active_tenure& t, effect how) {
    if (t.lease != nullptr) return on_lost(t);
    --releasing_;
    if (how == effect::released && t.gives_back) counters::add(counters_.released);
    if (auto* const op = std::exchange(t.releaser, nullptr)) {
        completer_.complete(*op, how == effect::released ? release_result()
                                 : how == effect::lost   ? release_result(errc::lease_lost)
                                                         : unconfirmed(t));
    }
    return nullptr;
}

// Ends a held lease that was lost.
active_queue* lease_keeper::on_lost(active_tenure& t) {
    auto& l = *t.lease;
    close(l, lease_record::end::lost);
    tell_waiters(l, errc::lease_lost, errc{});
    // The deadline that the holder knows has not come. Until then the queue has the key.
    if (t.machine.phase() == phase::ending) {
        ++ending_;
        return nullptr;
    }
    auto& q = *t.queue;
    q.detach();
    q.machine.lost();
    return &q;
}

// Called at the deadline of a lease, after its holder was told of the loss.
active_queue* lease_keeper::on_deadline(active_tenure& t) {
    --ending_;
    if (hand_over(t, nullptr, nullptr, turn_.time())) return nullptr;
    return end_tenure(*t.queue);
}

active_queue* lease_keeper::end_tenure(active_queue& q) {
    auto const t = q.tenure;
    q.detach();
    if (t->machine.phase() == phase::ending) apply(*t, t->machine.abandon());
    q.machine.lost();
    return &q;
}

void lease_keeper::clock_stood_still(active_tenure& t, lease_clock::time_point until,
                                     lease_clock::duration by) {
    t.machine.clock_stood_still(until, by);
    tenures_.schedule(t);
    if (t.lease == nullptr) return;
    auto& l = *t.lease;
    l.deadline.store(t.machine.deadline(), std::memory_order_release);
    for (auto& op : l.waiters) {
        if (op.kind != operation_kind::wait_lost || op.limit.time <= t.machine.margin()) continue;
        timers_.schedule(op, t.machine.deadline() - op.limit.time);
    }
}

//
// Leases
//

lease_record* lease_keeper::new_lease() noexcept {
    lease_record* l = nullptr;
    turn_.attempt([&] { l = &leases_.take(); });
    return l;
}

void lease_keeper::grant(operation& op, active_tenure& t, lease_record& l) {
    l.begin(op.lock);
    l.tenure = &t;
    protocol::duration const longest = op.lock->options.max_hold;
    t.machine.begin_lease(op.watched, turn_.time(),
                          longest.count() == 0 ? protocol::duration::max() : longest);
    l.deadline.store(t.machine.deadline(), std::memory_order_release);
    l.fence = op.fenced ? protocol::fence_of(t.machine.number(), t.queue->machine.handoffs()) : 0;
    t.lease = &l;
    held_.push_back(l);
    counters::add(counters_.acquired);
    l.count(counters_);
    tenures_.schedule(t);
    completer_.complete(op, error{}, detail::lease_ref(&l));
}

active_queue* lease_keeper::start_release(operation& op) {
    auto& l = static_cast<lease_record&>(*op.lease.get());
    switch (l.ended) {
    case lease_record::end::none:
        return end_lease(l, &op, lease_record::end::released);
    case lease_record::end::lost:
        completer_.complete(op, release_result(errc::lease_lost));
        break;
    case lease_record::end::released:
        completer_.complete(op, release_result(errc::lease_released));
        break;
    }
    return nullptr;
}

active_queue* lease_keeper::let_go(lease_record& l, bool dropped) {
    active_queue* concerned = nullptr;
    if (l.ended == lease_record::end::none) {
        concerned = end_lease(l, nullptr, lease_record::end::released);
    }
    if (dropped) {
        l.recycle();
        leases_.give_back(l);
    }
    return concerned;
}

// Ends a lease. Also ends its tenure, unless a waiter of this process gets a lease of that tenure.
active_queue* lease_keeper::end_lease(lease_record& l, operation* op, lease_record::end as) {
    auto const now = turn_.time();
    auto const lost = as == lease_record::end::lost;
    tell_waiters(l, lost ? errc::shut_down : errc::lease_released,
                 lost ? errc{} : errc::lease_released);
    // A release after the deadline must report the loss, so there is no hand-over.
    auto const in_time = now < l.deadline.load(std::memory_order_relaxed);
    if (!lost && in_time && hand_over(*l.tenure, &l, op, now)) return nullptr;
    active_tenure_ptr const t = l.tenure;
    close(l, as);
    return release(*t, op, !lost, now);
}

active_queue* lease_keeper::release(active_tenure& t, operation* op, bool gives_back,
                                    lease_clock::time_point now) {
    ++releasing_;
    t.releaser = op;
    if (op != nullptr) op->stage = operation_stage::attached;
    t.gives_back = gives_back;
    t.asked = now;
    if (t.failures) t.failures->instances.clear();
    auto& q = *t.queue;
    active_tenure_ptr const alive(&t);
    q.detach();
    apply(t, t.machine.release(now, instances_.reachable()));
    // Only after apply() has submitted the release. So later commands reach the instances after it.
    q.machine.released(now, t.machine.opposed());
    return &q;
}

// Gives the next waiter of this process a lease of the same tenure, without a command to the
// servers. `l`: the lease before, or null if that has ended already. Returns false if there is no
// hand-over.
bool lease_keeper::hand_over(active_tenure& tenure, lease_record* l, operation* op,
                             lease_clock::time_point now) {
    active_tenure_ptr const t(&tenure);
    auto& q = *t->queue;
    auto const& options = t->lock->options;
    if (!q.machine.hands_over(now, t->machine.valid_until() - now, options.ttl,
                              options.handoff_limit, options.handoff_time)) {
        return false;
    }
    auto* const next = new_lease();
    if (next == nullptr) return false;
    if (l != nullptr) {
        close(*l, lease_record::end::released);
        counters::add(counters_.released);
    }
    counters::add(counters_.handoffs);
    if (op != nullptr) completer_.complete(*op, release_result());
    grant(static_cast<operation&>(q.machine.hand_over()), *t, *next);
    return true;
}

// Marks a held lease as ended.
void lease_keeper::close(lease_record& l, lease_record::end as) {
    l.ended = as;
    l.over.store(true, std::memory_order_release);
    l.tenure->lease = nullptr;
    l.tenure.reset();
    retire(std::move(l.condition));
    held_.erase(held_.iterator_to(l));
    l.discount(counters_);
    if (as == lease_record::end::lost) counters::add(counters_.lost);
}

//
// Failures
//

void lease_keeper::note(active_tenure& t, unsigned instance, redis::answer const& a) {
    turn_.attempt([&] {
        if (!t.failures) t.failures = std::make_unique<round_record>();
        t.failures->note(instance, instances_.size(), a, turn_.time() - t.asked);
    });
}

// The cause that the instances share which kept the call from a quorum.
std::pair<errc, std::shared_ptr<acquire_report const>>
lease_keeper::failure_of(active_tenure& t, reported_call call) {
    auto cause = errc::no_quorum;
    std::shared_ptr<acquire_report const> report;
    // If memory runs out, the code is told without a report.
    turn_.attempt([&] {
        if (!t.failures) t.failures = std::make_unique<round_record>();
        auto& round = *t.failures;
        round.votes = t.machine.votes();
        cause = common_cause(round, instances_.causes());
        report_input const input{.key = t.lock->key,
                                 .call = call,
                                 .attempts = 1,
                                 .waited = turn_.time() - t.asked,
                                 .asked = round.votes.pending(),
                                 .round = round,
                                 .instances = instances_.snapshots(round, t.lock->key)};
        report = std::make_shared<acquire_report const>(build_report(input));
    });
    return {cause, std::move(report)};
}

release_result lease_keeper::unconfirmed(active_tenure& t) {
    auto [cause, report] = failure_of(t, reported_call::release);
    return release_result(cause, std::move(report));
}

// Without a caller, nothing is told: the watchdog tries again.
void lease_keeper::fail_extends(active_tenure& t) {
    auto& waiters = t.lease->waiters;
    auto const waits = std::any_of(waiters.begin(), waiters.end(), [](operation const& op) {
        return op.kind == operation_kind::extend;
    });
    if (!waits) return;
    auto [cause, report] = failure_of(t, reported_call::extend);
    tell_extends(*t.lease, error(cause, std::move(report)));
}

//
// Extensions, and waits for the loss
//

protocol::tenure_action lease_keeper::begin_extension(active_tenure& t) {
    t.asked = turn_.time();
    if (t.failures) t.failures->instances.clear();
    return t.machine.extend(t.asked, instances_.reachable());
}

active_queue* lease_keeper::start_extend(operation& op) {
    auto& l = static_cast<lease_record&>(*op.lease.get());
    if (l.ended != lease_record::end::none) {
        completer_.complete(op, l.ended == lease_record::end::lost ? errc::lease_lost
                                                                   : errc::lease_released);
        return nullptr;
    }
    op.stage = operation_stage::attached;
    l.waiters.push_back(op);
    auto& t = *l.tenure;
    if (t.machine.extending()) return nullptr; // the extension under way answers both
    return apply(t, begin_extension(t));
}

void lease_keeper::start_wait_lost(operation& op) {
    auto& l = static_cast<lease_record&>(*op.lease.get());
    if (l.ended != lease_record::end::none) {
        return completer_.complete(op, l.ended == lease_record::end::lost ? errc{}
                                                                          : errc::lease_released);
    }
    op.stage = operation_stage::attached;
    op.timer = this;
    l.waiters.push_back(op);
    op.watched_lease = &l;
    // A wait for the loss keeps no handle: if the last handle goes, the lease ends, and so does the
    // wait.
    op.lease = {};
    if (op.limit.time > l.tenure->machine.margin()) wait_for_end(op, turn_.time());
}

void lease_keeper::on_time(operation& op, lease_clock::time_point now) {
    wait_for_end(op, now);
}

// Waits until the deadline is near. Extensions move the deadline. A timer that checks it again is
// less work than a timer that moves with each extension.
void lease_keeper::wait_for_end(operation& op, lease_clock::time_point now) {
    auto const due = op.watched_lease->deadline.load(std::memory_order_relaxed) - op.limit.time;
    if (now >= due) return completer_.complete(op, errc{});
    timers_.schedule(op, due);
}

void lease_keeper::tell_extends(lease_record& l, error const& result) {
    for (auto it = l.waiters.begin(); it != l.waiters.end();) {
        auto& op = *it++;
        if (op.kind == operation_kind::extend) completer_.complete(op, result);
    }
}

void lease_keeper::tell_waiters(lease_record& l, errc to_extends, errc to_lost) {
    for (auto it = l.waiters.begin(); it != l.waiters.end();) {
        auto& op = *it++;
        completer_.complete(op, op.kind == operation_kind::extend ? to_extends : to_lost);
    }
}

//
// Conditions of renewals
//

void lease_keeper::start_renew(operation& op) {
    auto& l = static_cast<lease_record&>(*op.lease.get());
    retire(std::move(l.condition));
    if (l.ended == lease_record::end::none && op.condition->holds) {
        l.condition = std::move(op.condition);
    } else {
        retire(std::move(op.condition));
    }
    completer_.finish(op);
}

bool lease_keeper::is_condition(lease_record& l) {
    try {
        return l.condition->holds();
    } catch (...) {
        return false; // an exception counts as no
    }
}

void lease_keeper::retire(renewal_condition_ptr w) noexcept {
    if (!w) return;
    w->next = std::move(retired_);
    retired_ = std::move(w);
    turn_.ask_for_another();
}

void lease_keeper::destroy_retired() noexcept {
    auto old = std::move(retired_);
    while (old) old = std::move(old->next);
}

//
// The end
//

void lease_keeper::abandon() noexcept {
    leases_.for_each([this](lease_record& l) { l.abandon(counters_); });
    destroy_retired();
}

void lease_keeper::clear() noexcept {
    held_.clear();
    leases_.for_each([](lease_record& l) {
        l.waiters.clear();
        l.tenure.detach();
    });
}

} // namespace holdfast::runtime
