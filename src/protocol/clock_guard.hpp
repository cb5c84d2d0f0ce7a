// Finds out when a server's wall clock jumps ahead. Servers expire keys by that clock, so a jump
// ends leases before their holders know:
// https://redis.io/docs/latest/develop/use/patterns/distributed-locks/ ("Redis is not using
// monotonic clock for TTL expiration").
//
// Each time the server tells its time, its clock's offset against ours is known to lie in an
// interval: it read its clock at some moment between our question and the answer. A jump is certain
// when the new interval lies wholly above the old one, widened by the drift that the clocks may
// have meanwhile. So a slow answer makes the guard less sharp, and never wrong.
#ifndef HOLDFAST_PROTOCOL_CLOCK_GUARD_HPP
#define HOLDFAST_PROTOCOL_CLOCK_GUARD_HPP

#include "protocol/clock_reading.hpp"
#include "protocol/rules.hpp"
#include "protocol/time.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::protocol {

class clock_guard {
public:
    /// `longest`: the longest ttl. A key is not older than that, so drift that adds up before
    /// does not matter.
    explicit clock_guard(duration longest)
        : longest_(longest) {}

    /// The server has answered a question that was sent and received at these times of our clock:
    /// `shown` is its wall clock, from any epoch. Gives how far that has jumped ahead since it was
    /// asked before, less the drift that the clocks may have; zero if it need not have.
    duration told(time_point sent, time_point received, duration shown) {
        interval const now{shown - received.time_since_epoch(), shown - sent.time_since_epoch()};
        auto const before = offset_;
        // Drift may hide a jump. That is not bounded by the longest ttl.
        auto const hidden = redlock_rules::drift(received - last_);
        auto const drift = redlock_rules::drift(std::min<duration>(received - last_, longest_));
        auto const least_jump = now.least - (before.most + drift);
        auto const most_jump = now.most - before.least + hidden;
        // Of the server's time: its seconds may be longer or shorter than ours.
        reading_ = {.first = !known_,
                    .least = least_jump - std::max(least_jump, duration::zero()) / 100,
                    .most = most_jump + std::max(most_jump, duration::zero()) / 100,
                    .from = most_since_,
                    .to = received,
                    .asked = last_,
                    .sure_from = received_,
                    .sure_to = sent};
        last_ = sent; // it may have read its clock as early as that
        received_ = received;
        offset_ = now;
        // A slow answer can hide a jump: then the next one that shows it may show one from before
        // the slow one.
        auto const most = before.most + drift;
        if (!known_ || reading_.jumped() || now.most < most) most_since_ = sent;
        if (!std::exchange(known_, true)) {
            reading_.least = reading_.most = duration::zero();
            return duration::zero();
        }
        if (reading_.jumped()) return now.least - before.most;
        // Backwards: keys live longer than they should, which endangers no lease.
        auto const least = before.least - drift;
        if (now.most < least) return duration::zero();
        offset_ = interval{std::max(now.least, least), std::min(now.most, most)};
        return duration::zero();
    }

    /// Of the answer that was told last.
    clock_reading const& last() const { return reading_; }

    /// Our clock stood still, at a moment within this time and for so long: that is no jump of the
    /// server's, where it has not been seen yet.
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
    time_point most_since_{}; ///< when the question was sent that bounds the offset from above
    clock_reading reading_;
};

} // namespace holdfast::protocol

#endif
