// The failures of connections, in plain words. Every text about TLS is made here.
//
// OpenSSL's errors are compared by their numbers, because its texts differ between versions.
#ifndef HOLDFAST_REDIS_CONNECTION_FAILURE_HPP
#define HOLDFAST_REDIS_CONNECTION_FAILURE_HPP

#include <holdfast/tls_options.hpp>

#include "protocol/server/reconnect.hpp"
#include "redis/net/certificate_facts.hpp"

#include <boost/system/error_code.hpp>

#include <chrono>
#include <string>

namespace holdfast::redis {

using boost::system::error_code;

struct connection_failure {
    std::string message;
    protocol::fault fault = protocol::fault::broken;
};

/// The moment of a failure, as far as the stream does not know it.
struct failure_moment {
    bool unanswered = false; ///< connected, and the server has sent nothing yet
    /// asio::error::timed_out: the limit of the handshake.
    std::chrono::milliseconds limit{0};
};

/// How far a handshake came, and what it found.
struct handshake_facts {
    bool begun = false;          ///< the transport is connected
    bool answered = false;       ///< the server has answered in the handshake
    bool over = false;           ///< with success
    bool certified = false;      ///< the client has a certificate of its own
    long verify_result = 0;      ///< SSL_get_verify_result
    certificate_facts refused{}; ///< the certificate for which verify_result stands
    std::string name{};          ///< the name or address that the certificate must have
    tls_version min_version = tls_version::v1_2;
};

/// Of a stream without TLS. `over_network`: its other end may be a port for TLS.
connection_failure explain_plain(error_code, failure_moment, bool over_network);
/// Of a stream with TLS.
connection_failure explain_tls(error_code, failure_moment, handshake_facts const&);

/// Whether the first bytes of a server are TLS, as some servers answer to plain bytes.
bool looks_like_tls(std::string_view first_bytes);
/// The failure of a client without TLS at a port that answers so.
connection_failure explain_tls_port();

} // namespace holdfast::redis

#endif
