#include "runtime/acquire/readiness.hpp"

#include "protocol/rules.hpp"
#include "runtime/services/report_builder.hpp"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

namespace holdfast::runtime {

using protocol::instance_set;
using protocol::redlock_rules;

round_record readiness::round_of(instance_set there) const {
    round_record r;
    auto const quorum = redlock_rules::quorum(instances_.size(), there.size());
    r.votes = protocol::tally(instances_.size(), quorum, there);
    (there & ready()).for_each([&](unsigned i) { r.votes.count(i, protocol::verdict::yes); });
    return r;
}

void readiness::start(operation& op) {
    auto const& call = op.as<ready_call>();
    op.stage = operation_stage::attached;
    waiting_.push_back(op);
    if (call.needs_timer()) {
        op.timer->owner = this;
        auto const now = turn_.time();
        auto const longest = lease_clock::time_point::max() - now - timer_queue::coarseness;
        timers_.schedule(*op.timer, now +
                                        std::min<lease_clock::duration>(call.limit.time, longest) +
                                        timer_queue::coarseness);
    } else if (call.limit.time.count() <= 0) {
        on_time(op, turn_.time());
    }
}

void readiness::look() {
    auto const there = ready();
    if (there.size() >= redlock_rules::quorum(instances_.size(), there.size())) {
        while (!waiting_.empty()) completer_.complete(waiting_.front(), errc{});
        return;
    }
    // An instance that is being connected for the first time may be there soon.
    auto const round = round_of(there | (instances_.voters() - instances_.usable_now()));
    if (!fails_permanently(round, instances_.causes())) return;
    while (!waiting_.empty()) fail(waiting_.front(), round);
}

void readiness::on_time(operation& op, lease_clock::time_point) {
    auto const there = ready();
    if (there.size() >= redlock_rules::quorum(instances_.size(), there.size()))
        return completer_.complete(op, errc{});
    fail(op, round_of(there));
}

void readiness::fail(operation& op, round_record const& round) {
    auto const cause = common_cause(round, instances_.causes());
    completer::report_ptr report;
    // If that fails, the caller gets the code alone.
    turn_.attempt([&] {
        report_input const input{.key = {},
                                 .call = reported_call::ready,
                                 .asked = {},
                                 .round = round,
                                 .instances = instances_.snapshots(round, std::string_view())};
        report = std::make_shared<acquire_report const>(build_report(input));
    });
    completer_.complete(op, cause, std::move(report));
}

void readiness::shut_down() {
    while (!waiting_.empty()) completer_.complete(waiting_.front(), errc::shut_down);
}

} // namespace holdfast::runtime
