// The usual time that each instance takes to answer. It decides from when an answer is late, long
// before the instance is suspect. A round that only late answers can win does not wait for them
// (acquisition::patience_ends). A waiter for the push of a late instance tries at another arbiter.
//
// Mean and mean deviation as in RFC 6298 (https://www.rfc-editor.org/rfc/rfc6298, section 2).
#ifndef HOLDFAST_PROTOCOL_ROUND_TRIPS_HPP
#define HOLDFAST_PROTOCOL_ROUND_TRIPS_HPP

#include "protocol/instance_set.hpp"
#include "protocol/time.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>

namespace holdfast::protocol {

class round_trip {
public:
    static constexpr duration shortest_patience = std::chrono::milliseconds(2);
    static constexpr duration longest_patience = std::chrono::milliseconds(250);
    /// For an instance that has not answered yet.
    static constexpr duration first_patience = std::chrono::milliseconds(20);
    /// An instance is late after this time at the earliest, because each waiter for its pushes then
    /// makes a try elsewhere.
    static constexpr duration soonest_late = std::chrono::milliseconds(10);
    /// The time between the two checks of an instance. After a pause of this process every instance
    /// seems late, until the process has read its input.
    static constexpr duration reading_time = std::chrono::milliseconds(1);

    /// An answer came after `took`. If the answer was long overdue, it counts as one that took
    /// twice the usual time: the instance was stopped, which says little about its next answer.
    void heard(duration took) {
        late_ = false;
        if (mean_ == duration::zero()) {
            mean_ = std::clamp<duration>(took, duration(1), longest_patience);
            deviation_ = mean_ / 2;
            return;
        }
        auto const counted = std::min(took, 2 * usual());
        auto const off = counted > mean_ ? counted - mean_ : mean_ - counted;
        deviation_ += (off - deviation_) / 4;
        mean_ += (counted - mean_) / 8;
    }

    /// The oldest question without an answer was sent at `asked`. True once, when the instance
    /// becomes late.
    bool becomes_late(time_point now, time_point asked) {
        if (late_ || now - asked < std::max(usual(), soonest_late)) return false;
        if (asked != doubted_) {
            doubted_ = asked;
            doubted_at_ = now;
        }
        late_ = now - doubted_at_ >= reading_time;
        return late_;
    }
    /// True if the instance has become late, and has not answered since.
    bool late() const { return late_; }

    /// An answer that takes longer is late. Zero for an instance that is late already.
    duration patience() const { return late_ ? duration::zero() : usual(); }
    /// As patience(), but not zero for a late instance. For rounds in which no other instance is in
    /// time.
    duration usual() const {
        if (mean_ == duration::zero()) return first_patience;
        return std::clamp<duration>(mean_ + std::max(mean_, 4 * deviation_), shortest_patience,
                                    longest_patience);
    }

private:
    duration mean_{}, deviation_{};
    time_point doubted_{}, doubted_at_{};
    bool late_ = false;
};

/// The round trips of all instances of a client.
using round_trips = std::array<round_trip, instance_set::capacity>;

/// The time after which fewer than `needed` of the `awaited` instances can still answer in time. At
/// least `needed` instances must be awaited.
inline duration patience(round_trips const& usual, instance_set awaited, unsigned needed) {
    std::array<duration, instance_set::capacity> each;
    auto end = each.begin();
    awaited.for_each([&](unsigned i) { *end++ = usual[i].patience(); });
    auto const last = each.begin() + (needed - 1);
    std::nth_element(each.begin(), last, end, std::greater<>());
    return *last;
}

/// The time from which answers are too late: of the `awaited` instances, which were asked at
/// `asked`, fewer than `needed` can still answer in time.
inline time_point late_from(round_trips const& usual, time_point asked, instance_set awaited,
                            unsigned needed) {
    if (awaited.size() < needed) return time_point::max();
    return asked + patience(usual, awaited, needed);
}

} // namespace holdfast::protocol

#endif
