#ifndef HOLDFAST_ADDRESS_HPP
#define HOLDFAST_ADDRESS_HPP

#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast {

/// The address of an instance, and the user and database there.
///
/// Written as `host`, `host:port`, `[v6]:port`, `redis://user:password@host:port/database` or
/// `unix:/path/to/socket`. Characters that are special in a URL are %-encoded. The port is 6379 if
/// not given. A Unix socket takes no user, password or database, and its path has at most 107 bytes
/// on Linux. TLS (`rediss://`) is not supported yet.
///
/// @par Thread safety  Distinct objects: safe.
class address {
public:
    /// Parses `text`.
    /// @throws system_error  errc::invalid_address; what() names the text, with any password
    ///     masked.
    address(std::string_view text);
    address(char const* text)
        : address(std::string_view(text)) {}
    address(std::string const& text)
        : address(std::string_view(text)) {}

    std::string const& host() const noexcept { return host_; }
    std::uint16_t port() const noexcept { return port_; }
    /// Empty unless the instance listens on a Unix domain socket.
    std::string const& socket_path() const noexcept { return path_; }
    std::string const& user() const noexcept { return user_; }
    std::string const& password() const noexcept { return password_; }
    /// The number of the logical database, 0 by default.
    unsigned database() const noexcept { return database_; }

    /// `host:port` or `unix:/path`. Safe in a log: it holds no user and no password.
    std::string to_string() const;

    /// Whether both lead to the same server, with any user and any database.
    bool same_server(address const& other) const noexcept;

private:
    std::string host_, path_, user_, password_;
    std::uint16_t port_ = 6379;
    unsigned database_ = 0;
};

} // namespace holdfast

#endif
