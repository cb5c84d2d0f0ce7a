// A byte stream to an instance: TCP, a Unix socket, or TLS over TCP.
#ifndef HOLDFAST_REDIS_STREAM_HPP
#define HOLDFAST_REDIS_STREAM_HPP

#include "redis/net/connection_failure.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace holdfast::redis {

namespace asio = boost::asio;
using boost::system::error_code;

/// Gets the results of a stream's operations, on the stream's executor and never within a call to
/// the stream. The user may destroy the stream from within each of these functions.
class stream_user {
public:
    /// TLS: the transport is connected, and the handshake begins. Comes before on_connected().
    virtual void on_handshake() {}
    virtual void on_connected(error_code) = 0;
    /// `size` bytes have come into the buffer of read().
    virtual void on_read(error_code, std::size_t size) = 0;
    /// Bytes that did not fit before can be written now. With an error they never will be.
    virtual void on_writable(error_code) = 0;

protected:
    ~stream_user() = default;
};

/// A stream of bytes in both directions. connect(), read() and wait_writable() keep the user alive
/// until they have called the user once. If they throw std::bad_alloc, nothing has begun.
///
/// If the execution context is destroyed first, the user is released and not called.
///
/// Operations do not allocate if the executor is that of an io_context or a strand over it.
/// A strand over an erased executor costs three allocations an operation.
///
/// @par Thread safety  Use a stream on its executor only.
class stream {
public:
    /// Calls close().
    virtual ~stream() = default;

    /// Ends with on_connected(). For TLS the handshake is part of it.
    virtual void connect(std::shared_ptr<stream_user>) = 0;
    /// Ends with on_read(). One read at a time. The buffer must live as long as the user.
    virtual void read(std::shared_ptr<stream_user>, asio::mutable_buffer) = 0;
    /// Writes the bytes that fit now, without waiting, and returns their number: zero without an
    /// error if none fits.
    virtual std::size_t write(std::string_view, error_code&) noexcept = 0;
    /// Ends with on_writable(). One wait at a time, after a write() that did not take all.
    virtual void wait_writable(std::shared_ptr<stream_user>) = 0;
    /// Nothing more is written. A read ends with bytes that have come, or else with the end of the
    /// stream. For a stream whose write() has failed: the server may have said why.
    virtual void shut_down() noexcept { close(); }
    /// Operations under way end with asio::error::operation_aborted, also operations that are over
    /// and not yet reported. Later operations end with an error.
    virtual void close() noexcept = 0;

    /// Puts an error of this stream into words. asio::error::timed_out: connect() takes too long.
    virtual connection_failure explain(error_code ec, failure_moment at) const {
        return explain_plain(ec, at, false);
    }
    /// The protection of the connection in words; empty without TLS.
    virtual std::string security() const { return {}; }
};

std::unique_ptr<stream> make_tcp_stream(asio::any_io_executor const&,
                                        asio::ip::tcp::endpoint const&);
std::unique_ptr<stream> make_unix_stream(asio::any_io_executor const&, std::string const& path);

} // namespace holdfast::redis

#endif
