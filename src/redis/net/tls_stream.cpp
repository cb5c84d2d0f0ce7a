#include "redis/net/tls_stream.hpp"

#include "redis/net/connection_failure.hpp"
#include "redis/net/tls_next_layer.hpp"
#include "redis/net/tls_observer.hpp"
#include "redis/wire/reserved_memory.hpp"

#include <boost/asio/append.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/strand.hpp>

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
template <class Executor>
class connection : public std::enable_shared_from_this<connection<Executor>> {
public:
    using user_ptr = std::shared_ptr<stream_user>;
    using sender = tls_sender<Executor>;
    using socket_type = typename sender::socket_type;

    connection(Executor const& executor, std::vector<tcp::endpoint> endpoints, tls_setup setup)
        : setup_(std::move(setup))
        , endpoints_(std::move(endpoints))
        , sender_(std::make_shared<sender>(executor))
        , observer_([this](SSL_SESSION const* s) { keep_ticket(s); })
        , tls_(tls_next_layer<Executor>(*sender_), *setup_.context)
        , name_error_(set_names()) {
        auto* const ssl = tls_.native_handle();
        SSL_set_options(ssl, SSL_OP_NO_RENEGOTIATION);
        observer_.observe(ssl);
        if (!setup_.ticket) return;
        auto const session = setup_.ticket->find(setup_.context, setup_.verified_name);
        if (session) SSL_set_session(ssl, session.get());
    }

    void connect(user_ptr user) {
        on_connected done{{this->shared_from_this(), std::move(user)}};
        auto const early = closed_ ? error_code(asio::error::operation_aborted) : name_error_;
        if (early) return asio::post(executor(), asio::append(std::move(done), early));
        asio::async_connect(sender_->socket(), endpoints_, on_tcp_connected{std::move(done)});
    }

    void read(user_ptr user, asio::mutable_buffer into) {
        tls_.async_read_some(into, on_read{{this->shared_from_this(), std::move(user)}});
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
        sender_->socket().async_wait(socket_type::wait_write,
                                     on_writable{{this->shared_from_this(), std::move(user)}});
    }

    void close() noexcept {
        closed_ = true;
        error_code ignored;
        sender_->socket().close(ignored);
    }

    void shut_down() noexcept {
        error_code ignored;
        sender_->socket().shutdown(socket_type::shutdown_both, ignored);
    }

    connection_failure explain(error_code ec, failure_moment at) const {
        auto const* const ssl = tls_.native_handle();
        auto const state = SSL_get_state(ssl);
        return explain_tls(ec, at,
                           {.begun = begun_,
                            .answered = state != TLS_ST_BEFORE && state != TLS_ST_CW_CLNT_HELLO,
                            .over = over_,
                            .certified = setup_.certified,
                            .verify_result = SSL_get_verify_result(ssl),
                            .refused = observer_.refused(),
                            .name = setup_.verified_name,
                            .min_version = setup_.min_version});
    }

    std::string security() const {
        auto const* const ssl = tls_.native_handle();
        if (!over_) return {};
        std::string text = SSL_version(ssl) == TLS1_3_VERSION ? "TLS 1.3" : "TLS 1.2";
        if (SSL_session_reused(ssl) != 0) text += ", session resumed";
        if (SSL_get_verify_mode(ssl) == SSL_VERIFY_NONE) text += ", certificate not verified";
        return text;
    }

private:
    struct handler {
        std::shared_ptr<connection> self_;
        user_ptr user_;
    };
    struct on_connected : handler {
        void operator()(error_code ec) {
            this->self_->over_ = !ec && !this->self_->closed_;
            this->user_->on_connected(this->self_->seen(ec));
        }
    };
    struct on_tcp_connected {
        on_connected done_;
        void operator()(error_code ec, tcp::endpoint const&) {
            auto const self = done_.self_;
            self->shake_hands(std::move(done_), ec);
        }
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
        void operator()(error_code ec) {
            auto const self = this->self_;
            self->drained(std::move(this->user_), ec);
        }
    };
    Executor executor() { return sender_->socket().get_executor(); }

    error_code seen(error_code ec) const noexcept {
        if (closed_) return asio::error::operation_aborted;
        // A ticket with which a handshake fails must not be tried for ever.
        if (ec.category() == asio::error::get_ssl_category() && setup_.ticket)
            setup_.ticket->drop();
        return ec == asio::ssl::error::stream_truncated ? error_code(asio::error::eof) : ec;
    }

    void keep_ticket(SSL_SESSION const* s) const noexcept {
        if (setup_.ticket) setup_.ticket->keep(s, setup_.context, setup_.verified_name);
    }

    error_code set_names() {
        auto* const ssl = tls_.native_handle();
        auto* const rules = SSL_get0_param(ssl);
        ERR_clear_error();
        auto const& sent = setup_.sent_name;
        auto const& name = setup_.verified_name;
        auto done = sent.empty() || SSL_set_tlsext_host_name(ssl, sent.c_str()) == 1;
        error_code no_address;
        asio::ip::make_address(name, no_address);
        if (!no_address) {
            done = done && X509_VERIFY_PARAM_set1_ip_asc(rules, name.c_str()) == 1;
        } else if (!name.empty()) {
            X509_VERIFY_PARAM_set_hostflags(rules, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
            done = done && X509_VERIFY_PARAM_set1_host(rules, name.data(), name.size()) == 1;
        }
        if (done) return {};
        auto const code = static_cast<int>(ERR_get_error());
        if (code == 0) return asio::error::invalid_argument;
        return {code, asio::error::get_ssl_category()};
    }

    void shake_hands(on_connected done, error_code ec) {
        if (!ec && !closed_) sender_->socket().non_blocking(true, ec);
        if (!ec && !closed_) ::fcntl(sender_->socket().native_handle(), F_SETFD, FD_CLOEXEC);
        if (!ec && !closed_) sender_->socket().set_option(tcp::no_delay(true), ec);
        if (!ec && !closed_) {
            begun_ = true;
            done.user_->on_handshake();
        }
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

    tls_setup const setup_;
    std::vector<tcp::endpoint> const endpoints_;
    reserved_memory read_memory_;
    std::shared_ptr<sender> const sender_;
    tls_observer observer_;
    /// Asio's accessor of the handle is not const.
    mutable asio::ssl::stream<tls_next_layer<Executor>> tls_;
    error_code const name_error_;
    bool begun_ = false; ///< the handshake
    bool over_ = false;  ///< the handshake, with success
    bool closed_ = false;
};

template <class Executor>
class tls_stream final : public stream {
public:
    explicit tls_stream(std::shared_ptr<connection<Executor>> c)
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
    void shut_down() noexcept override { connection_->shut_down(); }
    void close() noexcept override { connection_->close(); }
    connection_failure explain(error_code ec, failure_moment at) const override {
        return connection_->explain(ec, at);
    }
    std::string security() const override { return connection_->security(); }

private:
    std::shared_ptr<connection<Executor>> const connection_;
};

} // namespace

// As in stream.cpp: handlers on an erased executor do not use our reserved memory.
std::unique_ptr<stream> make_tls_stream(asio::any_io_executor const& executor,
                                        std::vector<tcp::endpoint> endpoints, tls_setup setup) {
    using plain = asio::io_context::executor_type;
    auto const with = [&]<class Executor>(Executor const& known) -> std::unique_ptr<stream> {
        return std::make_unique<tls_stream<Executor>>(
            std::make_shared<connection<Executor>>(known, std::move(endpoints), std::move(setup)));
    };
    if (auto const* const known = executor.target<plain>()) return with(*known);
    if (auto const* const known = executor.target<asio::strand<plain>>()) return with(*known);
    return with(executor);
}

} // namespace holdfast::redis
