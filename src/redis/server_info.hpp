// Reads what a server says of itself, and what its errors mean.
#ifndef HOLDFAST_REDIS_SERVER_INFO_HPP
#define HOLDFAST_REDIS_SERVER_INFO_HPP

#include <holdfast/error.hpp>

#include "redis/lock_command.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::redis {

struct server_info {
    std::string product; ///< "redis" or "valkey"
    std::string version;
    std::string run_id; ///< new with every start of the server
    bool replica = false;
    std::string replication_id{}; ///< a new one after each time as a replica
    bool promoted = false;        ///< it has not forgotten yet that it was a replica
    std::uint64_t flushes =
        0; ///< commands so far that deleted or exchanged all keys; zero if it tells no counts
    std::string
        eviction{}; ///< the policy by which it may delete keys that expire; empty: it deletes none
    bool logs_writes =
        false; ///< appendonly is on; whether each is on disk before it is answered is not told
    std::int64_t uptime = 0; ///< in seconds, by the wall clock

    dialect speaks() const;
};

/// From the reply to INFO; nothing if that is not one.
std::optional<server_info> parse_info(std::string_view info);

/// How often commands deleted or exchanged all keys of a database, from the reply to INFO
/// commandstats.
std::uint64_t count_flushes(std::string_view info);

/// The code for an error that a server answered with.
errc classify(std::string_view server_error);

/// `message` without what must not be shown: the arguments that a server quotes from a command it
/// does not know, and any occurrence of `secret`.
std::string presentable(std::string_view message, std::string_view secret);

} // namespace holdfast::redis

#endif
