// A byte stream to an instance: TCP, a Unix socket, or TLS over either.
#ifndef HOLDFAST_REDIS_STREAM_HPP
#define HOLDFAST_REDIS_STREAM_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::redis {

namespace asio = boost::asio;
using boost::system::error_code;

/// What a stream tells its user: on the stream's executor, and never within a call to the stream.
class stream_user {
public:
    virtual void on_connected(error_code) = 0;
    /// `size` bytes have come into the buffer of read().
    virtual void on_read(error_code, std::size_t size) = 0;
    /// Bytes that did not fit before can be written now, or never will be.
    virtual void on_writable(error_code) = 0;

protected:
    ~stream_user() = default;
};

/// Each call that ends with a word to the user keeps the user alive until then. Not thread-safe.
class stream {
public:
    virtual ~stream() = default;

    /// For TLS: the handshake included. Ends with on_connected().
    virtual void connect(std::shared_ptr<stream_user>) = 0;
    /// One at a time. Ends with on_read().
    virtual void read(std::shared_ptr<stream_user>, asio::mutable_buffer) = 0;
    /// Writes what fits now, without waiting, and returns how much that was: zero and no error if nothing fits.
    virtual std::size_t write(std::string_view, error_code&) noexcept = 0;
    /// One at a time, after a write() that did not take all. Ends with on_writable().
    virtual void wait_writable(std::shared_ptr<stream_user>) = 0;
    /// What is under way ends with an error. The user is told nothing new after it has let go of the stream.
    virtual void close() noexcept = 0;
};

/// Tries the endpoints one after the other.
std::unique_ptr<stream> make_tcp_stream(asio::any_io_executor const&, std::vector<asio::ip::tcp::endpoint>);
std::unique_ptr<stream> make_unix_stream(asio::any_io_executor const&, std::string path);

} // namespace holdfast::redis

#endif
