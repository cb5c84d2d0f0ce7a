#include "redis/net/tls_stream.hpp"

#include "redis/net/connection_failure.hpp"
#include "redis/net/socket_stream.hpp"
#include "redis/net/tls_next_layer.hpp"
#include "redis/net/tls_observer.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <utility>

namespace holdfast::redis {

namespace {

using asio::ip::tcp;

// The bytes of ciphertext that may wait for the socket before write() takes no more.
constexpr std::size_t most_backlog = 64 * 1024;

/// TLS on the socket.
template <class Executor>
class tls_layer {
public:
    using protocol = tcp;
    static constexpr bool shakes_hands = true;

    tls_layer(Executor const& executor, tls_setup setup)
        : setup_(std::move(setup))
        , sender_(std::make_shared<tls_sender<Executor>>(executor))
        , observer_([this](SSL_SESSION const* s) { keep_ticket(s); })
        , tls_(tls_next_layer<Executor>(*sender_), *setup_.context)
        , fault_(set_names()) {
        auto* const ssl = tls_.native_handle();
        SSL_set_options(ssl, SSL_OP_NO_RENEGOTIATION);
        observer_.observe(ssl);
        if (!setup_.ticket) return;
        auto const session = setup_.ticket->find(setup_.context, setup_.verified_name);
        if (session) SSL_set_session(ssl, session.get());
    }
    tls_layer(tls_layer const&) = delete;
    tls_layer& operator=(tls_layer const&) = delete;

    auto& socket() { return sender_->socket(); }
    /// OpenSSL has refused a name.
    error_code fault() const { return fault_; }

    void on_handshake() { begun_ = true; }
    template <class Handler>
    void async_handshake(Handler handler) {
        tls_.async_handshake(asio::ssl::stream_base::client, std::move(handler));
    }
    void on_shaken() { over_ = true; }

    template <class Handler>
    void async_read_some(asio::mutable_buffer into, Handler handler) {
        tls_.async_read_some(into, std::move(handler));
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
    bool needs_room(error_code& ec) const {
        if (!ec) ec = sender_->failure();
        return !ec && sender_->backlog() > most_backlog / 2;
    }

    error_code seen(error_code ec) const {
        // A ticket with which a handshake fails must not be tried for ever.
        if (ec.category() == asio::error::get_ssl_category() && setup_.ticket)
            setup_.ticket->drop();
        return ec == asio::ssl::error::stream_truncated ? error_code(asio::error::eof) : ec;
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

    tls_setup const setup_;
    std::shared_ptr<tls_sender<Executor>> const sender_;
    tls_observer observer_;
    /// Asio's accessor of the handle is not const.
    mutable asio::ssl::stream<tls_next_layer<Executor>> tls_;
    error_code const fault_;
    bool begun_ = false; ///< the handshake
    bool over_ = false;  ///< the handshake, with success
};

} // namespace

std::unique_ptr<stream> make_tls_stream(asio::any_io_executor const& executor,
                                        tcp::endpoint const& target, tls_setup setup) {
    return with_known_executor(
        executor, [&]<class Executor>(Executor const& known) -> std::unique_ptr<stream> {
            return std::make_unique<socket_stream<tls_layer<Executor>>>(target, known,
                                                                        std::move(setup));
        });
}

} // namespace holdfast::redis
