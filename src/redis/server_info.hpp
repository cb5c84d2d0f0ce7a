// Reads INFO, and the errors of servers.
#ifndef HOLDFAST_REDIS_SERVER_INFO_HPP
#define HOLDFAST_REDIS_SERVER_INFO_HPP

#include <holdfast/error.hpp>

#include "redis/lock_kind.hpp"

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
    bool promoted = false;        ///< the server still reports that it was a replica
    /// Commands so far that deleted or exchanged all keys. Zero if the server reports no counts.
    std::uint64_t flushes = 0;
    /// The policy by which the server may delete keys that expire. Empty if it deletes none.
    std::string eviction{};
    bool logs_writes = false; ///< appendonly is on; says nothing about appendfsync
    std::int64_t uptime = 0;  ///< in seconds, by the wall clock

    dialect speaks() const;
};

/// Parses the reply to INFO. Empty if the text is no INFO.
std::optional<server_info> parse_info(std::string_view info);

/// The number of commands that deleted or exchanged all keys of a database, from the reply to INFO
/// commandstats.
std::uint64_t count_flushes(std::string_view info);

/// The code for an error reply.
errc classify(std::string_view server_error);

/// `message` without secrets: the arguments that a server quotes from an unknown command, and any
/// occurrence of `secret`.
std::string presentable(std::string_view message, std::string_view secret);

} // namespace holdfast::redis

#endif
