// Finds out when a server's wall clock jumps ahead. Servers expire keys by that clock, so a jump
// ends leases before their holders know:
// https://redis.io/docs/latest/develop/use/patterns/distributed-locks/ ("Redis is not using
// monotonic clock for TTL expiration").
//
// The server reads its clock at some moment between our question and its answer. So each answer
// gives an interval for the offset of the server's clock against ours. A jump is certain when the
// new interval lies wholly above the old one, widened by the possible drift of the clocks in
// between. A slow answer makes the interval wider: the guard may then miss a jump, but never
// reports a false one.
#ifndef HOLDFAST_PROTOCOL_CLOCK_GUARD_HPP
#define HOLDFAST_PROTOCOL_CLOCK_GUARD_HPP

#include "protocol/rules.hpp"
#include "protocol/server/clock_reading.hpp"
#include "protocol/time.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::protocol {

class clock_guard {
public:
    /// `longest`: the longest ttl. No key is older, so drift from before that time does not matter.
    explicit clock_guard(duration longest)
        : longest_(longest) {}

    /// The server has answered the question for its time. `sent` and `received` are times of our
    /// clock; `shown` is the server's wall clock, from any epoch. If the server's clock has
    /// certainly jumped ahead since the question before, returns the distance between the two
    /// intervals, else zero.
    duration told(time_point sent, time_point received, duration shown) {
        interval const now{shown - received.time_since_epoch(), shown - sent.time_since_epoch()};
        auto const before = offset_;
        // Drift may also hide a part of a jump. That drift is not bounded by the longest ttl.
        auto const hidden = redlock_rules::drift(received - last_);
        auto const drift = redlock_rules::drift(std::min<duration>(received - last_, longest_));
        auto const least_jump = now.least - (before.most + drift);
        auto const most_jump = now.most - before.least + hidden;
        // The jump is measured in seconds of the server, which may be 1 % longer or shorter than
        // ours.
        reading_ = {.first = !known_,
                    .least = least_jump - std::max(least_jump, duration::zero()) / 100,
                    .most = most_jump + std::max(most_jump, duration::zero()) / 100,
                    .from = most_since_,
                    .to = received,
                    .asked = last_,
                    .sure_from = received_,
                    .sure_to = sent};
        last_ = sent; // the server may have read its clock this early
        received_ = received;
        offset_ = now;
        // A slow answer can hide a jump. A later answer then shows that jump, which may be older
        // than the slow answer.
        auto const most = before.most + drift;
        if (!known_ || reading_.jumped() || now.most < most) most_since_ = sent;
        if (!std::exchange(known_, true)) {
            reading_.least = reading_.most = duration::zero();
            return duration::zero();
        }
        if (reading_.jumped()) return now.least - before.most;
        // A jump back lets keys live longer than they should, which endangers no lease.
        auto const least = before.least - drift;
        if (now.most < least) return duration::zero();
        offset_ = interval{std::max(now.least, least), std::min(now.most, most)};
        return duration::zero();
    }

    /// The reading from the last answer.
    clock_reading const& last() const { return reading_; }

    /// Our own clock stood still, at a moment in [from, to], for `least` to `most`. If this server
    /// has not shown the standstill yet, its next answer will not count the standstill as a jump.
    void stood_still(time_point from, time_point to, duration least, duration most) {
        if (!known_ || last_ >= to) return;
        offset_.most += most + most / 100;
        if (received_ <= from) offset_.least += least - least / 100;
    }

private:
    struct interval {
        duration least{}, most{};
    };

    duration longest_;
    interval offset_;
    bool known_ = false;
    time_point last_{};       ///< when the last question was sent
    time_point received_{};   ///< when it was answered
    time_point most_since_{}; ///< sending time of the question that bounds the offset from above
    clock_reading reading_;
};

} // namespace holdfast::protocol

#endif
