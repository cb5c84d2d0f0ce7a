// Reads INFO, and the errors of servers.
#ifndef HOLDFAST_REDIS_SERVER_INFO_HPP
#define HOLDFAST_REDIS_SERVER_INFO_HPP

#include <holdfast/error.hpp>

#include "protocol/server/replica_guard.hpp"
#include "redis/wire/lock_kind.hpp"
#include "redis/wire/secret_list.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::redis {

struct server_info {
    std::string product; ///< "redis" or "valkey"
    std::string version;
    std::string run_id; ///< new with every start of the server; empty: the server does not report
    bool replica = false;
    std::string replication_id{}; ///< a new one after each time as a replica
    bool promoted = false;        ///< the server still reports that it was a replica
    /// Commands so far that deleted or exchanged all keys. Zero if the server reports no counts.
    std::uint64_t flushes = 0;
    /// The policy by which the server may delete keys that expire. Empty if it deletes none.
    std::string eviction{};
    bool logs_writes = false; ///< appendonly is on; says nothing about appendfsync
    /// In seconds, by the wall clock. Empty if the server does not report a whole number.
    std::optional<std::int64_t> uptime{};
    /// The keys of which the server notifies clients when they change.
    std::int64_t tracked_keys = 0;
    bool is_dragonfly = false;
    /// Empty if the server does not list its replicas.
    std::optional<protocol::replica_list> replicas{};

    dialect speaks() const;
};

/// Text of a server for people: `text` itself if it is a short name or a version.
std::string_view name_or_number(std::string_view text);

/// Parses the reply to INFO. Empty if the text is no INFO. A proxy may leave fields out.
std::optional<server_info> parse_info(std::string_view info);

/// The number of commands that deleted or exchanged all keys of a database, from the reply to INFO
/// commandstats.
std::uint64_t count_flushes(std::string_view info);

/// The code for an error reply.
errc classify(std::string_view server_error);
/// Whether neither the server nor a proxy before it knows the command.
bool is_unknown_command(std::string_view server_error);
/// Whether the server or a proxy says that the command is disabled, or not allowed.
bool is_switched_off(std::string_view server_error);
/// Whether the command gets this answer until a person changes the settings of the server: it is
/// unknown, switched off, or forbidden by the ACL.
bool is_unavailable(std::string_view server_error);
/// Whether the same command may get another answer soon, without any change by a person.
bool is_passing(std::string_view server_error);

/// The answer to HELLO or AUTH, for messages. A server may quote a part of the password, or escape
/// it. So only a known text is shown, or else the code of the error.
std::string_view shown_refusal(std::string_view server_error);
/// The text before the arguments that a server quotes from an unknown command.
std::string_view without_arguments(std::string_view server_error);

/// The text on one line, in UTF-8, and without characters that act on a terminal or on the order of
/// other text.
std::string harmless(std::string text);
/// The length at which the text of a server is cut.
inline constexpr std::size_t longest_text = 1024;

/// `message`, harmless(), at most about as long as `most`, and without secrets: without
/// the arguments that a server quotes from an unknown command, and with the secrets masked.
std::string presentable(std::string_view message, secret_list const&,
                        std::size_t most = longest_text);
std::string presentable(std::string_view message, std::string_view secret);

} // namespace holdfast::redis

#endif
