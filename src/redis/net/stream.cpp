#include "redis/net/stream.hpp"

#include "redis/wire/reserved_memory.hpp"

#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>

#include <fcntl.h>
#include <new>
#include <sys/un.h>
#include <type_traits>
#include <utility>

namespace holdfast::redis {

namespace {

using asio::ip::tcp;
using unix_protocol = asio::local::stream_protocol;

/// A socket and its endpoints. Each handler shares it with the stream, so that the user may destroy
/// the stream when the handler calls the user.
template <class Protocol, class Executor>
class connection : public std::enable_shared_from_this<connection<Protocol, Executor>> {
public:
    using endpoint = typename Protocol::endpoint;
    using user_ptr = std::shared_ptr<stream_user>;

    /// `none`: the error of a connect without endpoints.
    connection(Executor const& executor, std::vector<endpoint> endpoints, error_code none)
        : socket_(executor)
        , endpoints_(std::move(endpoints))
        , none_(none) {}

    void connect(user_ptr user) {
        next_ = 0;
        if (closed_) return report(std::move(user), asio::error::operation_aborted);
        connect_next(std::move(user), none_);
    }

    void read(user_ptr user, asio::mutable_buffer into) {
        socket_.async_read_some(into, on_read{{this->shared_from_this(), std::move(user)}});
    }

    std::size_t write(std::string_view bytes, error_code& ec) noexcept {
        auto const size = socket_.write_some(asio::buffer(bytes), ec);
        if (ec == asio::error::would_block || ec == asio::error::interrupted) ec.clear();
        return size;
    }

    void wait_writable(user_ptr user) {
        socket_.async_wait(socket_type::wait_write,
                           on_writable{{this->shared_from_this(), std::move(user)}});
    }

    void shut_down() noexcept {
        error_code ignored;
        socket_.shutdown(socket_type::shutdown_both, ignored);
    }

    void close() noexcept {
        closed_ = true;
        error_code ignored;
        socket_.close(ignored);
    }

private:
    using socket_type = asio::basic_stream_socket<Protocol, Executor>;

    struct handler {
        std::shared_ptr<connection> self_;
        user_ptr user_;
    };
    struct on_connected : handler {
        void operator()(error_code ec) { this->self_->tried(std::move(this->user_), ec); }
    };
    struct on_report : handler {
        error_code ec_;
        void operator()() { this->user_->on_connected(this->self_->seen(ec_)); }
    };
    /// Each connection has memory reserved for reads. So reading goes on when memory has run out.
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
        void operator()(error_code ec) { this->user_->on_writable(this->self_->seen(ec)); }
    };

    /// The error to report. An operation that was over when the stream was closed, but not yet
    /// reported, counts as aborted too.
    error_code seen(error_code ec) const {
        return closed_ ? error_code(asio::error::operation_aborted) : ec;
    }

    void connect_next(user_ptr user, error_code last) {
        while (next_ < endpoints_.size()) {
            auto const& target = endpoints_[next_++];
            last = open(target);
            if (!last) {
                socket_.async_connect(target,
                                      on_connected{{this->shared_from_this(), std::move(user)}});
                return;
            }
        }
        report(std::move(user), last);
    }

    error_code open(endpoint const& target) {
        error_code ec;
        socket_.close(ec);
        socket_.open(target.protocol(), ec);
        if (!ec) socket_.non_blocking(true, ec);
        // FD_CLOEXEC: otherwise each program that this process starts would keep the connection
        // open.
        if (!ec) ::fcntl(socket_.native_handle(), F_SETFD, FD_CLOEXEC);
        if constexpr (std::is_same_v<Protocol, tcp>) {
            if (!ec) socket_.set_option(tcp::no_delay(true), ec);
        }
        return ec;
    }

    void tried(user_ptr user, error_code ec) {
        // If the server's backlog is full, a Unix socket seems connected, but has no peer.
        if (!ec && !closed_) socket_.remote_endpoint(ec);
        if (!ec || closed_ || next_ == endpoints_.size()) return user->on_connected(seen(ec));
        try {
            connect_next(user, ec);
        } catch (std::bad_alloc const&) {
            user->on_connected(asio::error::no_memory);
        }
    }

    void report(user_ptr user, error_code ec) {
        asio::post(socket_.get_executor(),
                   on_report{{this->shared_from_this(), std::move(user)}, ec});
    }

    reserved_memory read_memory_;
    socket_type socket_;
    std::vector<endpoint> const endpoints_;
    error_code const none_;
    std::size_t next_ = 0;
    bool closed_ = false;
};

template <class Protocol, class Executor>
class socket_stream final : public stream {
public:
    using connection_type = connection<Protocol, Executor>;

    explicit socket_stream(std::shared_ptr<connection_type> c)
        : connection_(std::move(c)) {}
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
        return explain_plain(ec, at, std::is_same_v<Protocol, tcp>);
    }

private:
    std::shared_ptr<connection_type> const connection_;
};

// Handlers on an erased executor do not use our reserved memory. So the types of executor that a
// client has are recovered here.
template <class Protocol>
std::unique_ptr<stream> make(asio::any_io_executor const& executor,
                             std::vector<typename Protocol::endpoint> endpoints, error_code none) {
    using plain = asio::io_context::executor_type;
    auto const with = [&]<class Executor>(Executor const& known) -> std::unique_ptr<stream> {
        return std::make_unique<socket_stream<Protocol, Executor>>(
            std::make_shared<connection<Protocol, Executor>>(known, std::move(endpoints), none));
    };
    if (auto const* const known = executor.target<plain>()) return with(*known);
    if (auto const* const known = executor.target<asio::strand<plain>>()) return with(*known);
    return with(executor);
}

} // namespace

std::unique_ptr<stream> make_tcp_stream(asio::any_io_executor const& executor,
                                        std::vector<tcp::endpoint> endpoints) {
    return make<tcp>(executor, std::move(endpoints), asio::error::host_not_found);
}

std::unique_ptr<stream> make_unix_stream(asio::any_io_executor const& executor, std::string path) {
    std::vector<unix_protocol::endpoint> endpoints;
    // The endpoint's constructor throws if the path is too long.
    if (path.size() < sizeof sockaddr_un{}.sun_path) endpoints.emplace_back(path);
    return make<unix_protocol>(executor, std::move(endpoints), asio::error::name_too_long);
}

} // namespace holdfast::redis
