// One round of releases, and how it ends.
#ifndef HOLDFAST_PROTOCOL_RELEASE_ROUND_HPP
#define HOLDFAST_PROTOCOL_RELEASE_ROUND_HPP

#include "protocol/key_presence.hpp"
#include "protocol/messages.hpp"
#include "protocol/round_trips.hpp"
#include "protocol/tally.hpp"
#include "protocol/tenure_step.hpp"
#include "protocol/time.hpp"

namespace holdfast::protocol {

class release_round {
public:
    /// `in_time`: the lease has lasted until now.
    void begin(time_point now, tally const& votes, bool in_time) {
        asked_ = now;
        votes_ = votes;
        in_time_ = in_time;
    }
    bool count(unsigned instance, verdict v) { return votes_.count(instance, v); }

    /// event::released: a majority is known not to have the key any more. event::lost: a majority
    /// is known not to have had it, or the lease had ended. event::release_unconfirmed: neither can
    /// become known. event::none: the awaited answers decide.
    event result(key_presence const& key) const {
        auto const decided = judge(key);
        return decided == event::none || in_time_ ? decided : event::lost;
    }
    /// A majority is known not to have the key any more. The other answers may still say that it
    /// was lost, and are awaited until patience_ends().
    event result_without_late() const { return in_time_ ? event::released : event::lost; }
    time_point patience_ends(round_trips const& usual, key_presence const& key) const {
        if (key.absent().size() < votes_.quorum()) return time_point::max();
        return late_from(usual, asked_, votes_.pending(), 1);
    }
    tally const& votes() const { return votes_; }

private:
    event judge(key_presence const& key) const {
        auto const quorum = votes_.quorum();
        if (votes_.won()) return event::released;
        auto const unheard = (votes_.failed() | votes_.pending()) & key.possible();
        if (votes_.yes().size() + unheard.size() < quorum) return event::lost;
        auto const free = key.absent().size();
        if (votes_.pending().empty()) {
            return free >= quorum ? event::released : event::release_unconfirmed;
        }
        return free + votes_.pending().size() >= quorum ? event::none : event::release_unconfirmed;
    }

    tally votes_;
    time_point asked_{};
    bool in_time_ = true;
};

} // namespace holdfast::protocol

#endif
