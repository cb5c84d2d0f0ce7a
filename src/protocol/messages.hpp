// The commands to an instance and their outcomes, independent of the transport.
#ifndef HOLDFAST_PROTOCOL_MESSAGES_HPP
#define HOLDFAST_PROTOCOL_MESSAGES_HPP

#include <cstddef>
#include <cstdint>

namespace holdfast::protocol {

enum class command : std::uint8_t {
    acquire, ///< create the key for our token unless it exists
    extend,  ///< move the key's expiry if it still holds our token
    release, ///< delete the key if it still holds our token
    heal,    ///< as acquire, on an instance that lost the key of a held lease
    contend, ///< as acquire; if refused: the key's time to live, and a push when the key changes
    raise,   ///< lift the key's counter to our number, if the key still holds our token
    inspect, ///< the key's time to live, type and holder, for a waiter's report
    track,   ///< the key's time to live, and a push when the key changes
    survey,  ///< all that the instance has of the key, for a user's inspection
    revoke,  ///< replace the holder's token by a tombstone, if the key still holds the token
    scan,    ///< some of the keys with a prefix, of one server, for a user's list
};

inline constexpr std::size_t commands = 11;

/// True if the command changes nothing on the server.
constexpr bool only_reads(command c) {
    return c == command::inspect || c == command::track || c == command::survey ||
           c == command::scan;
}

enum class verdict : std::uint8_t {
    yes,     ///< done: created, extended, deleted
    no,      ///< not done: the key belongs to another client, or is gone
    unsent,  ///< never left this process: the instance is unchanged
    unknown, ///< sent, but not answered: it may have been done or not
    refused, ///< the server answered with an error: not done
    other,   ///< of a semaphore: our token has another slot there than the tenure
    rival,   ///< of a raise: another tenure has counted to the number, or above it
};

/// True if a command with this verdict has certainly not set the key.
constexpr bool sets_no_key(verdict v) {
    return v == verdict::no || v == verdict::unsent || v == verdict::refused;
}

} // namespace holdfast::protocol

#endif
