#include "redis/net/tls_observer.hpp"

#include <new>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

namespace holdfast::redis {

int tls_observer::index() {
    static int const ours = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
    return ours;
}

tls_observer* tls_observer::of(SSL const* ssl) {
    return ssl == nullptr ? nullptr : static_cast<tls_observer*>(SSL_get_ex_data(ssl, index()));
}

void tls_observer::observe(SSL* ssl) {
    if (SSL_set_ex_data(ssl, index(), this) != 1) throw std::bad_alloc();
    verify_before_ = SSL_get_verify_callback(ssl);
    SSL_set_verify(ssl, SSL_get_verify_mode(ssl), &tls_observer::on_verify);
}

void tls_observer::allow_tickets(asio::ssl::context& context) {
    auto* const handle = context.native_handle();
    // Without a store of OpenSSL's own: its sessions have no instance.
    SSL_CTX_set_session_cache_mode(handle, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(handle, &tls_observer::on_new_session);
}

int tls_observer::on_verify(int valid, X509_STORE_CTX* store) {
    auto* const self = of(static_cast<SSL const*>(
        X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx())));
    if (self == nullptr) return valid;
    auto const accepted =
        self->verify_before_ != nullptr ? self->verify_before_(valid, store) : valid;
    auto const* const certificate = X509_STORE_CTX_get_current_cert(store);
    if (accepted == 0 && certificate != nullptr) {
        try {
            self->refused_ = facts_of(*certificate, X509_STORE_CTX_get_error_depth(store) == 0);
        } catch (std::bad_alloc const&) { // the message says less
        }
    }
    return accepted;
}

int tls_observer::on_new_session(SSL* ssl, SSL_SESSION* session) {
    if (auto const* const self = of(ssl)) self->on_ticket_(session);
    return 0; // the session stays OpenSSL's
}

} // namespace holdfast::redis
