// Between Asio's TLS and the socket: a layer that accepts every write at once.
#ifndef HOLDFAST_REDIS_TLS_NEXT_LAYER_HPP
#define HOLDFAST_REDIS_TLS_NEXT_LAYER_HPP

#include "redis/wire/reserved_memory.hpp"

#include <boost/asio/append.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/error_code.hpp>

#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <utility>

namespace holdfast::redis {

namespace asio = boost::asio;
using boost::system::error_code;

/// Sends ciphertext without blocking. The sender keeps the bytes that do not fit, and sends them as
/// soon as they fit. It needs memory only for these.
template <class Executor>
class tls_sender : public std::enable_shared_from_this<tls_sender<Executor>> {
public:
    using tcp = asio::ip::tcp;
    using socket_type = asio::basic_stream_socket<tcp, Executor>;

    explicit tls_sender(Executor const& executor)
        : socket_(executor) {}

    socket_type& socket() { return socket_; }
    std::size_t backlog() const { return unsent_.size() - sent_; }
    error_code failure() const { return failure_; }

    /// Takes all bytes. A failure is final: ciphertext that is dropped would be missing in the
    /// stream.
    void send(asio::const_buffer bytes) noexcept {
        if (failure_) return;
        try {
            flush();
            if (!failure_ && backlog() == 0) bytes += write_some(bytes);
            if (failure_ || bytes.size() == 0) return;
            if (sent_ > unsent_.size() / 2) unsent_.erase(0, std::exchange(sent_, 0));
            unsent_.append(static_cast<char const*>(bytes.data()), bytes.size());
            wait();
        } catch (std::bad_alloc const&) {
            fail(asio::error::no_memory);
        }
    }

private:
    struct on_sendable {
        using allocator_type = reserving_allocator<void>;

        std::shared_ptr<tls_sender> self_;

        allocator_type get_allocator() const noexcept {
            return allocator_type(std::shared_ptr<reserved_memory>(self_, &self_->memory_));
        }
        void operator()(error_code ec) {
            self_->waits_ = false;
            if (!ec) self_->send({});
        }
    };

    void flush() {
        if (backlog() == 0) return;
        sent_ += write_some(asio::buffer(unsent_.data() + sent_, backlog()));
        if (backlog() != 0) return wait();
        unsent_.clear();
        sent_ = 0;
    }

    /// As much as fits.
    std::size_t write_some(asio::const_buffer bytes) noexcept {
        std::size_t all = 0;
        while (!failure_ && bytes.size() != 0) {
            error_code ec;
            auto const size = socket_.write_some(bytes, ec);
            bytes += size;
            all += size;
            if (ec == asio::error::would_block || ec == asio::error::interrupted) break;
            if (ec) fail(ec);
        }
        return all;
    }

    void wait() {
        if (waits_ || failure_) return;
        socket_.async_wait(socket_type::wait_write, on_sendable{this->shared_from_this()});
        waits_ = true;
    }

    /// Shuts the socket down, so that the read ends too: the user may wait for nothing else.
    void fail(error_code ec) noexcept {
        failure_ = ec;
        error_code ignored;
        socket_.shutdown(socket_type::shutdown_both, ignored);
    }

    reserved_memory memory_;
    socket_type socket_;
    std::string unsent_;
    std::size_t sent_ = 0;
    error_code failure_;
    bool waits_ = false;
};

/// The next layer of Asio's TLS. A non-blocking socket cannot be that layer: Asio loses the rest of
/// a record that cannot be written at once. The sender takes all bytes.
template <class Executor>
class tls_next_layer {
public:
    using executor_type = Executor;
    using lowest_layer_type = typename tls_sender<Executor>::socket_type;

    explicit tls_next_layer(tls_sender<Executor>& s)
        : sender_(s) {}

    executor_type get_executor() { return sender_.socket().get_executor(); }
    lowest_layer_type& lowest_layer() { return sender_.socket(); }

    template <class Buffers, class Handler>
    void async_read_some(Buffers const& into, Handler&& handler) {
        sender_.socket().async_read_some(into, std::forward<Handler>(handler));
    }

    template <class Buffers, class Handler>
    void async_write_some(Buffers const& from, Handler&& handler) {
        error_code ec;
        auto const size = write_some(from, ec);
        asio::post(get_executor(), asio::append(std::forward<Handler>(handler), ec, size));
    }

    template <class Buffers>
    std::size_t write_some(Buffers const& from, error_code& ec) {
        std::size_t size = 0;
        for (auto it = asio::buffer_sequence_begin(from); it != asio::buffer_sequence_end(from);
             ++it) {
            asio::const_buffer const part(*it);
            sender_.send(part);
            size += part.size();
        }
        ec = sender_.failure();
        return ec ? 0 : size;
    }

    /// Asio would call this only in a write that has to read first. Without renegotiation no write
    /// does.
    template <class Buffers>
    std::size_t read_some(Buffers const&, error_code& ec) {
        ec = asio::error::operation_not_supported;
        return 0;
    }

private:
    tls_sender<Executor>& sender_;
};

} // namespace holdfast::redis

#endif
