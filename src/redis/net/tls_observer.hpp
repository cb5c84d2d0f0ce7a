// Observes one TLS connection from OpenSSL's callbacks: the certificate that was refused, and the
// tickets of the server.
#ifndef HOLDFAST_REDIS_TLS_OBSERVER_HPP
#define HOLDFAST_REDIS_TLS_OBSERVER_HPP

#include "redis/net/certificate_facts.hpp"
#include "redis/net/tls_ticket.hpp"

#include <boost/asio/ssl/context.hpp>

#include <functional>
#include <openssl/types.h>
#include <utility>

namespace holdfast::redis {

/// Lives as long as its SSL.
class tls_observer {
public:
    using ticket_function = std::function<void(SSL_SESSION const*)>;

    explicit tls_observer(ticket_function on_ticket)
        : on_ticket_(std::move(on_ticket)) {}
    tls_observer(tls_observer const&) = delete;
    tls_observer& operator=(tls_observer const&) = delete;

    /// Begins. A verify callback that the SSL has already is called first, and decides.
    /// @throws std::bad_alloc
    void observe(SSL*);
    /// The certificate for which the last verification failed.
    certificate_facts const& refused() const { return refused_; }

    /// Connections with this context get tickets.
    static void allow_tickets(asio::ssl::context&);

private:
    static int index();
    static tls_observer* of(SSL const*);
    static int on_verify(int valid, X509_STORE_CTX*);
    static int on_new_session(SSL*, SSL_SESSION*);

    ticket_function const on_ticket_;
    int (*verify_before_)(int, X509_STORE_CTX*) = nullptr;
    certificate_facts refused_;
};

} // namespace holdfast::redis

#endif
