// The values of a tenure: its phases (see the diagram in tenure.hpp) and its actions.
#ifndef HOLDFAST_PROTOCOL_TENURE_VALUES_HPP
#define HOLDFAST_PROTOCOL_TENURE_VALUES_HPP

#include "protocol/action.hpp"

#include <cstdint>

namespace holdfast::protocol {

enum class tenure_phase : std::uint8_t {
    acquiring,
    held,
    /// The holder has been notified of its loss, ahead of the deadline. The key is not free before
    /// the deadline.
    ending,
    releasing,
    over
};

enum class tenure_effect : std::uint8_t {
    none,
    won,                 ///< acquired: valid until deadline()
    contended,           ///< not acquired: a quorum voted, and too many instances said no
    no_quorum,           ///< not acquired: too few instances voted
    expired,             ///< not acquired: validity ran out before a quorum had granted
    cancelled,           ///< not acquired: the caller gave up
    arbiter_won,         ///< the arbiter has granted: call ask_rest() now
    arbiter_refused,     ///< not acquired: the arbiter says that the key is held
    arbiter_failed,      ///< not acquired: the arbiter is late, not reachable, or had an error
    inspected,           ///< the inspected instances have answered, or are late
    renewal_due,         ///< call extend() now
    extended,            ///< the deadline has moved
    extension_failed,    ///< the deadline has not moved; a watchdog tries again
    lost,                ///< the lease has ended without a release
    ended,               ///< the deadline has come, after the effect `lost`
    released,            ///< a quorum is known not to have the key any more
    release_unconfirmed, ///< too few answered; the key goes with a later release, or its ttl
};

using tenure_action = action<tenure_effect>;

} // namespace holdfast::protocol

#endif
