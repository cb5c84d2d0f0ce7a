// A drain: what waits is refused, what holds goes on, and when nobody holds any more, or the limit
// has come, the client shuts down.
#include "runtime/engine.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace holdfast::runtime {

void draining::on_time(lease_clock::time_point) {
    engine_.begin_shutdown(errc::wait_timeout);
}

void engine::start_drain(operation& op) {
    op.where = operation::stage::attached;
    drains_.push_back(op);
    if (stopping_) return; // it ends with the shutdown
    if (!std::exchange(drain_.begun, true)) refuse_all_who_wait();
    auto const now = time();
    auto const limit = op.limit.time;
    if (limit <= std::chrono::nanoseconds::zero()) return drain_.on_time(now);
    // A limit too large to be added to the time is no limit.
    auto const until =
        now + std::min<lease_clock::duration>(limit, lease_clock::time_point::max() - now);
    if (!drain_.is_linked() || until < drain_.when()) deadlines_.schedule(drain_, until);
}

// At the end of each turn.
void engine::end_drain_if_done() {
    // A lease whose loss was told ahead of its deadline has its key until then.
    if (drain_.begun && !stopping_ && held_.empty() && ending_ == 0) begin_shutdown();
}

} // namespace holdfast::runtime
