// Questions to an instance and its answers, independent of their transport.
#ifndef HOLDFAST_PROTOCOL_MESSAGES_HPP
#define HOLDFAST_PROTOCOL_MESSAGES_HPP

#include <cstddef>
#include <cstdint>

namespace holdfast::protocol {

enum class command : std::uint8_t {
    acquire, ///< create the key for our token unless it exists
    extend,  ///< move the key's expiry if it still holds our token
    release, ///< delete the key if it still holds our token
    heal,    ///< as acquire, on an instance that lost the key of a lease that is held
    contend, ///< as acquire, and if that is refused: how long for, and tell us when the key changes
    raise,   ///< let the fence's counter be at least ours, if the key still holds our token
    inspect, ///< the key's time to live, type and holder, for a waiter's report
    watch,   ///< the key's time to live, and tell us when the key changes
};

inline constexpr std::size_t commands = 8;

enum class verdict : std::uint8_t {
    yes,     ///< done: created, extended, deleted
    no,      ///< not done: the key is another client's, or is gone
    unsent,  ///< never left this process: the instance is as it was
    unknown, ///< sent, and no answer: it may or may not have been done
    refused, ///< the server answered with an error: not done
};

/// After this answer to a command that sets a key, the command has not set it.
constexpr bool sets_no_key(verdict v) {
    return v == verdict::no || v == verdict::unsent || v == verdict::refused;
}

} // namespace holdfast::protocol

#endif
