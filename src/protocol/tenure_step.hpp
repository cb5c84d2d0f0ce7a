// The outputs of a tenure, for its driver.
#ifndef HOLDFAST_PROTOCOL_TENURE_STEP_HPP
#define HOLDFAST_PROTOCOL_TENURE_STEP_HPP

#include "protocol/instance_set.hpp"

#include <cstdint>

namespace holdfast::protocol {

enum class tenure_phase : std::uint8_t {
    acquiring,
    held,
    /// The holder has been told of its loss, ahead of the deadline. Until then the key is not
    /// free.
    ending,
    releasing,
    over
};

enum class event : std::uint8_t {
    none,
    won,             ///< acquired: valid until deadline()
    contended,       ///< not acquired: a quorum voted, and too many of it said no
    no_quorum,       ///< not acquired: too few instances voted
    expired,         ///< not acquired: validity ran out before a quorum had granted
    cancelled,       ///< not acquired: the caller gave up
    arbiter_won,     ///< the arbiter has granted: call ask_rest() now
    arbiter_refused, ///< not acquired: the arbiter says that the key is held
    arbiter_failed,  ///< not acquired: the arbiter is late, does not answer, or not to the question
    inspected,       ///< the inspected instances have answered, or are late
    renewal_due,     ///< call extend() now
    extended,        ///< the deadline has moved
    extension_failed,    ///< the deadline has not moved; it is tried again while it lasts
    lost,                ///< the lease is no more, and nobody released it
    ended,               ///< the deadline has come after `lost` was told
    released,            ///< a quorum deleted the key
    release_unconfirmed, ///< too few instances answered; the key goes when they do, or with its ttl
};

/// The driver sends these commands (in this order), then tells the owner.
struct step {
    instance_set acquire{}, contend{}, raise{}, extend{}, heal{}, release{}, inspect{};
    event what = event::none;

    bool sets_keys() const { return !(acquire | contend | raise | extend | heal).empty(); }
};

} // namespace holdfast::protocol

#endif
