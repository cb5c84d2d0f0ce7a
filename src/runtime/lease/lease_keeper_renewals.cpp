// Renewals: extensions, their conditions and failures, and the waits for the end of a lease.
#include "redis/wire/tombstone.hpp"
#include "runtime/lease/lease_keeper.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <variant>

namespace holdfast::runtime {

namespace {

bool is_extension(operation const& op) {
    return std::holds_alternative<extend_call>(op.call);
}

} // namespace

//
// Extensions, and waits for the end
//

protocol::tenure_action lease_keeper::begin_extension(active_tenure& t) {
    t.asked = turn_.time();
    t.clear_failures();
    return t.machine.extend(t.asked, instances_.reachable());
}

active_queue* lease_keeper::start_extend(operation& op) {
    auto& l = lease_of<extend_call>(op);
    if (l.ended != lease_end::none) {
        completer_.complete(op, code_of(l.ended));
        return nullptr;
    }
    auto& t = *l.tenure;
    auto const& call = op.as<extend_call>();
    auto const downgrades = call.downgrades && !t.shared;
    if (downgrades && !downgrade(l)) {
        completer_.complete(op, errc::out_of_memory);
        return nullptr;
    }
    op.stage = operation_stage::attached;
    l.waiters.push_back(op);
    // An extension of the writer that is under way counts no more.
    if (downgrades) {
        auto* const concerned = extend_for(t, t.machine.ttl());
        return concerned != nullptr ? concerned : t.queue;
    }
    if (call.ttl) return extend_for(t, *call.ttl);
    if (t.machine.extending()) return nullptr; // the extension under way answers both
    return apply(t, begin_extension(t));
}

active_queue* lease_keeper::extend_for(active_tenure& t, lease_clock::duration ttl) {
    // A shorter ttl would end the leases of others.
    if (t.shared && t.sharers().size() > 1) ttl = std::max(ttl, t.machine.ttl());
    t.asked = turn_.time();
    t.clear_failures();
    auto const before = t.machine.deadline();
    auto const action = t.machine.extend(t.asked, instances_.reachable(), ttl);
    if (t.machine.deadline() < before)
        for_each_lease(t, [&](lease_record& each) { deadline_moved_back(t, each); });
    return apply(t, action);
}

active_queue* lease_keeper::start_detach(operation& op) {
    auto& l = lease_of<detach_call>(op);
    auto* const concerned = l.ended == lease_end::none ? detach(l) : nullptr;
    completer_.finish(op);
    return concerned;
}

void lease_keeper::start_wait_end(operation& op) {
    auto& call = op.as<wait_end_call>();
    auto& l = lease_of<wait_end_call>(op);
    if (l.ended != lease_end::none) return completer_.complete(op, l.ended);
    op.stage = operation_stage::attached;
    if (op.timer) op.timer->owner = this;
    l.waiters.push_back(op);
    call.record = &l;
    // A wait for the end keeps no handle: if the last handle goes, the lease ends, and so does the
    // wait.
    call.lease = {};
    if (call.ahead > l.tenure->machine.margin()) wait_for_end(op, turn_.time());
}

void lease_keeper::on_time(operation& op, lease_clock::time_point now) {
    wait_for_end(op, now);
}

// Waits until the deadline is near. Extensions move the deadline. A timer that checks it again is
// less work than a timer that moves with each extension.
void lease_keeper::wait_for_end(operation& op, lease_clock::time_point now) {
    auto const& call = op.as<wait_end_call>();
    auto const due = call.record->deadline.load(std::memory_order_relaxed) - call.ahead;
    if (now >= due) return completer_.complete(op, lease_end::none);
    timers_.schedule(*op.timer, due);
}

void lease_keeper::complete_extends(lease_record& l, errc cause,
                                    completer::report_ptr const& report) {
    for (auto it = l.waiters.begin(); it != l.waiters.end();) {
        auto& op = *it++;
        if (is_extension(op)) completer_.complete(op, cause, report);
    }
}

void lease_keeper::complete_waiters(lease_record& l, errc to_extends) {
    for (auto it = l.waiters.begin(); it != l.waiters.end();) {
        auto& op = *it++;
        is_extension(op) ? completer_.complete(op, to_extends) : completer_.complete(op, l.ended);
    }
}

//
// Conditions of renewals
//

void lease_keeper::start_renew(operation& op) {
    auto& l = lease_of<renew_call>(op);
    retire(std::move(l.condition));
    auto& condition = op.as<renew_call>().condition;
    if (l.ended == lease_end::none && condition->holds) {
        l.condition = std::move(condition);
    } else {
        retire(std::move(condition));
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
// Failures
//

void lease_keeper::note(active_tenure& t, unsigned instance, redis::answer const& a) {
    t.failures().note(instance, instances_.size(), a, turn_.time() - t.asked);
    // An extension tells of a tombstone in place of our token.
    if (a.holder.empty()) return;
    t.failures().record(instance, instances_.size()).holder = a.holder;
    t.note_revocation(redis::revoker_in(a.holder));
}

// The cause that the instances share which kept the call from a quorum.
std::pair<errc, std::shared_ptr<acquire_report const>>
lease_keeper::failure_of(active_tenure& t, reported_call call) {
    auto cause = errc::no_quorum;
    std::shared_ptr<acquire_report const> report;
    // If that fails, the caller gets the code without a report.
    turn_.attempt([&] {
        auto& round = t.failures();
        round.votes = t.machine.votes();
        cause = common_cause(round, instances_.causes());
        report_input const input{.key = t.lock->key(),
                                 .call = call,
                                 .attempts = 1,
                                 .waited = turn_.time() - t.asked,
                                 .asked = round.votes.pending(),
                                 .round = round,
                                 .instances =
                                     instances_.snapshots(round, detail::keys_of(*t.lock))};
        report = std::make_shared<acquire_report const>(build_report(input));
    });
    return {cause, std::move(report)};
}

release_result lease_keeper::unconfirmed(active_tenure& t) {
    auto [cause, report] = failure_of(t, reported_call::release);
    return release_result(cause, std::move(report));
}

// Without a caller or an observer, nothing is reported: the watchdog tries again.
void lease_keeper::fail_extends(active_tenure& t) {
    auto waits = false;
    for_each_lease(t, [&](lease_record& l) {
        waits = waits || std::any_of(l.waiters.begin(), l.waiters.end(), is_extension);
    });
    if (!waits && !events_) return;
    auto [cause, report] = failure_of(t, reported_call::extend);
    events_.failed(*t.lease->lock, reported_call::extend, cause, turn_.time() - t.asked,
                   report.get());
    if (!waits) return;
    for_each_lease(
        t, [&, why = cause, &what = report](lease_record& l) { complete_extends(l, why, what); });
}

} // namespace holdfast::runtime
