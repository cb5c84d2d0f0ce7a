// When a queue tries again: the pause before its next try, and the rechecks at all instances.
#ifndef HOLDFAST_PROTOCOL_RETRY_PACE_HPP
#define HOLDFAST_PROTOCOL_RETRY_PACE_HPP

#include "protocol/backoff.hpp"
#include "protocol/time.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace holdfast::protocol {

/// The pause before the next try. It depends on the results of the last tries, and on how long
/// instances take to answer.
template <class Rules>
class retry_pace {
public:
    /// A try was answered after this time.
    void answered_after(duration d) {
        round_trip_ = round_trip_ == duration::zero() ? d : (3 * round_trip_ + d) / 4;
        outage_ended();
    }
    /// When the answer to a try was given at the latest, as far as is usual. If this process stood
    /// still, the answer is older than `now`.
    time_point latest_answer(time_point asked, time_point now) const {
        return round_trip_ == duration::zero() ? now : std::min(now, asked + 4 * round_trip_);
    }
    /// A try has found enough instances.
    void outage_ended() { outages_ = 0; }
    /// An instance has pushed, and so caused the next try.
    void pushed() { pushed_ = true; }
    void won() {
        missed_ = failures_ = 0;
        pushed_ = vanished_ = false;
    }
    /// The arbiter has refused. True if the try followed a push: another client then took the turn.
    bool refused() {
        if (!std::exchange(pushed_, false)) return false;
        ++missed_;
        return true;
    }
    /// The key vanished between the SET and the PTTL of one try. True if this also happened at the
    /// refusal before.
    bool vanished() { return std::exchange(vanished_, true); }
    void not_vanished() { vanished_ = false; }

    void failed() { ++failures_; }
    /// A push will come, so earlier failures cause no pause.
    void forget_failures() { failures_ = 0; }
    bool has_failed() const { return failures_ > 0; }

    /// The pause between a wake-up and the try that follows it.
    duration after_wake_up(std::uint64_t random) const {
        return Rules::wake_delay(round_trip_, missed_, random);
    }
    /// A push leads to no try before this time. `last`: when the last try began.
    time_point earliest(time_point last) const { return last + Rules::between_tries(missed_); }
    /// The pause after a failed try. It grows with each failure in a row.
    duration backoff(duration longest, std::uint64_t random) {
        return full_jitter(Rules::first_backoff, longest, std::min(failures_++, 16U), random);
    }
    /// The pause after a try that found too few instances. Doubles with each in a row.
    duration outage_pause(std::uint64_t random) {
        auto const longest = Rules::first_outage_pause * (1U << std::min(outages_++, 16U));
        auto const pause = std::min<duration>(longest, Rules::longest_outage_pause);
        return pause - full_jitter(pause / 4, pause / 4, 0, random);
    }
    unsigned outages() const { return outages_; }
    duration round_trip() const { return round_trip_; }
    duration stand_back() const { return Rules::stand_back(round_trip_); }

private:
    duration round_trip_{};
    unsigned failures_ = 0; ///< in a row
    unsigned outages_ = 0;  ///< tries in a row that found too few instances
    unsigned missed_ = 0;   ///< turns of other processes since our last turn
    bool pushed_ = false;   ///< since the last try
    bool vanished_ = false; ///< at the last refusal the key was already gone
};

/// When a queue that waits at the arbiter asks all instances again. A holder that could not reach
/// the arbiter has left its key there, although a majority may be free.
template <class Rules>
class recheck_schedule {
public:
    /// The queue begins to wait at the arbiter.
    void begin(time_point now) {
        if (next_ != time_point::max()) return;
        pause_ = Rules::first_recheck;
        next_ = now + pause_;
    }
    void at_once(time_point now) { next_ = now; }
    /// A writer waits at the arbiter, and has left its note there. The others get it soon, unless
    /// the key changes before, and then again and again, so that it stays.
    void keep_note(time_point now, duration ttl, duration round_trip) {
        auto const soon = noted_ ? Rules::renews_note(ttl) : Rules::spreads_note(round_trip);
        note_ = std::min(note_, now + soon);
    }
    /// The key has changed: a note may have been left for readers that came since. Or no note is
    /// to be kept any more.
    void forget_note() {
        note_ = time_point::max();
        noted_ = false;
    }
    /// True if all instances are to be asked for the sake of the note. They have it then.
    bool take_note(time_point now) {
        if (now < note_) return false;
        note_ = time_point::max();
        return noted_ = true;
    }
    time_point note() const { return note_; }
    /// The arbiter will not push. Each polls_between_rechecks-th of these tries leads to a recheck.
    void polled(time_point now) {
        if (++polls_ % Rules::polls_between_rechecks == 0) at_once(now);
    }
    void stop() {
        next_ = time_point::max();
        polls_ = 0;
        forget_note();
    }

    /// True if a recheck is due. The time of the next one is then set.
    bool take(time_point now) {
        if (now < next_) return false;
        pause_ = std::min<duration>(2 * pause_, Rules::longest_between_rechecks);
        next_ = now + pause_;
        return true;
    }
    time_point next() const { return next_; }

private:
    time_point next_ = time_point::max(), note_ = time_point::max();
    duration pause_{};
    unsigned polls_ = 0; ///< tries at an instance that does not push
    bool noted_ = false; ///< everywhere, since the key has changed last
};

} // namespace holdfast::protocol

#endif
