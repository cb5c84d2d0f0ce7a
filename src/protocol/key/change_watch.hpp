// When a caller that waits for changes of a key asks the instances again. The caller asks all
// instances in rounds. In each round an instance is first asked to push when the key changes, and
// then for its state. So a change after the answer is pushed.
//
// An instance that does not push is asked again and again. A change that has not been pushed may
// last, so the caller also asks when the key expires, and now and then in any case.
//
// This class does no I/O, reads no clock and allocates nothing.
#ifndef HOLDFAST_PROTOCOL_CHANGE_WATCH_HPP
#define HOLDFAST_PROTOCOL_CHANGE_WATCH_HPP

#include "protocol/instance_set.hpp"
#include "protocol/time.hpp"
#include "protocol/waiting/push_trust.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

namespace holdfast::protocol {

/// The right rules. Tests break them one at a time.
struct change_rules {
    /// The least time from one round to the next. A random time of up to a half of it is added, so
    /// that processes that get a push at one moment do not all ask at one moment. A key of a busy
    /// queue changes thousands of times a second; holders and waiters go first.
    static constexpr duration least_pause = std::chrono::milliseconds(10);
    /// The time between rounds while an instance does not push.
    static constexpr duration poll_interval = std::chrono::milliseconds(250);
    /// The time between rounds otherwise. A push may be swallowed on its way.
    static constexpr duration recheck = std::chrono::seconds(10);
    /// Servers report an expiry late, if at all.
    static constexpr bool asks_at_expiry() { return true; }
};

template <class Rules>
class basic_change_watch {
public:
    /// Begins a round.
    void begin(time_point now, instance_set asked, std::uint64_t random) {
        began_ = now;
        asked_ = pending_ = asked;
        tracked_ = {};
        changed_ = false;
        expiry_ = time_point::max();
        auto const most = static_cast<std::uint64_t>(Rules::least_pause.count()) / 2;
        pause_ = Rules::least_pause + duration(static_cast<duration::rep>(random % most));
    }

    /// An instance was asked to push. `left`: the key's time to live; none: it never expires;
    /// negative: there is no key. Returns whether the instance has broken an earlier promise.
    breach registered(time_point now, unsigned instance, bool push_follows,
                      std::optional<duration> left) {
        // A later answer than that of the round belongs to another connection.
        if (!pending_.contains(instance)) return breach::none;
        auto const there = !left || *left >= duration::zero();
        auto found = promises_[instance].answered(instance, began_, now, left);
        if (absent_.contains(instance) && there) found = breach::certain;
        absent_.erase(instance);
        if (!push_follows) return found;
        tracked_.insert(instance);
        promises_[instance].made(instance, began_, now, left);
        if (!there) absent_.insert(instance);
        return found;
    }
    /// An instance has reported its state, or failed. `left`: the time to live of a key that
    /// expires. Returns true if the round is complete.
    bool answered(time_point now, unsigned instance, std::optional<duration> left) {
        pending_.erase(instance);
        if (left) expiry_ = std::min(expiry_, now + *left + std::chrono::milliseconds(1));
        return pending_.empty();
    }

    /// The key has changed at an instance, or this client has written it: with NOLOOP, that ends
    /// the promise. True if the key is to be asked for again.
    bool changed(unsigned instance) {
        promises_[instance].ended();
        absent_.erase(instance);
        if (!tracked_.contains(instance)) return false; // the change came before the registration
        tracked_.erase(instance);
        changed_ = true;
        return true;
    }
    /// An instance has come, or gone. A new connection has made no promise.
    void came_or_went(unsigned instance) {
        promises_[instance].ended();
        absent_.erase(instance);
        changed_ = true;
    }

    bool in_round() const { return !pending_.empty(); }
    bool is_pending(unsigned instance) const { return pending_.contains(instance); }
    /// When the next round begins. `soon`: a caller waits for a round that begins later than this
    /// one.
    time_point next(bool soon) const {
        auto const least = began_ + pause_;
        if (changed_ || soon) return least;
        auto const all_push = (asked_ - tracked_).empty();
        auto const again = began_ + (all_push ? Rules::recheck : Rules::poll_interval);
        return std::min(again, Rules::asks_at_expiry() ? std::max(least, expiry_) : again);
    }

private:
    time_point began_{}, expiry_ = time_point::max();
    duration pause_ = Rules::least_pause;
    instance_set asked_, pending_;
    instance_set tracked_; ///< will push the next change
    instance_set absent_;  ///< had no key, and promised to push
    std::array<push_promise, instance_set::capacity> promises_{};
    bool changed_ = false; ///< since the round began
};

using change_watch = basic_change_watch<change_rules>;

} // namespace holdfast::protocol

#endif
