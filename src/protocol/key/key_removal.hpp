// The result of a release that compares and deletes, without a lease.
#ifndef HOLDFAST_PROTOCOL_KEY_REMOVAL_HPP
#define HOLDFAST_PROTOCOL_KEY_REMOVAL_HPP

#include <cstdint>

namespace holdfast::protocol {

enum class removal : std::uint8_t {
    done,        ///< deleted, and a quorum is known not to have the key with the token any more
    had_gone,    ///< a quorum does not have the key with the token, and no instance deleted it
    unconfirmed, ///< of too few instances it is known
};

/// `deleted`: the instances that had the key with the token. `without`: those that did not have it.
constexpr removal judge_removal(unsigned deleted, unsigned without, unsigned quorum) {
    if (deleted + without < quorum) return removal::unconfirmed;
    return deleted > 0 ? removal::done : removal::had_gone;
}

} // namespace holdfast::protocol

#endif
