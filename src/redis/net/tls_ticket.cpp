#include "redis/net/tls_ticket.hpp"

#include <new>
#include <openssl/ssl.h>
#include <utility>

namespace holdfast::redis {

void tls_ticket::free_session::operator()(SSL_SESSION* s) const {
    SSL_SESSION_free(s);
}

void tls_ticket::keep(SSL_SESSION const* s, context_ptr context, std::string_view name) noexcept {
    try {
        name_ = name;
        session_.reset(SSL_SESSION_dup(s));
        context_ = std::move(context);
    } catch (std::bad_alloc const&) {
        drop();
    }
}

tls_ticket::session_ptr tls_ticket::find(context_ptr const& context,
                                         std::string_view name) const noexcept {
    if (!session_ || context != context_ || name != name_) return {};
    return session_ptr(SSL_SESSION_dup(session_.get()));
}

void tls_ticket::drop() noexcept {
    session_.reset();
    context_.reset();
}

} // namespace holdfast::redis
