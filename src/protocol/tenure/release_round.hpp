// One round of releases, and how it ends.
#ifndef HOLDFAST_PROTOCOL_RELEASE_ROUND_HPP
#define HOLDFAST_PROTOCOL_RELEASE_ROUND_HPP

#include "protocol/messages.hpp"
#include "protocol/tenure/key_presence.hpp"
#include "protocol/tenure/round_trips.hpp"
#include "protocol/tenure/tally.hpp"
#include "protocol/tenure/tenure_action.hpp"
#include "protocol/time.hpp"

namespace holdfast::protocol {

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
        auto const decided = judge(key);
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
    tenure_effect judge(key_presence const& key) const {
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

} // namespace holdfast::protocol

#endif
