// Ends a client, at once or with a drain. A drain refuses waiters, and lets holders go on. The
// client shuts down when no lease is held any more, or when the time limit has passed.
#include "runtime/engine/engine.hpp"

#include <algorithm>
#include <type_traits>
#include <variant>

namespace holdfast::runtime {

namespace {

/// True for a call that has begun and waits for its result. Shutdowns and drains complete at the
/// end.
bool is_open(operation const& op) {
    if (op.stage == operation_stage::starting) return false;
    return std::visit(
        []<class Call>(Call const&) {
            return call_with_handler<Call> && !std::is_same_v<Call, shutdown_call> &&
                   !std::is_same_v<Call, drain_call> && !std::is_same_v<Call, ended_acquire> &&
                   !std::is_same_v<Call, ended_release>;
        },
        op.call);
}

} // namespace

// `left_over`: the result of a drain if leases are still held.
void engine::begin_shutdown(errc left_over) {
    if (std::exchange(stopping_, true)) return;
    refuse_waiting();
    watcher_.shut_down();
    lister_.shut_down();
    timers_.cancel(drain_limit_);
    timers_.schedule(shutdown_limit_, turn_.time() + 2 * instance_timeout_);
    auto const lost = draining_ && counters::get(counters_.lost) != lost_before_drain_;
    drained_ = keeper_.holds() ? left_over : lost ? errc::lease_lost : errc{};
    keeper_.lose_all([this](active_queue* q) { leader_.settle(q); });
    tenures_.for_each([this](active_tenure& t) {
        // The holder was notified of the loss, and the deadline has not come.
        if (t.machine.phase() == protocol::tenure_phase::ending)
            leader_.settle(keeper_.end_tenure(t));
    });
}

void engine::refuse_waiting() {
    acquirer_.refuse_new();
    acquirer_.refuse_waiting();
    readiness_.shut_down();
    // The inbox may have leases that were given up or dropped. They are released here, so that they
    // do not count as lost.
    while (inbox_.deliver_drops(receiver{*this})) {
    }
    acquirer_.for_each_queue([this](active_queue& q) { leader_.settle(&q); });
}

void engine::start_shutdown(operation& op) {
    if (!inbox_.is_background(op)) {
        op.stage = operation_stage::attached;
        shutdowns_.push_back(op);
    }
    begin_shutdown();
}

void engine::start_drain(operation& op) {
    op.stage = operation_stage::attached;
    drains_.push_back(op);
    if (stopping_) return; // the drain completes with the shutdown
    if (!std::exchange(draining_, true)) {
        lost_before_drain_ = counters::get(counters_.lost);
        refuse_waiting();
    }
    auto const now = turn_.time();
    auto const limit = op.as<drain_call>().limit;
    if (limit <= std::chrono::nanoseconds::zero()) return drain_limit_.on_time(now);
    // A limit that is too large to be added to the time counts as no limit.
    auto const until =
        now + std::min<lease_clock::duration>(limit, lease_clock::time_point::max() - now);
    if (!drain_limit_.is_linked() || until < drain_limit_.when()) {
        timers_.schedule(drain_limit_, until);
    }
}

void engine::drain_limit::on_time(lease_clock::time_point) {
    engine_.begin_shutdown(errc::wait_timeout);
}

// Instances that answer late, one after another, would otherwise keep a client from ending.
void engine::shutdown_limit::on_time(lease_clock::time_point) {
    engine_.shutdown_overdue_ = true;
}

// A part of the client has failed. So it waits for nothing more.
void engine::end_at_once() noexcept {
    turn_.attempt([&] { begin_shutdown(); });
    shutdown_overdue_ = true;
    if (!instances_.flush()) turn_.ask_for_another();
    for (auto const& i : instances_) turn_.attempt([&] { i->stop(); });
    turn_.attempt([&] { tenures_.answer_outstanding(); });
    // Those that a step took out of their place, and did not bring to another.
    auto open = inbox_.take_if(is_open);
    while (!open.empty()) completer_.complete(open.front(), errc::shut_down);
}

// Called at the end of each turn.
void engine::end_drain_if_done() {
    if (draining_ && !stopping_ && !keeper_.has_tenures()) begin_shutdown();
}

// When the shutdown is complete, gives up the reference that has kept the engine alive. in_a_turn()
// has another.
void engine::finish_shutdown_if_done() noexcept {
    if (!stopping_) return;
    if (!stopped_) {
        auto const busy =
            keeper_.is_releasing() || tenures_.has_outstanding() || !instances_.settled();
        if (busy && !shutdown_overdue_) return;
        stopped_ = true;
        timers_.cancel(shutdown_limit_);
        // A queue that stands back keeps its lock state, and so this engine. Its timer will not run
        // any more.
        acquirer_.for_each_queue([this](active_queue& q) { acquirer_.forget(q); });
        timers_.stop();
        for (auto const& i : instances_) turn_.attempt([&] { i->stop(); });
    }
    while (!shutdowns_.empty()) completer_.complete(shutdowns_.front(), errc{});
    while (!drains_.empty()) completer_.complete(drains_.front(), drained_);
    running_.reset();
}

} // namespace holdfast::runtime
