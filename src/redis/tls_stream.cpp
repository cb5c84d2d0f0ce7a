#include "redis/tls_stream.hpp"

#include "redis/tls_next_layer.hpp"

#include <boost/asio/append.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>

#include <algorithm>
#include <fcntl.h>
#include <new>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <utility>

namespace holdfast::redis {

namespace {

using asio::ip::tcp;

// The bytes of ciphertext that may wait for the socket before write() takes no more.
constexpr std::size_t most_backlog = 64 * 1024;

/// The stream and the handlers share a connection, so that the user may destroy the stream when a
/// handler calls the user.
class connection : public std::enable_shared_from_this<connection> {
public:
    using user_ptr = std::shared_ptr<stream_user>;

    connection(asio::any_io_executor const& executor, std::vector<tcp::endpoint> endpoints,
               std::shared_ptr<asio::ssl::context> context, std::string server_name)
        : context_(std::move(context))
        , endpoints_(std::move(endpoints))
        , sender_(std::make_shared<tls_sender>(executor))
        , tls_(tls_next_layer(*sender_), *context_)
        , name_error_(set_name(std::move(server_name))) {
        SSL_set_options(tls_.native_handle(), SSL_OP_NO_RENEGOTIATION);
    }

    void connect(user_ptr user) {
        on_connected done{{shared_from_this(), std::move(user)}};
        auto const early = closed_ ? error_code(asio::error::operation_aborted) : name_error_;
        if (early) return asio::post(executor(), asio::append(std::move(done), early));
        asio::async_connect(sender_->socket(), endpoints_, on_tcp_connected{std::move(done)});
    }

    void read(user_ptr user, asio::mutable_buffer into) {
        tls_.async_read_some(into, on_read{{shared_from_this(), std::move(user)}});
    }

    std::size_t write(std::string_view bytes, error_code& ec) noexcept {
        ec = sender_->failure();
        std::size_t taken = 0;
        // Each write_some() makes one record.
        while (!ec && taken < bytes.size() && sender_->backlog() < most_backlog) {
            taken += tls_.write_some(asio::buffer(bytes.substr(taken)), ec);
        }
        if (taken != 0) ec.clear(); // the next call fails
        return taken;
    }

    void wait_writable(user_ptr user) {
        sender_->socket().async_wait(tcp::socket::wait_write,
                                     on_writable{{shared_from_this(), std::move(user)}});
    }

    void close() noexcept {
        closed_ = true;
        error_code ignored;
        sender_->socket().close(ignored);
    }

private:
    struct handler {
        std::shared_ptr<connection> self_;
        user_ptr user_;
    };
    struct on_connected : handler {
        void operator()(error_code ec) { user_->on_connected(self_->seen(ec)); }
    };
    struct on_tcp_connected {
        on_connected done_;
        void operator()(error_code ec, tcp::endpoint const&) {
            auto const self = done_.self_;
            self->shake_hands(std::move(done_), ec);
        }
    };
    struct on_read : handler {
        void operator()(error_code ec, std::size_t size) {
            user_->on_read(self_->seen(ec), self_->closed_ ? 0 : size);
        }
    };
    struct on_writable : handler {
        void operator()(error_code ec) {
            auto const self = self_;
            self->drained(std::move(user_), ec);
        }
    };
    asio::any_io_executor executor() { return sender_->socket().get_executor(); }

    error_code seen(error_code ec) const {
        if (closed_) return asio::error::operation_aborted;
        return ec == asio::ssl::error::stream_truncated ? error_code(asio::error::eof) : ec;
    }

    error_code set_name(std::string name) {
        if (name.ends_with('.')) name.pop_back();
        if (name.empty()) return {};
        auto* const ssl = tls_.native_handle();
        auto* const rules = SSL_get0_param(ssl);
        ERR_clear_error();
        error_code ec;
        asio::ip::make_address(name, ec);
        if (!ec) {
            name.resize(std::min(name.find('%'), name.size())); // a zone is local to this host
            if (X509_VERIFY_PARAM_set1_ip_asc(rules, name.c_str()) == 1) return {};
        } else if (SSL_set_tlsext_host_name(ssl, name.c_str()) == 1 &&
                   X509_VERIFY_PARAM_set1_host(rules, name.data(), name.size()) == 1) {
            X509_VERIFY_PARAM_set_hostflags(rules, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
            return {};
        }
        auto const code = static_cast<int>(ERR_get_error());
        if (code == 0) return asio::error::invalid_argument;
        return {code, asio::error::get_ssl_category()};
    }

    void shake_hands(on_connected done, error_code ec) {
        if (!ec && !closed_) sender_->socket().non_blocking(true, ec);
        if (!ec && !closed_) ::fcntl(sender_->socket().native_handle(), F_SETFD, FD_CLOEXEC);
        if (!ec && !closed_) sender_->socket().set_option(tcp::no_delay(true), ec);
        if (ec || closed_) return done(ec);
        try {
            tls_.async_handshake(asio::ssl::stream_base::client, done);
        } catch (std::bad_alloc const&) {
            done(asio::error::no_memory);
        }
    }

    void drained(user_ptr user, error_code ec) {
        if (!ec) ec = sender_->failure();
        if (ec || closed_ || sender_->backlog() <= most_backlog / 2) {
            return user->on_writable(seen(ec));
        }
        try {
            wait_writable(user);
        } catch (std::bad_alloc const&) {
            user->on_writable(asio::error::no_memory);
        }
    }

    std::shared_ptr<asio::ssl::context> const context_;
    std::vector<tcp::endpoint> const endpoints_;
    std::shared_ptr<tls_sender> const sender_;
    asio::ssl::stream<tls_next_layer> tls_;
    error_code const name_error_;
    bool closed_ = false;
};

class tls_stream final : public stream {
public:
    explicit tls_stream(std::shared_ptr<connection> c)
        : connection_(std::move(c)) {}
    ~tls_stream() override { connection_->close(); }

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
    void close() noexcept override { connection_->close(); }

private:
    std::shared_ptr<connection> const connection_;
};

} // namespace

std::unique_ptr<stream> make_tls_stream(asio::any_io_executor const& executor,
                                        std::vector<tcp::endpoint> endpoints,
                                        std::shared_ptr<asio::ssl::context> context,
                                        std::string server_name) {
    return std::make_unique<tls_stream>(std::make_shared<connection>(
        executor, std::move(endpoints), std::move(context), std::move(server_name)));
}

} // namespace holdfast::redis
