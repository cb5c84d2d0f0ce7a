// A stream over a socket of Asio, with or without TLS: one template, and a layer for each kind of
// stream.
//
// The stream and its handlers share a connection. So the user may destroy the stream when a handler
// calls the user.
#ifndef HOLDFAST_REDIS_SOCKET_STREAM_HPP
#define HOLDFAST_REDIS_SOCKET_STREAM_HPP

#include "redis/net/stream.hpp"
#include "redis/wire/reserved_memory.hpp"

#include <boost/asio/append.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/socket_base.hpp>
#include <boost/asio/strand.hpp>

#include <cstddef>
#include <fcntl.h>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace holdfast::redis {

/// The socket of a connection, and the bytes on it. A layer has
///   protocol, socket()                       the socket
///   fault()                                  why it cannot connect; no error: it can
///   async_read_some(), write()               as those of a stream
///   needs_room(error_code&)                  true if a socket with room is to have more of it
///   seen(error_code)                         an error as the user gets it
///   explain(), security()                    as those of a stream
///   shakes_hands                             true: also on_handshake(), async_handshake() and
///                                            on_shaken(), in this order
template <class Layer>
class socket_connection : public std::enable_shared_from_this<socket_connection<Layer>> {
public:
    using protocol = typename Layer::protocol;
    using endpoint = typename protocol::endpoint;
    using user_ptr = std::shared_ptr<stream_user>;

    template <class... Args>
    explicit socket_connection(endpoint const& target, Args&&... args)
        : target_(target)
        , layer_(std::forward<Args>(args)...) {}

    void connect(user_ptr user) {
        on_connected done{{this->shared_from_this(), std::move(user)}};
        auto const early = closed_ ? error_code(asio::error::operation_aborted) : open();
        if (early) return asio::post(socket().get_executor(), asio::append(std::move(done), early));
        socket().async_connect(target_, std::move(done));
    }
    void read(user_ptr user, asio::mutable_buffer into) {
        layer_.async_read_some(into, on_read{{this->shared_from_this(), std::move(user)}});
    }
    std::size_t write(std::string_view bytes, error_code& ec) noexcept {
        return layer_.write(bytes, ec);
    }
    void wait_writable(user_ptr user) {
        socket().async_wait(asio::socket_base::wait_write,
                            on_writable{{this->shared_from_this(), std::move(user)}});
    }
    void shut_down() noexcept {
        error_code ignored;
        socket().shutdown(asio::socket_base::shutdown_both, ignored);
    }
    void close() noexcept {
        closed_ = true;
        error_code ignored;
        socket().close(ignored);
    }
    connection_failure explain(error_code ec, failure_moment at) const {
        return layer_.explain(ec, at);
    }
    std::string security() const { return layer_.security(); }

private:
    struct handler {
        std::shared_ptr<socket_connection> self_;
        user_ptr user_;
    };
    struct on_connected : handler {
        void operator()(error_code ec) { this->self_->connected(std::move(this->user_), ec); }
    };
    struct on_shaken : handler {
        void operator()(error_code ec) { this->self_->shaken(std::move(this->user_), ec); }
    };
    /// Each connection has memory reserved for reads. So reading goes on when memory has run out.
    /// Asio's TLS takes the memory for its own operations from the handler, too.
    struct on_read : handler {
        using allocator_type = reserving_allocator<void>;
        allocator_type get_allocator() const noexcept {
            return allocator_type(
                std::shared_ptr<reserved_memory>(this->self_, &this->self_->read_memory_));
        }
        void operator()(error_code ec, std::size_t size) {
            this->user_->on_read(this->self_->seen(ec), this->self_->closed_ ? 0 : size);
        }
    };
    struct on_writable : handler {
        void operator()(error_code ec) { this->self_->writable(std::move(this->user_), ec); }
    };

    auto& socket() { return layer_.socket(); }

    /// The error to report. An operation that was over when the stream was closed, but not yet
    /// reported, counts as aborted too.
    error_code seen(error_code ec) const {
        return closed_ ? error_code(asio::error::operation_aborted) : layer_.seen(ec);
    }

    error_code open() {
        auto ec = layer_.fault();
        if (ec) return ec;
        auto& s = socket();
        s.close(ec);
        s.open(target_.protocol(), ec);
        if (!ec) s.non_blocking(true, ec);
        // FD_CLOEXEC: otherwise each program that this process starts would keep the connection
        // open.
        if (!ec) ::fcntl(s.native_handle(), F_SETFD, FD_CLOEXEC);
        if constexpr (std::is_same_v<protocol, asio::ip::tcp>) {
            if (!ec) s.set_option(asio::ip::tcp::no_delay(true), ec);
        }
        return ec;
    }

    void connected(user_ptr user, error_code ec) {
        // If the server's backlog is full, a Unix socket seems connected, but has no peer.
        if (!ec && !closed_) socket().remote_endpoint(ec);
        if constexpr (Layer::shakes_hands) {
            if (!ec && !closed_) return shake_hands(std::move(user));
        }
        user->on_connected(seen(ec));
    }

    void shake_hands(user_ptr user) {
        layer_.on_handshake();
        user->on_handshake();
        if (closed_) return user->on_connected(asio::error::operation_aborted);
        try {
            layer_.async_handshake(on_shaken{{this->shared_from_this(), user}});
        } catch (std::bad_alloc const&) {
            user->on_connected(asio::error::no_memory);
        }
    }

    void shaken(user_ptr user, error_code ec) {
        if (!ec && !closed_) layer_.on_shaken();
        user->on_connected(seen(ec));
    }

    void writable(user_ptr user, error_code ec) {
        if (closed_ || !layer_.needs_room(ec)) return user->on_writable(seen(ec));
        try {
            wait_writable(user);
        } catch (std::bad_alloc const&) {
            user->on_writable(asio::error::no_memory);
        }
    }

    endpoint const target_;
    reserved_memory read_memory_;
    Layer layer_;
    bool closed_ = false;
};

template <class Layer>
class socket_stream final : public stream {
public:
    template <class... Args>
    explicit socket_stream(Args&&... args)
        : connection_(std::make_shared<socket_connection<Layer>>(std::forward<Args>(args)...)) {}
    ~socket_stream() override { connection_->close(); }

    void connect(std::shared_ptr<stream_user> user) override {
        connection_->connect(std::move(user));
    }
    void read(std::shared_ptr<stream_user> user, asio::mutable_buffer into) override {
        connection_->read(std::move(user), into);
    }
    std::size_t write(std::string_view bytes, error_code& ec) noexcept override {
        return connection_->write(bytes, ec);
    }
    void wait_writable(std::shared_ptr<stream_user> user) override {
        connection_->wait_writable(std::move(user));
    }
    void shut_down() noexcept override { connection_->shut_down(); }
    void close() noexcept override { connection_->close(); }
    connection_failure explain(error_code ec, failure_moment at) const override {
        return connection_->explain(ec, at);
    }
    std::string security() const override { return connection_->security(); }

private:
    std::shared_ptr<socket_connection<Layer>> const connection_;
};

/// Calls `make` with the executor, in the type that it has. Handlers on an erased executor do not
/// use our reserved memory. So the types of executor that a client has are recovered here.
template <class Make>
std::unique_ptr<stream> with_known_executor(asio::any_io_executor const& executor, Make make) {
    using plain = asio::io_context::executor_type;
    if (auto const* const known = executor.target<plain>()) return make(*known);
    if (auto const* const known = executor.target<asio::strand<plain>>()) return make(*known);
    return make(executor);
}

} // namespace holdfast::redis

#endif
