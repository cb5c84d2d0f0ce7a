// The liveness of an instance: how long its answers are overdue, and the consequences.
//
//                 probed                    answered
//    connecting ----------> up <---------------------------- suspect
//        |                  |  overdue, and still so when        |
//        |                  |  the input was read               | overdue for 4 limits
//        | lost             +----------------------------------->|
//        |                  | lost                               | lost, or given up
//        +----------------> down <-------------------------------+
//
//    down --> up when a later connection has answered its probe. The client gives up a connection
//    that does not answer its probe.
//
// Quarantine is no state of this machine. An instance in quarantine answers, but its grants do not
// count.
#ifndef HOLDFAST_PROTOCOL_LIVENESS_HPP
#define HOLDFAST_PROTOCOL_LIVENESS_HPP

#include "protocol/time.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

namespace holdfast::protocol {

/// The right rules. Tests break them one at a time.
struct liveness_rules {
    /// Before an answer counts as overdue, the client reads the input that has arrived.
    static constexpr bool checks_twice() { return true; }
    /// Replies to a batch show that the instance works on the batch.
    static constexpr bool counts_progress() { return true; }
    /// Batches are bounded. So if a batch takes twice as long as an instance may be silent, the
    /// instance is not just slow: its replies only trickle.
    static constexpr duration slow_limit(duration limit) { return 2 * limit; }
};

template <class Rules>
class basic_liveness {
public:
    enum class state : std::uint8_t {
        connecting, ///< the first connection is being made: commands wait for it
        up,
        suspect, ///< connected, but an answer is overdue: rounds go on without it
        down,
    };
    enum class action : std::uint8_t {
        none,
        ask,         ///< nothing was sent for a while: send a command, to see that it answers
        fail_unsent, ///< commands have waited long enough for the first connection
        suspect,     ///< the instance has become suspect: rounds go on without it
        give_up,     ///< close the connection
    };

    /// `limit`: how long an instance may take to answer.
    explicit basic_liveness(duration limit)
        : limit_(limit) {}

    state current() const { return state_; }
    /// True if the instance takes commands.
    bool available() const { return state_ == state::up || state_ == state::connecting; }
    bool is_probed() const { return probed_; }
    /// How long the connection has been up. Zero until its probe is answered.
    duration up_for(time_point now) const { return probed_ ? now - up_since_ : duration::zero(); }

    // The connection

    /// A probe was sent.
    void probing(time_point now) {
        waits_ = true;
        since_ = front_since_ = now;
    }
    /// The probe was answered, and the server can vote.
    void probed(time_point now) {
        probed_ = true;
        up_since_ = now;
        quiet_ = false; // quiet_ was about the connection before
        state_ = state::up;
    }
    /// The connection has ended, or could not be made.
    void lost() {
        state_ = state::down;
        probed_ = waits_ = progress_ = second_check_ = false;
    }

    // Commands under way

    /// A batch was sent.
    void sent(time_point now) {
        quiet_ = false;
        if (std::exchange(waits_, true)) return;
        since_ = front_since_ = now;
        progress_ = false;
    }
    /// A reply has come. True if a suspect instance is up again.
    bool answered(time_point now) {
        progress_ = Rules::counts_progress();
        if (state_ != state::suspect || now - front_since_ >= Rules::slow_limit(limit_))
            return false;
        state_ = state::up;
        since_ = now;
        return true;
    }
    /// The first batch has been answered. `more`: another batch is under way. True if a suspect
    /// instance is up again.
    bool finished(time_point now, bool more) {
        waits_ = more;
        since_ = front_since_ = now;
        progress_ = second_check_ = false; // the answer that seemed overdue has come
        return std::exchange(state_, state_ == state::suspect ? state::up : state_) ==
               state::suspect;
    }
    /// Commands wait for the first connection.
    void unsent(time_point now) {
        if (!std::exchange(unsent_, true)) unsent_since_ = now;
    }
    void none_unsent() { unsent_ = false; }

    // The checks

    /// When to call check().
    time_point next_check() const { return next_check_; }

    /// To be called at next_check() or later.
    action check(time_point now) {
        auto const late = now - next_check_;
        next_check_ = now + check_interval;
        if (state_ == state::connecting && unsent_) {
            if (now - unsent_since_ >= limit_) {
                unsent_ = false;
                if (waits_) check_at(second_check_ ? second_check_at_ : since_ + limit_);
                return action::fail_unsent;
            }
            check_at(unsent_since_ + limit_);
        }
        if (!waits_) return check_idle();
        // The check runs late, because this process was stopped or busy. The slow limit does not
        // count that time.
        if (late >= limit_) front_since_ += std::min(late, now - front_since_);
        if (second_check_ && now < second_check_at_) {
            check_at(second_check_at_);
            return action::none;
        }
        if (std::exchange(progress_, false)) since_ = std::max(since_, now);
        auto const missing = overdue(now);
        if (missing < limit_) {
            second_check_ = false;
            check_at(now + limit_ - missing);
            return action::none;
        }
        if (Rules::checks_twice() && !std::exchange(second_check_, true)) {
            second_check_at_ = now + grace(late);
            check_at(second_check_at_);
            return action::none;
        }
        second_check_ = false;
        if (!probed_ || missing >= limit_ * limits_until_given_up) return action::give_up;
        check_at(now + limit_ * limits_until_given_up - missing);
        // An instance that stays suspect is checked again when its connection is to be given up.
        return std::exchange(state_, state::suspect) == state::up ? action::suspect : action::none;
    }

    /// Makes the next check earlier if commands under way need it. True if the time has changed.
    bool needs_earlier_check() {
        auto const before = next_check_;
        // A suspect instance is overdue already. check() has set the time at which to give it up.
        if (waits_ && !second_check_ && state_ != state::suspect) {
            check_at(std::min(since_ + limit_, front_since_ + Rules::slow_limit(limit_)));
        }
        if (unsent_ && state_ == state::connecting) check_at(unsent_since_ + limit_);
        return next_check_ != before;
    }
    /// Checks at `when` at the latest.
    void check_by(time_point when) {
        if (!second_check_) check_at(when);
    }
    void start(time_point now) { next_check_ = now + std::min(limit_, check_interval); }

private:
    // The connection is given up when an answer has been missing for this many limits.
    static constexpr int limits_until_given_up = 4;
    // If a check finds that nothing was sent since the last one, the client sends a command.
    static constexpr duration check_interval = std::chrono::milliseconds(1'250);
    // The time in which the client reads the input that has arrived, before an answer counts as
    // overdue.
    static constexpr duration reading_time = std::chrono::milliseconds(1);

    void check_at(time_point when) { next_check_ = std::min(next_check_, when); }

    action check_idle() {
        second_check_ = false;
        return probed_ && std::exchange(quiet_, true) ? action::ask : action::none;
    }

    /// How long the instance has been silent. If its replies trickle: how long the first batch has
    /// taken, less the extra time for a slow batch.
    duration overdue(time_point now) const {
        return std::max(now - since_, now - front_since_ - (Rules::slow_limit(limit_) - limit_));
    }

    /// The time between the first check and the second. If the first check ran late, the process
    /// was stopped or its thread was busy, and the command may have left only now. Then the second
    /// check comes later too.
    duration grace(duration late) const {
        if (late <= reading_time) return reading_time;
        return std::clamp<duration>(late, limit_ / 8 + reading_time, limit_ + reading_time);
    }

    duration limit_;
    state state_ = state::connecting;
    bool probed_ = false;
    bool waits_ = false;        ///< an answer is awaited
    bool progress_ = false;     ///< replies came since the last check
    bool quiet_ = false;        ///< nothing was sent since the last check
    bool second_check_ = false; ///< an answer may be overdue
    bool unsent_ = false;
    time_point since_{};       ///< the beginning of the silence
    time_point front_since_{}; ///< when the first batch became the first
    time_point unsent_since_{}, up_since_{}, next_check_{}, second_check_at_{};
};

using liveness = basic_liveness<liveness_rules>;

} // namespace holdfast::protocol

#endif
