// Makes the TLS connections to one host.
#ifndef HOLDFAST_REDIS_TLS_CONNECTOR_HPP
#define HOLDFAST_REDIS_TLS_CONNECTOR_HPP

#include <holdfast/tls_options.hpp>

#include "redis/net/stream.hpp"
#include "redis/net/tls_context_source.hpp"
#include "redis/net/tls_ticket.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast::redis {

struct tls_names {
    std::string sent;     ///< in the handshake (SNI): a name, or empty
    std::string verified; ///< a name or an address
};

/// A name without the dot at its end, an address without its zone: certificates have neither.
tls_names names_for(std::string_view host, tls_options const&);

class tls_connector {
public:
    tls_connector(std::shared_ptr<tls_context_source> source, std::string_view host)
        : source_(std::move(source))
        , names_(names_for(host, source_->options())) {}

    std::unique_ptr<stream> make_stream(asio::any_io_executor const&,
                                        asio::ip::tcp::endpoint const&);

    /// Whether the files have changed since the last stream was made.
    bool files_changed() const noexcept {
        return source_->version() != version_ || source_->files_changed();
    }
    /// See tls_context_source::problem().
    std::string const& problem() const { return source_->problem(); }

private:
    std::shared_ptr<tls_context_source> const source_;
    tls_names const names_;
    std::shared_ptr<tls_ticket> const ticket_ = std::make_shared<tls_ticket>();
    std::uint64_t version_ = 0;
};

} // namespace holdfast::redis

#endif
