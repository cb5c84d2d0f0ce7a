// Tracks a key at instances other than the arbiter. A majority may become free while the
// arbiter still has the key: the arbiter was unreachable for a release, the keys of a majority were
// deleted, or the votes of a failed try expire one by one.
//
// The queue tracks the key at so many instances that no quorum can become free without one of
// them. With `n` instances that can be asked and a quorum of `q`, the queue tracks it at n - q + 1,
// the arbiter among them. Such an instance has the key, and will push when the key changes. If an
// instance turns out to be free, the queue tracks it at another one instead. When a quorum is free,
// the queue tries at all instances.
//
// Like the queue, this class does no I/O, reads no clock and allocates nothing. Safety never rests
// on it.
#ifndef HOLDFAST_PROTOCOL_KEY_TRACKER_HPP
#define HOLDFAST_PROTOCOL_KEY_TRACKER_HPP

#include "protocol/instance_set.hpp"
#include "protocol/rules.hpp"
#include "protocol/time.hpp"
#include "protocol/waiting/push_trust.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

namespace holdfast::protocol {

/// The right rules. Tests break them one at a time.
struct tracking_rules {
    /// How long the queue waits at the arbiter before it asks other instances too. If the key
    /// changes hands more often than that, the queue never asks them.
    static constexpr duration settled_after = std::chrono::milliseconds(100);
    /// The least pause between a push and the question that follows it. A random pause of up to the
    /// same length is added. Mostly the arbiter pushes in that time too, because the key was
    /// released or renewed, and then there is nothing to ask.
    static constexpr duration least_pause = std::chrono::milliseconds(25);
    /// How often the queue asks an instance that cannot push.
    static constexpr duration poll_interval = std::chrono::milliseconds(100);
    /// The number of instances at which the key is tracked, if `reachable` can be asked.
    static constexpr unsigned tracked(unsigned reachable, unsigned quorum) {
        return reachable - quorum + 1;
    }
};

/// An instance's answer about a key.
struct sighting {
    enum class state : std::uint8_t {
        held,
        gone,
        unknown ///< no answer, or an error
    } is = state::unknown;
    std::optional<duration> left{}; ///< empty: the key never expires
    bool tracked = false;           ///< the instance will push when the key changes
};

enum class tracking_action : std::uint8_t {
    none,
    ask,       ///< ask to_ask() for the key, and to push when it changes
    try_again, ///< a quorum was free
};

template <class Rules>
class basic_key_tracker {
public:
    explicit basic_key_tracker(unsigned configured)
        : configured_(configured) {}

    /// The arbiter, which was asked at `asked`, has the key for so long, and will push.
    void waits(time_point asked, time_point now, unsigned arbiter, std::optional<duration> left) {
        arbiter_ = arbiter;
        promise_.made(arbiter, asked, now, left);
        tracked_.erase(arbiter);
        asked_.erase(arbiter);
        check_ = now + Rules::settled_after;
    }
    /// The arbiter was asked again: see push_promise::answered().
    void asked_again(time_point asked, time_point now, unsigned arbiter,
                     std::optional<duration> left) {
        arbiter_ = arbiter;
        breach_ = promise_.answered(arbiter, asked, now, left);
    }
    /// Whether the arbiter had to report a change, and has not; once.
    breach take_breach() { return std::exchange(breach_, breach::none); }
    /// The queue stands in line. The arbiter reports its turn, and not each change. The process
    /// that is called may take so long. A quorum that is free for longer is nobody's.
    void stands_in_line(duration longest_turn) {
        promise_.ended(arbiter_);
        patience_ = longest_turn;
    }
    /// The instance may be late.
    void keeps_promise(unsigned instance) { promise_.ended(instance); }
    /// Ends the tracking. Our own write to the key ends our registrations, and the servers do not
    /// report that.
    void forget() {
        promise_.ended();
        tracked_ = asked_ = free_ = {};
        check_ = expiry_ = free_since_ = time_point::max();
        ++round_;
    }
    /// True if there is nothing to forget.
    bool idle() const { return (tracked_ | asked_ | free_).empty(); }

    tracking_action next(time_point now, instance_set reachable) {
        if (now >= expiry_) {
            tracked_ = {};
            expiry_ = time_point::max();
            check_ = now;
        }
        if (now < check_) return tracking_action::none;
        check_ = time_point::max();
        auto const quorum = redlock_rules::quorum(configured_, reachable.size());
        if (reachable.size() < quorum) return tracking_action::none;
        if ((free_ & reachable).size() >= quorum) {
            free_since_ = std::min(free_since_, now);
            if (now - free_since_ >= patience_) return tracking_action::try_again;
            check_ = free_since_ + patience_;
            return tracking_action::none;
        }
        auto const known = (tracked_ | asked_ | instance_set::only(arbiter_)) & reachable;
        auto const wanted = Rules::tracked(reachable.size(), quorum);
        to_ask_ = {};
        // Instances that answered the last question come first.
        for (auto const candidates : {reachable - failing_, reachable & failing_}) {
            for (unsigned n = 1; n < configured_ && known.size() + to_ask_.size() < wanted; ++n) {
                // Begins next to the arbiter, so different keys are tracked at different instances.
                auto const i = (arbiter_ + n) % configured_;
                if (candidates.contains(i) && !(known | free_).contains(i)) to_ask_.insert(i);
            }
        }
        asked_ = asked_ | to_ask_;
        return to_ask_.empty() ? tracking_action::none : tracking_action::ask;
    }
    instance_set to_ask() const { return to_ask_; }
    /// The number of this tracking. It goes with the questions, and comes back with the answers.
    std::uint32_t round() const { return round_; }
    /// When to call next(), if nothing else happens.
    time_point wake() const { return std::min(check_, expiry_); }

    /// The answer to a question.
    void answered(time_point now, unsigned instance, std::uint32_t round, sighting const& seen,
                  std::uint64_t random) {
        if (round != round_ || !asked_.contains(instance)) return;
        asked_.erase(instance);
        failing_.erase(instance);
        switch (seen.is) {
        case sighting::state::held: {
            tracked_.insert(instance);
            auto const left =
                seen.left ? *seen.left + std::chrono::milliseconds(1) : duration::max();
            auto const again = seen.tracked ? left : std::min(left, Rules::poll_interval);
            if (again != duration::max()) expiry_ = std::min(expiry_, now + again + spread(random));
            break;
        }
        case sighting::state::gone:
            free_.insert(instance);
            check_ = now;
            break;
        case sighting::state::unknown:
            failing_.insert(instance);
            check_ = std::min(check_, now + Rules::settled_after);
            break;
        }
    }

    /// The key has changed at an instance. False if it is not tracked there.
    bool push(time_point now, unsigned instance, std::uint64_t random) {
        promise_.ended(instance);
        taken(instance); // another client has the key
        if (!tracked_.contains(instance)) return false;
        tracked_.erase(instance);
        check_soon(now, random);
        return true;
    }
    /// An instance will not push any more.
    void lost(unsigned instance) {
        tracked_.erase(instance);
        asked_.erase(instance);
        taken(instance);
    }
    /// Checks again after a pause. If an instance can be asked again, it may complete a quorum.
    void check_soon(time_point now, std::uint64_t random) {
        check_ = std::min(check_, now + Rules::least_pause + spread(random));
    }

private:
    void taken(unsigned instance) {
        if (free_.contains(instance)) free_since_ = time_point::max();
        free_.erase(instance);
    }
    /// A random pause, so that processes that get a push at one moment do not all ask at one
    /// moment.
    static duration spread(std::uint64_t random) {
        auto const most = static_cast<std::uint64_t>(Rules::least_pause.count());
        return duration(static_cast<duration::rep>(random % most));
    }

    unsigned configured_;
    unsigned arbiter_ = 0;
    std::uint32_t round_ = 0;
    push_promise promise_;         ///< of the arbiter
    breach breach_ = breach::none; ///< found by the last try at the arbiter
    instance_set tracked_;         ///< has the key, and will push
    instance_set asked_;           ///< was asked, and has not answered
    instance_set free_;            ///< does not have the key
    instance_set to_ask_;
    instance_set failing_; ///< did not answer the last question
    duration patience_{0};
    time_point free_since_ = time_point::max(); ///< a quorum has been free
    time_point check_ = time_point::max();
    time_point expiry_ = time_point::max(); ///< the first expiry of a tracked key, or the next poll
};

} // namespace holdfast::protocol

#endif
