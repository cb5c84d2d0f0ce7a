// The end of a client, at once or as a drain: waiters are refused, holders go on, and the
// client shuts down when no lease is held any more, or the limit has come.
#include "runtime/engine.hpp"

#include <algorithm>

namespace holdfast::runtime {

// `left_over`: the result of a drain if there are leases left.
void engine::begin_shutdown(errc left_over) {
    if (std::exchange(stopping_, true)) return;
    refuse_waiting();
    timers_.cancel(drain_limit_);
    auto const lost = draining_ && counters::get(counters_.lost) != lost_before_drain_;
    drained_ = keeper_.holds() ? left_over : lost ? errc::lease_lost : errc{};
    while (keeper_.holds()) settle(keeper_.lose_a_lease());
    acquirer_.for_each_queue([this](active_queue& q) {
        // Its holder was told of the loss, and its deadline has not come.
        if (q.machine.held()) settle(keeper_.end_tenure(q));
    });
}

void engine::refuse_waiting() {
    acquirer_.refuse_new();
    acquirer_.refuse_waiting();
    // Leases without a handle are released, and do not count as lost.
    while (inbox_.deliver_drops(receiver{*this})) {
    }
    acquirer_.for_each_queue([this](active_queue& q) { settle(&q); });
}

void engine::start_drain(operation& op) {
    op.stage = operation_stage::attached;
    drains_.push_back(op);
    if (stopping_) return; // it ends with the shutdown
    if (!std::exchange(draining_, true)) {
        lost_before_drain_ = counters::get(counters_.lost);
        refuse_waiting();
    }
    auto const now = turn_.time();
    auto const limit = op.limit.time;
    if (limit <= std::chrono::nanoseconds::zero()) return drain_limit_.on_time(now);
    // A limit too large to be added to the time is no limit.
    auto const until =
        now + std::min<lease_clock::duration>(limit, lease_clock::time_point::max() - now);
    if (!drain_limit_.is_linked() || until < drain_limit_.when()) {
        timers_.schedule(drain_limit_, until);
    }
}

void engine::drain_limit::on_time(lease_clock::time_point) {
    engine_.begin_shutdown(errc::wait_timeout);
}

// At the end of each turn.
void engine::end_drain_if_done() {
    if (draining_ && !stopping_ && !keeper_.has_tenures()) begin_shutdown();
}

// The pointer that has kept the engine alive, when it is over: for the turn, which may be one of an
// instance.
std::shared_ptr<engine> engine::finish_shutdown_if_done() noexcept {
    if (!stopping_) return nullptr;
    if (!stopped_) {
        if (keeper_.is_releasing() || tenures_.owes() || !instances_.settled()) return nullptr;
        stopped_ = true;
        // Those that stand back would keep their lock, and so this engine: their time does not come
        // any more.
        acquirer_.for_each_queue([this](active_queue& q) { acquirer_.forget(q); });
        timers_.stop();
        for (auto const& i : instances_) turn_.attempt([&] { i->stop(); });
    }
    while (!shutdowns_.empty()) completer_.complete(shutdowns_.front(), error{});
    while (!drains_.empty()) completer_.complete(drains_.front(), drained_);
    return std::move(running_);
}

} // namespace holdfast::runtime
