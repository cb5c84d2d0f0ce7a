// The rounds of a tenure that follow its acquisition: extension, release, inspection. Each round
// replaces the one before, so a tenure has room for one round, the one that was started last.
#ifndef HOLDFAST_PROTOCOL_TENURE_ROUND_HPP
#define HOLDFAST_PROTOCOL_TENURE_ROUND_HPP

#include "protocol/instance_set.hpp"
#include "protocol/messages.hpp"
#include "protocol/tenure/acquisition.hpp"
#include "protocol/tenure/key_presence.hpp"
#include "protocol/tenure/round_trips.hpp"
#include "protocol/tenure/tally.hpp"
#include "protocol/tenure/tenure_number.hpp"
#include "protocol/tenure/tenure_values.hpp"
#include "protocol/time.hpp"

#include <cassert>
#include <cstdint>
#include <utility>
#include <variant>

namespace holdfast::protocol {

/// One round that moves a held key's deadline, and the healing that follows it.
///
///   idle --begin()--> under way --> won: instances without the key may be healed
///    ^                   |    +---> denied: a majority has lost the key, so no later try can win
///    +----- failed ------+
template <class Rules>
class extension {
public:
    enum class state : std::uint8_t {
        idle,
        under_way,
        won,
        denied
    };

    void begin(tally const& votes) {
        assert(state_ != state::under_way);
        votes_ = votes;
        state_ = state::under_way;
    }
    /// Stops waiting for answers.
    void stop() { state_ = state_ == state::won ? state::won : state::idle; }

    /// True if this answer decides the round. The caller then calls decide().
    bool count(unsigned instance, verdict v) {
        if (state_ != state::under_way || !votes_.count(instance, v)) return false;
        return votes_.won() || votes_.impossible();
    }
    state decide() {
        state_ = votes_.won() ? state::won : votes_.denied() ? state::denied : state::idle;
        return state_;
    }

    bool under_way() const { return state_ == state::under_way; }
    /// True if an instance that has lost the key may get it back: see redlock_rules::may_heal().
    bool may_heal() const { return Rules::may_heal(state_ == state::won); }
    tally const& votes() const { return votes_; }

private:
    tally votes_;
    state state_ = state::idle;
};

/// One round of releases, and how it ends.
class release_round {
public:
    /// `in_time`: the lease had not ended at `now`.
    void begin(time_point now, tally const& votes, bool in_time) {
        asked_ = now;
        votes_ = votes;
        in_time_ = in_time;
    }
    bool count(unsigned instance, verdict v) { return votes_.count(instance, v); }

    /// `released`: a majority is known not to have the key any more. `lost`: a majority is known
    /// not to have had the key, or the lease had ended. `release_unconfirmed`: neither can become
    /// known. `none`: the missing answers will decide.
    tenure_effect result(key_presence const& key) const {
        auto const decided = evaluate(key);
        return decided == tenure_effect::none || in_time_ ? decided : tenure_effect::lost;
    }
    /// The result at patience_ends(). A majority is known not to have the key any more, and the
    /// missing answers could only show that the lease had been lost.
    tenure_effect result_without_late() const {
        return in_time_ ? tenure_effect::released : tenure_effect::lost;
    }
    time_point patience_ends(round_trips const& usual, key_presence const& key) const {
        if (key.absent().size() < votes_.quorum()) return time_point::max();
        return late_from(usual, asked_, votes_.pending(), 1);
    }
    tally const& votes() const { return votes_; }

private:
    tenure_effect evaluate(key_presence const& key) const {
        auto const quorum = votes_.quorum();
        if (votes_.won()) return tenure_effect::released;
        auto const unheard = (votes_.failed() | votes_.pending()) & key.possible();
        if (votes_.yes().size() + unheard.size() < quorum) return tenure_effect::lost;
        auto const free = key.absent().size();
        if (votes_.pending().empty()) {
            return free >= quorum ? tenure_effect::released : tenure_effect::release_unconfirmed;
        }
        return free + votes_.pending().size() >= quorum ? tenure_effect::none
                                                        : tenure_effect::release_unconfirmed;
    }

    time_point asked_{};
    tally votes_;
    bool in_time_ = true;
};

/// Asks the instances that refused a key: is the key a lock, and how long does it last?
class inspection {
public:
    void begin(time_point now, instance_set asked, unsigned quorum) {
        asked_ = now;
        pending_ = asked;
        complete_ = !asked.empty();
        waits_for_late_ = asked.size() >= quorum;
    }
    /// False if no answer of this instance is awaited.
    bool count(unsigned instance, verdict v) {
        if (!pending_.contains(instance)) return false;
        pending_.erase(instance);
        if (v == verdict::yes) waits_for_late_ = false;
        if (v == verdict::unsent || v == verdict::unknown) complete_ = false;
        return true;
    }
    /// Stops waiting for the missing answers.
    void give_up() {
        pending_ = {};
        complete_ = false;
    }

    instance_set pending() const { return pending_; }
    /// True if every instance that was asked has answered or still may. False if none was asked.
    bool complete() const { return complete_; }
    /// The time from which the missing answers are late.
    time_point patience_ends(round_trips const& usual) const {
        return waits_for_late_ ? time_point::max() : late_from(usual, asked_, pending_, 1);
    }

private:
    time_point asked_{};
    instance_set pending_;
    bool complete_ = true;
    /// A quorum was asked, and no instance has said that the key is a lock, or is gone. If it is no
    /// lock, a waiter might wait for ever, and not all of a quorum fall silent.
    bool waits_for_late_ = false;
};

/// The round that was started last.
template <class Rules>
class tenure_round {
public:
    explicit tenure_round(unsigned configured)
        : round_(std::in_place_type<acquisition<Rules>>, configured) {}

    /// Valid until the first extension or release.
    acquisition<Rules>& acquiring() { return std::get<acquisition<Rules>>(round_); }
    acquisition<Rules> const& acquiring() const { return std::get<acquisition<Rules>>(round_); }

    void begin_extension(tally const& votes) {
        assert(!extending());
        round_.template emplace<extension<Rules>>().begin(votes);
    }
    /// Null if another round was started last.
    extension<Rules>* extended() { return std::get_if<extension<Rules>>(&round_); }
    bool extending() const {
        auto const* const e = std::get_if<extension<Rules>>(&round_);
        return e != nullptr && e->under_way();
    }
    void stop_extending() {
        if (auto* const e = extended()) e->stop();
    }

    void begin_release(time_point now, tally const& votes, bool in_time) {
        round_.template emplace<release_round>().begin(now, votes, in_time);
    }
    /// Valid after begin_release().
    release_round& releasing() { return std::get<release_round>(round_); }
    release_round const& releasing() const { return std::get<release_round>(round_); }

    /// The votes stay as they were.
    void begin_inspection(time_point now, instance_set asked) {
        auto const last = votes();
        round_.template emplace<inspection_round>(inspection_round{{}, last})
            .asking.begin(now, asked, last.quorum());
    }
    /// Counts an answer. True if it was the last that is awaited.
    bool inspected_last(unsigned instance, verdict v) {
        auto* const i = std::get_if<inspection_round>(&round_);
        return i != nullptr && i->asking.count(instance, v) && i->asking.pending().empty();
    }
    /// False if an instance that was asked has not reported.
    bool inspected_all() const {
        auto const* const i = std::get_if<inspection_round>(&round_);
        return i == nullptr || i->asking.complete();
    }
    void give_up_inspection() {
        if (auto* const i = std::get_if<inspection_round>(&round_)) i->asking.give_up();
    }

    /// The time from which the missing answers are late. The machine does not wait for them any
    /// longer.
    time_point patience_ends(tenure_phase phase, round_trips const* usual, key_presence const& key,
                             tenure_number<Rules> const& number) const {
        auto const* const asking = std::get_if<inspection_round>(&round_);
        if (usual == nullptr) return time_point::max();
        switch (phase) {
        case tenure_phase::acquiring:
            return acquiring().patience_ends(*usual, number);
        case tenure_phase::releasing:
            return releasing().patience_ends(*usual, key);
        case tenure_phase::over:
            return asking ? asking->asking.patience_ends(*usual) : time_point::max();
        case tenure_phase::held:
        case tenure_phase::ending:
            break;
        }
        return time_point::max();
    }

    tally const& votes() const {
        return std::visit([](auto const& r) -> tally const& { return r.votes(); }, round_);
    }

private:
    struct inspection_round {
        tally const& votes() const { return last; }
        inspection asking;
        tally last;
    };

    std::variant<acquisition<Rules>, extension<Rules>, release_round, inspection_round> round_;
};

} // namespace holdfast::protocol

#endif
