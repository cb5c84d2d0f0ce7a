// Whether an instance can be counted on: the answers that it owes, for how long it has been
// silent, and the consequences.
//
//                 probed                    answered
//    connecting ----------> up <---------------------------- suspect
//        |                  |  overdue, and still so when        |
//        |                  |  the input was read               | overdue for 4 limits
//        | lost             +----------------------------------->|
//        |                  | lost                               | lost, or given up
//        +----------------> down <-------------------------------+
//
//    down --> up when a later connection is probed. A connection that does not answer its probe is
//    given up.
//
// A quarantine is no state of this machine: it says whether grants count, and an instance in
// quarantine answers.
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
    /// Before an answer is called overdue, the input that has come meanwhile is read.
    static constexpr bool checks_twice() { return true; }
    /// Replies to a batch show that it is worked on.
    static constexpr bool counts_progress() { return true; }
    /// Batches are bounded, so one that takes twice as long as silence is allowed to last is not
    /// slow but trickles.
    static constexpr duration slow_limit(duration limit) { return 2 * limit; }
};

template <class Rules>
class basic_liveness {
public:
    enum class state : std::uint8_t {
        connecting, ///< the first connection is being made: commands wait for it
        up,
        suspect, ///< connected, but an answer is overdue: it is done without
        down,
    };
    enum class action : std::uint8_t {
        none,
        ask,          ///< nothing was sent for a while: ask for something, to see that it lives
        fail_waiting, ///< commands have waited long enough for the first connection
        suspect,      ///< it has become suspect: rounds go on without its answers
        give_up,      ///< its connection is to be closed
    };

    /// `limit`: how long an instance may take to answer.
    explicit basic_liveness(duration limit)
        : limit_(limit) {}

    state current() const { return state_; }
    /// Whether it can be asked.
    bool available() const { return state_ == state::up || state_ == state::connecting; }
    bool is_probed() const { return probed_; }
    /// How long the connection has been up: zero unless it was probed.
    duration up_for(time_point now) const { return probed_ ? now - up_since_ : duration::zero(); }

    // The connection

    /// A probe was sent.
    void probing(time_point now) {
        waits_ = true;
        since_ = front_since_ = now;
    }
    /// It was answered as by a server that can vote.
    void probed(time_point now) {
        probed_ = true;
        up_since_ = now;
        quiet_ = false; // nothing was sent since the last check, but on another connection
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
    /// A reply has come. True: a suspect has come back.
    bool answered(time_point now) {
        progress_ = Rules::counts_progress();
        if (state_ != state::suspect || now - front_since_ >= Rules::slow_limit(limit_))
            return false;
        state_ = state::up;
        since_ = now;
        return true;
    }
    /// The first batch has been answered; `more`: another is under way. True: a suspect has come
    /// back.
    bool finished(time_point now, bool more) {
        waits_ = more;
        since_ = front_since_ = now;
        progress_ = second_check_ = false; // the answer that seemed overdue has come
        return std::exchange(state_, state_ == state::suspect ? state::up : state_) ==
               state::suspect;
    }
    /// Commands wait for the first connection, since then.
    void queued(time_point now) {
        if (!std::exchange(queued_, true)) queued_since_ = now;
    }
    void none_queued() { queued_ = false; }

    // The watch

    /// When to check.
    time_point next_check() const { return next_check_; }

    /// To be called at next_check() or later.
    action check(time_point now) {
        auto const late = now - next_check_;
        next_check_ = now + check_interval;
        if (state_ == state::connecting && queued_) {
            if (now - queued_since_ >= limit_) {
                queued_ = false;
                if (waits_) check_at(second_check_ ? second_check_at_ : since_ + limit_);
                return action::fail_waiting;
            }
            check_at(queued_since_ + limit_);
        }
        if (!waits_) return check_idle();
        // We were stopped, or busy: no time in which it trickled.
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
        // A suspect that stays one is checked again when it is to be given up.
        return std::exchange(state_, state::suspect) == state::up ? action::suspect : action::none;
    }

    /// Whether the next check has to come earlier than it was to, because of commands under way.
    bool needs_earlier_check() {
        auto const before = next_check_;
        // A suspect is overdue already: its next check is on its way to being given up.
        if (waits_ && !second_check_ && state_ != state::suspect) {
            check_at(std::min(since_ + limit_, front_since_ + Rules::slow_limit(limit_)));
        }
        if (queued_ && state_ == state::connecting) check_at(queued_since_ + limit_);
        return next_check_ != before;
    }
    /// Checks at `when` at the latest.
    void check_by(time_point when) {
        if (!second_check_) check_at(when);
    }
    void start(time_point now) { next_check_ = now + std::min(limit_, check_interval); }

private:
    // A suspect gets this many limits to come back before its connection is given up.
    static constexpr int limits_until_given_up = 4;
    // A check that finds nothing sent since the last one asks for something.
    static constexpr duration check_interval = std::chrono::milliseconds(1'250);
    // Before an answer is called overdue, the input that has come meanwhile is read.
    static constexpr duration reading_time = std::chrono::milliseconds(1);

    void check_at(time_point when) { next_check_ = std::min(next_check_, when); }

    action check_idle() {
        second_check_ = false;
        return probed_ && std::exchange(quiet_, true) ? action::ask : action::none;
    }

    /// For how long it has been silent, or has trickled beyond the first limit.
    duration overdue(time_point now) const {
        return std::max(now - since_, now - front_since_ - (Rules::slow_limit(limit_) - limit_));
    }

    /// For how long an answer that seems overdue is awaited after all. A check that comes late
    /// comes from a process that was stopped, or a thread that was busy: then the question itself
    /// may have left only now.
    duration grace(duration late) const {
        if (late <= reading_time) return reading_time;
        return std::clamp<duration>(late, limit_ / 8 + reading_time, limit_ + reading_time);
    }

    duration limit_;
    state state_ = state::connecting;
    bool probed_ = false;
    bool waits_ = false;        ///< an answer is to come
    bool progress_ = false;     ///< replies came since the last check
    bool quiet_ = false;        ///< nothing was sent since the last check
    bool second_check_ = false; ///< something may be overdue
    bool queued_ = false;
    time_point since_{};       ///< the silence
    time_point front_since_{}; ///< the first batch is the first
    time_point queued_since_{}, up_since_{}, next_check_{}, second_check_at_{};
};

using liveness = basic_liveness<liveness_rules>;

} // namespace holdfast::protocol

#endif
