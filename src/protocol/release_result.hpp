// How a round of releases ends.
#ifndef HOLDFAST_PROTOCOL_RELEASE_RESULT_HPP
#define HOLDFAST_PROTOCOL_RELEASE_RESULT_HPP

#include "protocol/key_presence.hpp"
#include "protocol/tally.hpp"
#include "protocol/tenure_step.hpp"

namespace holdfast::protocol {

/// event::released: a majority is known not to have the key any more. event::lost: a majority is
/// known not to have had it. event::release_unconfirmed: neither can become known. event::none: the
/// awaited answers decide.
inline event release_result(tally const& votes, key_presence const& key) {
    auto const quorum = votes.quorum();
    if (votes.won()) return event::released;
    auto const unheard = (votes.failed() | votes.pending()) & key.possible();
    if (votes.yes().size() + unheard.size() < quorum) return event::lost;
    auto const free = key.absent().size();
    if (votes.pending().empty()) {
        return free >= quorum ? event::released : event::release_unconfirmed;
    }
    return free + votes.pending().size() >= quorum ? event::none : event::release_unconfirmed;
}

} // namespace holdfast::protocol

#endif
