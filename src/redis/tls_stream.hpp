// TLS over TCP, as a stream.
#ifndef HOLDFAST_REDIS_TLS_STREAM_HPP
#define HOLDFAST_REDIS_TLS_STREAM_HPP

#include "redis/stream.hpp"

#include <boost/asio/ssl/context.hpp>

namespace holdfast::redis {

/// Tries the endpoints one after the other, and then does the handshake.
///
/// If `server_name` is a name, the client sends it (SNI), and the certificate must be valid
/// for it. If `server_name` is an address, the certificate must be valid for that address. If it is
/// empty, neither applies. Whether certificates are verified at all is up to the context.
///
/// If the peer closes the connection, the error is asio::error::eof, with or without TLS's own end
/// (close_notify). All other errors are those of Asio and OpenSSL.
std::unique_ptr<stream> make_tls_stream(asio::any_io_executor const&,
                                        std::vector<asio::ip::tcp::endpoint>,
                                        std::shared_ptr<asio::ssl::context>,
                                        std::string server_name);

} // namespace holdfast::redis

#endif
