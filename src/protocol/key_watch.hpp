// The watch of a key at instances other than the arbiter. A majority may become free while the
// arbiter still has the key: the arbiter was unreachable for a release, the keys of a majority were
// deleted, or the votes of a failed try expire one by one.
//
// The key is watched at so many instances that no quorum can become free without one of them: with
// `n` instances that can be asked and a quorum of `q`, at n - q + 1, the arbiter among them. A
// watched instance has the key and will push when it changes. If an instance is found free, another
// one is watched in its place. When a quorum has been found free, a try at all instances follows.
//
// Like the queue it does no I/O, reads no clock and allocates nothing. Safety never rests on it.
#ifndef HOLDFAST_PROTOCOL_KEY_WATCH_HPP
#define HOLDFAST_PROTOCOL_KEY_WATCH_HPP

#include "protocol/instance_set.hpp"
#include "protocol/rules.hpp"
#include "protocol/time.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

namespace holdfast::protocol {

/// The right rules. Tests break them one at a time.
struct watching_rules {
    /// How long a waiter waits at the arbiter before the others are asked too. Where the key
    /// changes hands more often, they are never asked.
    static constexpr duration settled_after = std::chrono::milliseconds(100);
    /// The least pause between a push and the question that follows it; a random pause of up to the
    /// same length is added. Mostly the arbiter pushes meanwhile, because the key was released or
    /// renewed. Then there is nothing to ask.
    static constexpr duration least_pause = std::chrono::milliseconds(25);
    /// How often an instance is asked that cannot push.
    static constexpr duration poll_interval = std::chrono::milliseconds(100);
    /// At how many of `reachable` the key is watched.
    static constexpr unsigned watched(unsigned reachable, unsigned quorum) {
        return reachable - quorum + 1;
    }
};

/// An instance's answer about a key.
struct sighting {
    enum class state : std::uint8_t {
        held,
        gone,
        unknown ///< it could not be asked
    } is = state::unknown;
    std::optional<duration> left{}; ///< none: it never expires
    bool told = false;              ///< the instance will push when the key changes
};

enum class watch_action : std::uint8_t {
    none,
    ask,       ///< ask to_ask() for the key, and to push when it changes
    try_again, ///< a quorum was free
};

template <class Rules>
class basic_key_watch {
public:
    explicit basic_key_watch(unsigned configured)
        : configured_(configured) {}

    /// The arbiter has the key and will push.
    void waits(time_point now, unsigned arbiter) {
        arbiter_ = arbiter;
        watched_.erase(arbiter);
        asked_.erase(arbiter);
        check_ = now + Rules::settled_after;
    }
    /// Our own write ends our registration for a push, without a message.
    void forget() {
        watched_ = asked_ = free_ = {};
        check_ = expiry_ = time_point::max();
        ++round_;
    }
    /// Whether there is nothing to forget.
    bool idle() const { return (watched_ | asked_ | free_).empty(); }

    watch_action next(time_point now, instance_set reachable) {
        if (now >= expiry_) {
            watched_ = {};
            expiry_ = time_point::max();
            check_ = now;
        }
        if (now < check_) return watch_action::none;
        check_ = time_point::max();
        auto const quorum = redlock_rules::quorum(configured_, reachable.size());
        if (reachable.size() < quorum) return watch_action::none;
        if ((free_ & reachable).size() >= quorum) return watch_action::try_again;
        auto const known = (watched_ | asked_ | instance_set::only(arbiter_)) & reachable;
        auto const wanted = Rules::watched(reachable.size(), quorum);
        to_ask_ = {};
        // Instances that answered the last question come first.
        for (auto const candidates : {reachable - failing_, reachable & failing_}) {
            for (unsigned n = 1; n < configured_ && known.size() + to_ask_.size() < wanted; ++n) {
                // Begins at the arbiter, so different keys are watched at different instances.
                auto const i = (arbiter_ + n) % configured_;
                if (candidates.contains(i) && !(known | free_).contains(i)) to_ask_.insert(i);
            }
        }
        asked_ = asked_ | to_ask_;
        return to_ask_.empty() ? watch_action::none : watch_action::ask;
    }
    instance_set to_ask() const { return to_ask_; }
    /// Goes with the questions, and comes back with the answers.
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
            watched_.insert(instance);
            auto const left =
                seen.left ? *seen.left + std::chrono::milliseconds(1) : duration::max();
            auto const again = seen.told ? left : std::min(left, Rules::poll_interval);
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

    /// The key has changed at an instance. False: this instance is not watched.
    bool push(time_point now, unsigned instance, std::uint64_t random) {
        free_.erase(instance); // a client has taken it
        if (!watched_.contains(instance)) return false;
        watched_.erase(instance);
        check_soon(now, random);
        return true;
    }
    /// An instance will not push any more.
    void lost(unsigned instance) {
        watched_.erase(instance);
        asked_.erase(instance);
        free_.erase(instance);
    }
    /// An instance can be asked again: it may complete a quorum.
    void check_soon(time_point now, std::uint64_t random) {
        check_ = std::min(check_, now + Rules::least_pause + spread(random));
    }

private:
    /// Waiters that are told at one moment do not all ask at one moment.
    static duration spread(std::uint64_t random) {
        auto const most = static_cast<std::uint64_t>(Rules::least_pause.count());
        return duration(static_cast<duration::rep>(random % most));
    }

    unsigned configured_;
    unsigned arbiter_ = 0;
    std::uint32_t round_ = 0;
    instance_set watched_; ///< has the key, and will push
    instance_set asked_;   ///< its answer is to come
    instance_set free_;    ///< has not the key
    instance_set to_ask_;
    instance_set failing_; ///< could not be asked the last time
    time_point check_ = time_point::max();
    time_point expiry_ = time_point::max(); ///< the earliest of the watched keys
};

} // namespace holdfast::protocol

#endif
