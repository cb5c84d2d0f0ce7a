// Finds out when a server's wall clock jumps ahead. Servers expire keys by that clock, so a jump ends leases
// before their holders know: https://redis.io/docs/latest/develop/use/patterns/distributed-locks/ ("Redis is
// not using monotonic clock for TTL expiration").
//
// Each time the server tells its time, its clock's offset against ours is known to lie in an interval: it read
// its clock at some moment between our question and the answer. A jump is certain when the new interval lies
// wholly above the old one, widened by what the clocks may drift apart meanwhile. So a slow answer makes the
// guard less sharp, and never wrong.
#ifndef HOLDFAST_PROTOCOL_CLOCK_GUARD_HPP
#define HOLDFAST_PROTOCOL_CLOCK_GUARD_HPP

#include "protocol/rules.hpp"
#include "protocol/time.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::protocol {

class clock_guard {
public:
    /// `longest`: the longest ttl. A key is not older than that, so what drift adds up to before does not
    /// matter.
    explicit clock_guard(duration longest)
        : longest_(longest) {}

    /// The server has answered a question that was sent and received at these times of our clock: `shown` is
    /// its wall clock, from any epoch. Gives how far that has jumped ahead since it was asked before, up to what
    /// the clocks may have drifted; zero if it need not have.
    duration told(time_point sent, time_point received, duration shown) {
        interval const now{shown - received.time_since_epoch(), shown - sent.time_since_epoch()};
        auto const before = offset_;
        auto const drift = redlock_rules::drift(std::min<duration>(received - last_, longest_));
        last_ = sent; // it may have read its clock as early as that
        offset_ = now;
        if (!std::exchange(known_, true)) return duration::zero();
        auto const least = before.least - drift;
        auto const most = before.most + drift;
        if (now.least > most) return now.least - before.most;
        // Backwards: keys live longer than they should, which endangers nobody.
        if (now.most < least) return duration::zero();
        offset_ = interval{std::max(now.least, least), std::min(now.most, most)};
        return duration::zero();
    }

private:
    struct interval {
        duration least{}, most{};
    };

    duration longest_;
    interval offset_;
    bool known_ = false;
    time_point last_{}; ///< when the last question was sent
};

} // namespace holdfast::protocol

#endif
