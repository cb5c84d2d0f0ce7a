// One round that moves a held key's deadline, and the healing that follows it.
//
//   idle --begin()--> under way --> won: instances without the key may be healed
//    ^                   |    +---> denied: a majority has lost the key, so no later try can win
//    +----- failed ------+
#ifndef HOLDFAST_PROTOCOL_EXTENSION_HPP
#define HOLDFAST_PROTOCOL_EXTENSION_HPP

#include "protocol/instance_set.hpp"
#include "protocol/messages.hpp"
#include "protocol/tenure/tally.hpp"

#include <cassert>
#include <cstdint>

namespace holdfast::protocol {

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

} // namespace holdfast::protocol

#endif
