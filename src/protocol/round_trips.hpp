// How long each instance usually takes to answer, and so from when on an answer is late: long
// before the instance is suspected. A round that only late answers could save does not wait for
// them (acquisition::patience_ends), and a waiter for the push of a late instance asks elsewhere.
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
    /// Of an instance that has not answered yet.
    static constexpr duration first_patience = std::chrono::milliseconds(20);
    /// An instance is not called late sooner than this: the waiters for its pushes each make a
    /// try elsewhere.
    static constexpr duration soonest_late = std::chrono::milliseconds(10);
    /// A process that was stopped finds everything late, and first reads its input.
    static constexpr duration reading_time = std::chrono::milliseconds(1);

    /// An answer came after `took`. One that was long overdue counts as a late one: the instance
    /// was stopped, and that says little of its next answer.
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

    /// The oldest question without an answer was asked at `asked`. True, once: the
    /// instance is late.
    bool becomes_late(time_point now, time_point asked) {
        if (late_ || now - asked < std::max(usual(), soonest_late)) return false;
        if (asked != doubted_) {
            doubted_ = asked;
            doubted_at_ = now;
        }
        late_ = now - doubted_at_ >= reading_time;
        return late_;
    }
    /// Until it answers.
    bool late() const { return late_; }

    /// An answer that takes longer is late; any answer of an instance that is late already.
    duration patience() const { return late_ ? duration::zero() : usual(); }
    /// The same where no other instance is in time.
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

/// Of all instances of a client.
using round_trips = std::array<round_trip, instance_set::capacity>;

/// After how long fewer than `needed` of those that are `awaited`, of which there are as many, can
/// be in time.
inline duration patience(round_trips const& usual, instance_set awaited, unsigned needed) {
    std::array<duration, instance_set::capacity> each;
    auto end = each.begin();
    awaited.for_each([&](unsigned i) { *end++ = usual[i].patience(); });
    auto const last = each.begin() + (needed - 1);
    std::nth_element(each.begin(), last, end, std::greater<>());
    return *last;
}

/// From when on answers that were asked for at `asked` come too late, where `needed` of those
/// `awaited` must come.
inline time_point late_from(round_trips const& usual, time_point asked, instance_set awaited,
                            unsigned needed) {
    if (awaited.size() < needed) return time_point::max();
    return asked + patience(usual, awaited, needed);
}

} // namespace holdfast::protocol

#endif
