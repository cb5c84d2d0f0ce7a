// Decides which server is the primary of a Sentinel deployment, and until when its answers count.
//
//               a majority names P, asked since the link was left
//    searching -------------------------------------------------> named(P, epoch)
//        ^                                                           |       ^
//        |  +switch-master, READONLY, ROLE, -UNBLOCKED,              |       | s + M has passed
//        |  lost connection, suspect, a greater epoch                v       |
//        +----------------------------------------------------- confirmed until s + M
//
// `s` is the time at which the last questions began that a majority answered with (P, epoch). M is
// the confirmation time.
//
// An old primary stays writable without bound: Sentinel notifies it of a fail-over only when it
// can. So its answers count only for M after a majority named it. Any two majorities share a
// sentinel, and a sentinel never goes back to a smaller epoch. So when another client first sees
// the new primary at time t, then s < t for each client that still uses the old one.
//
// The majority is one of all sentinels that are known, reachable or not. A lone sentinel that has
// lost the others names the old primary without end.
#ifndef HOLDFAST_PROTOCOL_SENTINEL_DIRECTORY_HPP
#define HOLDFAST_PROTOCOL_SENTINEL_DIRECTORY_HPP

#include "protocol/instance_set.hpp"
#include "protocol/rules.hpp"
#include "protocol/sentinel/sentinel_members.hpp"
#include "protocol/time.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

namespace holdfast::protocol {

/// The right rules. Tests break them one at a time.
struct sentinel_rules {
    /// A majority of the known sentinels, not of those that answer.
    static constexpr unsigned majority(unsigned known, unsigned /*answering*/) {
        return known / 2 + 1;
    }
    /// How long the answers of a primary count after the questions about it began. Less than M by
    /// the drift of two clocks: another client measures M by its own.
    static constexpr duration confirmation(duration m) { return m - redlock_rules::drift(m); }
    /// True if a majority may name this epoch after one of `last`.
    static constexpr bool may_follow(std::uint64_t epoch, std::uint64_t last) {
        return epoch >= last;
    }
    /// True if an answer may name a primary after its link was left at `left`.
    static constexpr bool asked_since(time_point begun, time_point left) { return begun >= left; }
};

/// A reason for leaving a primary.
enum class leave_reason : std::uint8_t {
    switched,        ///< a sentinel says that another server is the primary
    read_only,       ///< a write was refused with READONLY
    not_primary,     ///< its ROLE is not master
    unblocked,       ///< -UNBLOCKED: it was demoted while a command waited
    connection_lost, ///< it could not be connected to, or the connection has ended
    suspect,         ///< its answers are overdue
};

/// The consequence of an event for the link to the primary. Commands without an answer on a link
/// that is left have an unknown outcome.
enum class directory_action : std::uint8_t {
    none,
    leave, ///< close the link, and ask the sentinels at next_round()
    move,  ///< close the link, if there is one, and connect to named()
};

template <class Rules>
class basic_sentinel_directory {
public:
    /// The answer of a sentinel, for reports.
    struct reported {
        std::optional<named_primary> primary; ///< empty: it knows no primary of that name
        bool answered = false;                ///< within the last M
    };

    static constexpr duration first_pause = std::chrono::milliseconds(100);

    /// `configured`: the number of configured sentinels. `m`: the confirmation time.
    basic_sentinel_directory(unsigned configured, duration m)
        : members_(configured)
        , m_(m) {}

    //
    // Sentinels
    //

    /// The sentinels that are known. The caller notifies it of identities and peers, and answers()
    /// of all else.
    sentinel_members& members() { return members_; }
    sentinel_members const& members() const { return members_; }

    /// The number of sentinels that must agree.
    unsigned majority(time_point now) const {
        auto answering = 0U;
        members_.counted().for_each([&](unsigned i) { answering += is_fresh(i, now) ? 1U : 0U; });
        return Rules::majority(members_.size(), answering);
    }
    reported answer_of(unsigned member, time_point now) const {
        auto const& a = answers_[member];
        return {.primary = a.primary, .answered = is_fresh(member, now)};
    }
    /// True if too many sentinels are known, so that no majority can be counted.
    bool has_too_many() const { return members_.overflows(); }

    //
    // Questions
    //

    /// When to ask all sentinels the next time.
    time_point next_round() const { return next_; }
    /// All sentinels are asked now. The answers are to be handed in with this time.
    void begin_round(time_point now) {
        round_ = now;
        if (confirmed(now)) {
            next_ = now + m_ / 2;
            return;
        }
        next_ = now + pause_;
        pause_ = std::min(pause_ * 2, std::max<duration>(first_pause, m_ / 2));
    }

    /// A sentinel has answered. `member`: its index in members(). `primary`: empty if it knows
    /// none. `begun`: when the round of questions began. An older answer than the last is ignored.
    [[nodiscard]] directory_action answered(unsigned member, std::optional<named_primary> primary,
                                            time_point begun, time_point now) {
        auto& a = answers_[member];
        if (is_of(member) && begun < a.begun) return directory_action::none;
        a = {.primary = primary, .begun = begun, .from = members_.id(member), .known = true};
        auto const action = count(now);
        if (action != directory_action::none) return action;
        // A sentinel that knows of a fail-over is right, however many do not know of it yet. The
        // client leaves once for each epoch: a sentinel that is mistaken must not end every link.
        if (!current_ || !primary || primary->epoch <= std::max(current_->epoch, followed_))
            return directory_action::none;
        followed_ = primary->epoch;
        return leave(leave_reason::switched, now);
    }

    //
    // The primary
    //

    /// A sentinel has announced +switch-master to `server`.
    [[nodiscard]] directory_action switched(std::uint32_t server, time_point now) {
        if (current_ && current_->server == server) return directory_action::none;
        if (current_) return leave(leave_reason::switched, now);
        pause_ = first_pause;
        next_ = std::min(next_, std::max(now, round_ + first_pause));
        return directory_action::none;
    }

    /// The link to the primary is of no use any more. The client connects again only when a
    /// majority has been asked since: a primary that restarts is empty until Sentinel notices.
    [[nodiscard]] directory_action leave(leave_reason reason, time_point now) {
        if (!current_) return directory_action::none;
        // A primary that is named, and left again soon, is asked for at growing intervals.
        if (now - named_at_ >= m_ || reason == leave_reason::switched) pause_ = first_pause;
        if (reason == leave_reason::switched) {
            refused_ = current_;
            refused_until_ = now + m_;
        }
        current_.reset();
        left_ = now;
        reason_ = reason;
        next_ = std::max(now, round_ + pause_);
        return directory_action::leave;
    }

    /// The primary to use. Empty while searching.
    std::optional<named_primary> const& named() const { return current_; }
    /// Until when its answers count, unless it is left before.
    time_point confirmed_until() const {
        return current_ ? asked_ + Rules::confirmation(m_) : time_point{};
    }
    bool confirmed(time_point now) const { return now < confirmed_until(); }
    /// The reason of the last leave, while searching.
    std::optional<leave_reason> left() const {
        return current_ ? std::nullopt : std::optional(reason_);
    }

private:
    struct answer {
        std::optional<named_primary> primary;
        time_point begun{};
        std::uint64_t from = 0; ///< the id of the sentinel
        bool known = false;
    };

    bool is_fresh(unsigned member, time_point now) const {
        return is_of(member) && now < answers_[member].begun + m_;
    }
    /// False if there is no answer, or it came from another sentinel that had this index.
    bool is_of(unsigned member) const {
        return answers_[member].known && answers_[member].from == members_.id(member);
    }

    /// Looks for a primary that a majority names.
    directory_action count(time_point now) {
        if (members_.overflows()) return directory_action::none;
        auto const counted = members_.counted();
        auto const needed = majority(now);
        auto action = directory_action::none;
        counted.for_each([&](unsigned i) {
            if (action != directory_action::none || !is_fresh(i, now)) return;
            if (auto const& p = answers_[i].primary; p && may_name(*p, now))
                action = take(*p, begun_by(*p, needed, now), now);
        });
        return action;
    }
    bool may_name(named_primary const& p, time_point now) const {
        return Rules::may_follow(p.epoch, epoch_) && (now >= refused_until_ || p != refused_);
    }

    /// The latest time since which `needed` sentinels were asked and named this primary.
    std::optional<time_point> begun_by(named_primary const& p, unsigned needed,
                                       time_point now) const {
        std::array<time_point, sentinel_members::capacity> begun{};
        unsigned n = 0;
        members_.counted().for_each([&](unsigned i) {
            auto const& a = answers_[i];
            if (!is_fresh(i, now) || a.primary != p || !Rules::asked_since(a.begun, left_)) return;
            begun[n++] = a.begun;
        });
        if (needed == 0 || n < needed) return std::nullopt;
        std::sort(begun.begin(), begun.begin() + n, std::greater<>());
        return begun[needed - 1];
    }

    directory_action take(named_primary const& p, std::optional<time_point> begun, time_point now) {
        if (!begun) return directory_action::none;
        if (current_ == p) {
            asked_ = std::max(asked_, *begun);
            next_ = std::max(next_, round_ + m_ / 2);
            if (now - named_at_ >= m_) pause_ = first_pause;
            return directory_action::none;
        }
        current_ = p;
        epoch_ = p.epoch;
        named_at_ = now;
        asked_ = *begun;
        next_ = round_ + m_ / 2;
        return directory_action::move;
    }

    sentinel_members members_;
    duration m_;
    std::array<answer, sentinel_members::capacity> answers_{};
    std::optional<named_primary> current_, refused_;
    std::uint64_t epoch_ = 0;    ///< the greatest that a majority has named
    std::uint64_t followed_ = 0; ///< the greatest for which a primary was left
    time_point asked_{}, named_at_{}, left_ = time_point::min(), refused_until_{};
    time_point round_ = time_point::min() + std::chrono::hours(1), next_ = time_point::min();
    duration pause_ = first_pause;
    leave_reason reason_{};
};

using sentinel_directory = basic_sentinel_directory<sentinel_rules>;

} // namespace holdfast::protocol

#endif
