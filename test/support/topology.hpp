// Common to the groups of servers that belong together: sentinel_group and cluster_group.
#pragma once

#include "support/certificates.hpp"
#include "support/redis_cli.hpp"
#include "support/server.hpp"
#include "support/swept_folder.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::test {

// A user of the servers, for the clients under test. Servers with a login want a password of the
// default user too: the witness comes as that (topology::witness_password).
struct login {
    std::string user;
    std::string password;
    std::vector<std::string> rules = {"~*", "&*", "+@all"}; // of ACL SETUSER
};

// Slots, both ends included.
struct slot_range {
    std::uint16_t first;
    std::uint16_t last;
};

namespace topology {

inline constexpr std::string_view witness_password = "witness-of-the-tests";

// The password of the witness, empty where the servers have no login.
[[nodiscard]] std::string password_for_witness(std::optional<login> const& of_servers);

// Throws cli_error when the answer is an error.
reply checked(redis_cli& cli, command_line const& words);

// A field of a reply that is a flat array of names and values; throws std::runtime_error when it
// is missing.
[[nodiscard]] std::string field_of(reply const& fields, std::string_view name);

// Asks until `happened` says yes. An answer that does not come, or is an error, is a no. Throws
// std::runtime_error with `awaited` and `state()` when `timeout` has passed.
void wait_for(std::string_view awaited, std::function<bool()> const& happened,
              std::function<std::string()> const& state, std::chrono::milliseconds timeout);

// The offset of a replica that is in sync, with a primary at this port if one is given.
[[nodiscard]] std::optional<std::int64_t>
replication_offset(redis_cli& replica, std::optional<std::uint16_t> of_primary = {});

// Returns when the replicas are in sync and take writes of the primary at once. Deletes all data.
void wait_until_streaming(redis_cli& primary, std::vector<redis_cli>& replicas);

// Any byte but letters, digits and -._~ as %XX.
[[nodiscard]] std::string percent_encoded(std::string_view text);

// The user by which this server replicates: each has its own, so that each can be cut off alone.
[[nodiscard]] std::string replication_user(std::size_t server);
// Lines of a configuration: these users, on each server, and the user of the clients.
[[nodiscard]] std::string users(std::size_t servers, std::optional<login> const& of_servers);
// By which it replicates, and how the witness comes.
[[nodiscard]] std::vector<std::string> login_arguments(std::size_t server,
                                                       std::optional<login> const& of_servers);

// "user:password@", or nothing.
[[nodiscard]] std::string url_user(std::optional<login> const& of_servers);

// A line of a configuration: the user of the clients.
[[nodiscard]] std::string user_line(login const& of_servers);

// TLS of servers, by files in a folder of their own.
class tls_setup {
public:
    explicit tls_setup(certificates const& of_servers);

    // Of each server: it listens with TLS on its further port "tls-port", in addition to its port
    // without, and speaks TLS to its peers.
    [[nodiscard]] std::vector<std::string> arguments() const;
    // PEM file of the authority, for clients.
    [[nodiscard]] std::string const& ca_file() const noexcept { return ca_file_; }

private:
    swept_folder folder_;
    std::string ca_file_;
    std::string certificate_file_;
    std::string key_file_;
};

// The port by which clients under test come.
[[nodiscard]] std::uint16_t port_of(server const& member, bool tls);

} // namespace topology

} // namespace holdfast::test
