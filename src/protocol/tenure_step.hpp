// What a tenure has its driver do.
#ifndef HOLDFAST_PROTOCOL_TENURE_STEP_HPP
#define HOLDFAST_PROTOCOL_TENURE_STEP_HPP

#include "protocol/instance_set.hpp"

#include <cstdint>

namespace holdfast::protocol {

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
    inspected,       ///< those that were asked what is in the way have answered, or are late
    renewal_due,     ///< call extend() now
    extended,        ///< the deadline has moved
    extension_failed,    ///< the deadline has not moved; it is tried again while it lasts
    lost,                ///< the lease is no more, and nobody released it
    ended,               ///< the deadline has come, of a lease whose holder was told before
    released,            ///< a quorum deleted the key
    release_unconfirmed, ///< too few instances answered; the key goes when they do, or with its ttl
};

/// What the driver must do now: send these commands (in this order), then tell the owner.
struct step {
    instance_set acquire{}, contend{}, raise{}, extend{}, heal{}, release{}, inspect{};
    event what = event::none;
};

} // namespace holdfast::protocol

#endif
