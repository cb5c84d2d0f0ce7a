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

#include "protocol/quarantine.hpp"
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
    duration on_time(time_point sent, time_point received, duration shown) {
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

/// The time in which an instance's grants do not count because its clock has jumped ahead.
///
/// This time is the longest ttl, however small the jump. A key that has longer to live than the
/// jump does not expire at once, but later it expires too early by the length of the jump. To let
/// each grant count only after a delay as long as the jump would not help either, because small
/// jumps that remain unnoticed make the error larger.
class clock_doubt {
public:
    explicit clock_doubt(duration longest)
        : longest_(longest) {}

    /// The clock was read. Two readings in a row may each show a part of one jump.
    void observed(time_point now, bool jumped) {
        if (jumped && !in_a_jump_) before_ = quarantine_;
        if (jumped) quarantine_.begin(now, longest_);
        in_a_jump_ = jumped;
    }
    /// The instance's clock did not jump: our own clock stood still.
    void excuse() {
        quarantine_ = before_;
        in_a_jump_ = false;
    }

    bool active(time_point now) const { return quarantine_.active(now); }
    time_point until() const { return quarantine_.until(); }

private:
    duration longest_;
    quarantine quarantine_, before_;
    bool in_a_jump_ = false;
};

} // namespace holdfast::protocol

#endif
