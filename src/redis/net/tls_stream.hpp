// TLS over TCP, as a stream.
#ifndef HOLDFAST_REDIS_TLS_STREAM_HPP
#define HOLDFAST_REDIS_TLS_STREAM_HPP

#include <holdfast/tls_options.hpp>

#include "redis/net/stream.hpp"
#include "redis/net/tls_ticket.hpp"

#include <boost/asio/ssl/context.hpp>

namespace holdfast::redis {

struct tls_setup {
    std::shared_ptr<asio::ssl::context> context;
    std::string sent_name{};              ///< the client sends it (SNI); empty: none
    std::string verified_name{};          ///< a name or an address; empty: none is checked
    std::shared_ptr<tls_ticket> ticket{}; ///< is used, and replaced by newer ones; may be null

    // For messages
    tls_version min_version = tls_version::v1_2;
    bool certified = false; ///< the client has a certificate
};

/// Connects, and then does the handshake. The certificate must be valid for `verified_name`.
/// Whether certificates are verified at all is up to the context.
///
/// If the peer closes the connection, the error is asio::error::eof, with or without TLS's own end
/// (close_notify). All other errors are those of Asio and OpenSSL.
std::unique_ptr<stream> make_tls_stream(asio::any_io_executor const&,
                                        asio::ip::tcp::endpoint const&, tls_setup);

} // namespace holdfast::redis

#endif
