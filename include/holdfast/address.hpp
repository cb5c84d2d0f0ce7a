#ifndef HOLDFAST_ADDRESS_HPP
#define HOLDFAST_ADDRESS_HPP

#include <holdfast/credentials.hpp>
#include <holdfast/detail/api.hpp>
#include <holdfast/tls_options.hpp>

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

/// The servers behind an instance.
enum class deployment : std::uint8_t {
    server,   ///< one server
    sentinel, ///< the primary that Redis Sentinel names
    cluster,  ///< the primaries of a Redis Cluster
};

/// A TCP endpoint.
struct host_port {
    /// A name of letters, digits, hyphens, dots and underscores, or an address of IPv4 or IPv6.
    /// IPv6 has no brackets here, and may have a zone: `fe80::1%eth0`.
    std::string host{};
    /// 1 to 65535. 0: the default, which is 26379 for a sentinel and 6379 for any other server.
    std::uint16_t port = 0;

    /// Compares the text of the hosts, and the ports.
    friend bool operator==(host_port const&, host_port const&) = default;
};

/// The parts of an address, for programs that do not write passwords into a URL. An `address` is
/// made of it, and checks it.
///
/// @par g++ 12  Give it a name before a `co_await` expression uses it: doc/compilers.md.
struct address_parts {
    /// The kind of servers; it decides which of the other parts there may be.
    holdfast::deployment deployment = holdfast::deployment::server;
    /// A server: one. Sentinel: some of the sentinels. Cluster: some of the nodes. The client
    /// learns the others. Each once; empty with a socket_path.
    std::vector<host_port> hosts{};
    /// The Unix domain socket of a server, an absolute path. At most 107 bytes on Linux.
    std::string socket_path{};
    /// The number of the logical database. 0 in a cluster.
    unsigned database = 0;
    /// The name that the sentinels give to the primary. For a sentinel, and needed there.
    std::string primary_name{};
    /// The user of the servers, and the password. A user needs a password.
    holdfast::credentials credentials{};
    /// Provides credentials that change. Excludes `credentials`.
    holdfast::credentials_source credentials_source{};
    /// The user of the sentinels, and the password. For a sentinel. A user needs a password.
    holdfast::credentials sentinel_credentials{};
    /// Whether the connections use TLS, those to sentinels too. Not with a socket_path.
    bool tls = false;
    /// Needs `tls`.
    holdfast::tls_options tls_options{};
};

/// The address of an instance, and the user and database there.
///
/// | text | instance |
/// |---|---|
/// | `host`, `host:port`, `[v6]:port` | a server |
/// | `redis://[user:password@]host[:port][/database][?options]` | a server |
/// | `unix:/path`, `unix://[user:password@]/path[?options]` | a server, by its Unix socket |
/// | `redis+sentinel://[user:password@]hosts/primary-name[/database][?options]` | by Sentinel |
/// | `redis+cluster://[user:password@]hosts[?options]` | a Cluster |
///
/// `rediss` instead of `redis` uses TLS. `hosts` are `host[:port]`, with commas between them.
/// Options are `name=value`, with `&` between them: `db`; with TLS `ca`, `capath`, `cert`, `key`,
/// `sni`, `verify_name` and `tls_min`; with Sentinel `sentinel_user` and `sentinel_password`.
/// Characters that are special in a URL are %-encoded. doc/addresses.md has the details.
///
/// @par Thread safety  Distinct objects: safe.
class HOLDFAST_API address {
public:
    /// Parses `text`.
    /// @throws system_error  errc::invalid_address; what() has the position of the fault, from 1,
    ///     and the reason. It shows the text with user, password and options masked.
    address(std::string_view text);
    /// Parses `text`, which is not null; throws as address(std::string_view).
    address(char const* text)
        : address(std::string_view(text)) {}
    /// Parses `text`; throws as address(std::string_view).
    address(std::string const& text)
        : address(std::string_view(text)) {}
    /// Takes `parts`.
    /// @throws system_error  errc::invalid_address; what() names the part at fault, and the reason.
    ///     It shows no user and no password.
    address(address_parts parts);

    /// As given, with default ports filled in. Names of hosts are in lower case, addresses of IPv6
    /// in their canonical form.
    address_parts const& parts() const noexcept { return parts_; }

    /// The kind of servers behind the instance.
    holdfast::deployment deployment() const noexcept { return parts_.deployment; }
    /// Empty if the instance listens on a Unix domain socket.
    std::vector<host_port> const& hosts() const noexcept { return parts_.hosts; }
    /// The first host; empty with a socket.
    std::string const& host() const noexcept;
    /// The port of the first host; 0 with a socket.
    std::uint16_t port() const noexcept;
    /// Empty unless the instance listens on a Unix domain socket.
    std::string const& socket_path() const noexcept { return parts_.socket_path; }
    /// The number of the logical database, 0 by default.
    unsigned database() const noexcept { return parts_.database; }
    /// Empty unless the address is that of a sentinel.
    std::string const& primary_name() const noexcept { return parts_.primary_name; }
    /// User and password of the servers. Empty where the address has none.
    holdfast::credentials const& credentials() const noexcept { return parts_.credentials; }
    /// As credentials().user.
    std::string const& user() const noexcept { return parts_.credentials.user; }
    /// As credentials().password.
    std::string const& password() const noexcept { return parts_.credentials.password; }
    /// Empty unless the program gave one.
    holdfast::credentials_source const& credentials_source() const noexcept {
        return parts_.credentials_source;
    }
    /// User and password of the sentinels. Empty where the address has none.
    holdfast::credentials const& sentinel_credentials() const noexcept {
        return parts_.sentinel_credentials;
    }
    /// Whether the connections use TLS.
    bool tls() const noexcept { return parts_.tls; }
    /// The options of TLS; the defaults without TLS.
    holdfast::tls_options const& tls_options() const noexcept { return parts_.tls_options; }

    /// `host:port` or `unix:/path` for a server without TLS. Otherwise scheme, hosts, name of the
    /// primary and database: `redis+sentinel://host:port,host:port/name/3`. Safe in a log: it holds
    /// no user, no password and no option. An `address` parses it again.
    std::string to_string() const;

    /// Whether both seem to lead to the same server, with any user, any database, and with or
    /// without TLS:
    /// - two servers, two Clusters, or a server and a Cluster, that have a host and its port, or a
    ///   socket, in common;
    /// - two primaries of one name that have a sentinel in common.
    bool same_server(address const& other) const noexcept;

private:
    address_parts parts_;
};

/// As address::to_string().
HOLDFAST_API std::ostream& operator<<(std::ostream&, address const&);

/// Parses a list of addresses, as an environment variable or a file has it. Blanks and ends of
/// lines separate the addresses. So does a comma between addresses without a scheme, and before a
/// scheme: `a:6379,b:6379` and `redis://a,redis+cluster://b,c` are two addresses each. From `#` at
/// the beginning of a word to the end of its line is a comment.
/// @throws system_error  errc::invalid_address, as the constructor of address; what() also has the
///     number of the address in the list. A list without any address is refused too.
HOLDFAST_API std::vector<address> parse_addresses(std::string_view list);

} // namespace holdfast

#endif
