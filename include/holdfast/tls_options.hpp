#ifndef HOLDFAST_TLS_OPTIONS_HPP
#define HOLDFAST_TLS_OPTIONS_HPP

#include <holdfast/detail/boost_version.hpp>

#include <boost/asio/detail/config.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace boost::asio {
BOOST_ASIO_INLINE_NAMESPACE_BEGIN
namespace ssl {
class context;
}
BOOST_ASIO_INLINE_NAMESPACE_END
} // namespace boost::asio

namespace holdfast {

/// A version of TLS.
enum class tls_version : std::uint8_t {
    v1_2, ///< TLS 1.2
    v1_3, ///< TLS 1.3
};

/// The TLS of the connections to an instance.
///
/// Files are PEM. The constructor of the client reads them. Before each connection the client asks
/// for their times, inodes and sizes, and reads them again if one has changed. If the changed files
/// cannot be used, new connections use the earlier ones, and instance_status::tls_problem says why.
/// Connections that are open stay as they are.
///
/// Without ca_file and ca_directory the client trusts the authorities of the system, as OpenSSL
/// knows them. Reading them takes up to 26 ms, once for all instances with the same options.
///
/// @par Errors  If a file cannot be used, or options contradict each other, the constructor of the
///     client throws errc::invalid_options. The message names the option as a URL does (ca, capath,
///     cert, key, sni), the path and the reason, and no secret.
/// @par Thread safety  Distinct objects: safe.
struct tls_options {
    std::string ca_file{};          ///< trusted certificates
    std::string ca_directory{};     ///< trusted certificates, named by their hashes (c_rehash)
    std::string certificate_file{}; ///< the client's certificate, with its chain; needs key_file
    std::string key_file{};         ///< the private key of certificate_file
    /// Decrypts key_file. At most 1023 bytes, without NUL. The client never asks on the terminal.
    std::string key_password{};
    /// The name that the client sends to the server (SNI). Empty: the host, if that is a name. At
    /// most 255 ASCII characters, and no address.
    std::string server_name{};
    /// The name or address that the server's certificate must have. Empty: the host. The client
    /// ignores a dot at its end, and the zone of an address.
    std::string verify_name{};
    /// The oldest version of TLS that the client accepts.
    tls_version min_version = tls_version::v1_2;
    /// Whether the client checks the server's certificate. Without the check, anybody between the
    /// client and the server can read and change all traffic. instance_status::tls shows it.
    bool verify = true;
    /// A context of the program. The client uses it as it is, and resumes no sessions with it. No
    /// file, no key_password, no min_version and no `verify` may be set beside it. It must have
    /// verify_peer, or nothing is verified; with it, the client also checks verify_name. The
    /// program must not change the context while the client exists. Its callbacks run on the
    /// client's executor, below OpenSSL, which is written in C: they must not throw.
    std::shared_ptr<boost::asio::ssl::context> context{};

    /// Whether all members are equal.
    friend bool operator==(tls_options const&, tls_options const&) = default;
};

} // namespace holdfast

#endif
