// Tells a standstill of our own clock from jumps of the servers' clocks.
//
// A hypervisor can stop a machine with its clocks. Then the clocks of all servers seem to jump
// ahead, by the same amount and at the same moment. In truth their keys are right, and our
// deadlines are too late. So equal jumps of a majority of the configured instances mean two things:
// - Our deadlines are too late by the amount of the jump. If the servers' clocks did jump, the keys
//   of a majority expire earlier, so our deadlines are too late in that case as well.
// - The servers' clocks did not jump, if each other instance that could tell agrees. A single
//   instance has no other one that could agree. Only readings at short intervals can show that
//   jumps were equal. A reading after a long time, as after an outage, leaves the amount uncertain
//   by the drift of the clocks, and jumps that were seconds apart would seem to be one.
//
// The servers' clocks are read one after the other. So this class gets each reading, and checks
// again after each.
#ifndef HOLDFAST_PROTOCOL_STANDSTILL_HPP
#define HOLDFAST_PROTOCOL_STANDSTILL_HPP

#include "protocol/instance_set.hpp"
#include "protocol/rules.hpp"
#include "protocol/server/clock_reading.hpp"
#include "protocol/time.hpp"

#include <algorithm>
#include <array>
#include <chrono>

namespace holdfast::protocol {

class standstill {
public:
    /// The longest time between two readings that are of use. The client reads the clock of an idle
    /// instance every 2.5 s, and a machine that resumes after a pause is slow to read the answers.
    static constexpr duration longest_interval = std::chrono::seconds(6);

    /// `longest`: the longest ttl. An older jump concerns no lease.
    standstill(unsigned configured, duration longest)
        : configured_(configured)
        , longest_(std::max<duration>(longest, longest_interval)) {}

    /// Equal jumps at one moment.
    struct equal_jumps {
        instance_set instances{}; ///< empty: no majority has equal jumps
        /// The bounds of the greatest of these jumps. An answer that was under way shows only a
        /// part of its jump.
        duration least{}, most{};
        time_point from{}, to{}; ///< the moment lies within this time
        bool is_new = false;     ///< deadlines have not been moved by all of the jump yet
        duration by{};           ///< if is_new: move the deadlines by this
        bool is_ours = false;    ///< our clock stood still: no server's clock has jumped
    };

    /// The number of instances has changed.
    void configure(unsigned instances) { configured_ = instances; }

    void observed(unsigned instance, clock_reading const& reading) {
        auto& i = seen_[instance];
        auto const goes_on = jumped_.contains(instance) && i.last.jumped();
        i.last = reading;
        known_.insert(instance);
        forget_before(reading.to - longest_);
        if (!reading.jumped()) return;
        // The reading before may have shown a part of this jump, if its answer was under way then.
        auto const before = i.jump;
        i.jump = reading;
        if (goes_on) {
            i.jump.least += before.least;
            i.jump.most += before.most;
            i.jump.from = before.from;
            i.jump.asked = before.asked;
        } else {
            i.moved = duration::zero();
        }
        jumped_.insert(instance);
    }

    /// True if there are jumps that are not explained.
    bool has_unexplained_jumps() const { return !jumped_.empty(); }
    /// The instances to ask for the time now: all that were not asked since the last unexplained
    /// jump. That includes the instance that showed the jump, because it may have shown only a
    /// part.
    instance_set to_ask(instance_set connected) const {
        instance_set all;
        if (jumped_.empty()) return all;
        time_point latest{};
        jumped_.for_each([&](unsigned i) { latest = std::max(latest, seen_[i].jump.to); });
        (connected & known_).for_each([&](unsigned i) {
            if (seen_[i].last.sure_to < latest) all.insert(i);
        });
        return all;
    }

    /// To be called after each reading, and when an instance can be asked no more. Jumps that our
    /// own clock explains are then forgotten.
    equal_jumps evaluate(instance_set connected) {
        auto f = largest();
        if (f.instances.size() < redlock_rules::quorum(configured_, configured_)) return {};
        auto moved = duration::zero();
        f.instances.for_each([&](unsigned i) { moved = std::max(moved, seen_[i].moved); });
        f.is_new = f.least > moved;
        if (f.is_new) {
            f.by = f.most - moved;
            f.instances.for_each([&](unsigned i) { seen_[i].moved = f.most; });
        }
        f.is_ours = f.instances.size() > 1;
        f.instances.for_each([&](unsigned i) { f.is_ours = f.is_ours && is_short(seen_[i].jump); });
        (known_ - f.instances).for_each([&](unsigned i) {
            f.is_ours = f.is_ours && agrees(i, f, connected);
        });
        if (f.is_ours) jumped_ = jumped_ - f.instances;
        return f;
    }

private:
    struct instance_clock {
        clock_reading last, jump;
        duration moved{}; ///< how far deadlines were moved for this jump
    };

    /// The largest set of equal jumps. Amounts and times are intervals. If several intervals have a
    /// point in common, the greatest of their lower bounds is such a point.
    equal_jumps largest() const {
        equal_jumps best;
        jumped_.for_each([&](unsigned a) {
            jumped_.for_each([&](unsigned t) {
                auto const f = jumps_of(seen_[a].jump.least, seen_[t].jump.from);
                if (f.instances.size() > best.instances.size()) best = f;
            });
        });
        return best;
    }

    /// All jumps that may have this amount, and may have been right after `when`.
    equal_jumps jumps_of(duration amount, time_point when) const {
        equal_jumps f{.least = amount, .from = when, .to = time_point::max()};
        jumped_.for_each([&](unsigned i) {
            auto const& j = seen_[i].jump;
            if (amount < j.least || amount > j.most || when < j.from || when >= j.to) return;
            f.instances.insert(i);
            f.most = std::max(f.most, j.most);
            f.to = std::min(f.to, j.to);
        });
        return f;
    }

    /// True if an instance whose jump is not among the equal ones does not rule them out.
    bool agrees(unsigned instance, equal_jumps const& f, instance_set connected) const {
        auto const& reading = seen_[instance].last;
        // Not asked since. If the instance is connected, it is asked now, and its answer decides.
        if (reading.sure_to < f.to) return !connected.contains(instance);
        if (reading.first) return true;
        // Asked since. A slow answer may leave the jump undecided.
        return is_short(reading) && reading.from <= f.from && reading.least <= f.most &&
               f.least <= reading.most;
    }
    static bool is_short(clock_reading const& reading) {
        return reading.to - reading.asked <= longest_interval;
    }

    void forget_before(time_point when) {
        auto old = instance_set();
        jumped_.for_each([&](unsigned i) {
            if (seen_[i].jump.to < when) old.insert(i);
        });
        jumped_ = jumped_ - old;
    }

    unsigned configured_;
    duration longest_;
    std::array<instance_clock, instance_set::capacity> seen_{};
    instance_set known_;  ///< their clocks were read at least once
    instance_set jumped_; ///< by an amount that is not explained yet
};

} // namespace holdfast::protocol

#endif
