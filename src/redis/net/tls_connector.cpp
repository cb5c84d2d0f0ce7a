#include "redis/net/tls_connector.hpp"

#include "redis/net/tls_stream.hpp"

#include <boost/asio/ip/address.hpp>

namespace holdfast::redis {

namespace {

struct host_name {
    std::string text;
    bool is_address = false;
};

host_name parse(std::string_view host) {
    auto const address = host.substr(0, host.find('%'));
    error_code ec;
    asio::ip::make_address(address, ec);
    if (!ec) return {.text = std::string(address), .is_address = true};
    if (host.ends_with('.')) host.remove_suffix(1);
    return {.text = std::string(host)};
}

} // namespace

tls_names names_for(std::string_view host, tls_options const& o) {
    auto const sent = parse(o.server_name.empty() ? host : std::string_view(o.server_name));
    auto const verified = parse(o.verify_name.empty() ? host : std::string_view(o.verify_name));
    return {.sent = sent.is_address ? "" : sent.text, .verified = verified.text};
}

std::unique_ptr<stream> tls_connector::make_stream(asio::any_io_executor const& executor,
                                                   asio::ip::tcp::endpoint const& target) {
    auto const context = source_->context();
    version_ = source_->version();
    auto const& o = source_->options();
    return make_tls_stream(executor, target,
                           {.context = context,
                            .sent_name = names_.sent,
                            .verified_name = names_.verified,
                            .ticket = ticket_,
                            .min_version = o.min_version,
                            .certified = o.context || !o.certificate_file.empty()});
}

} // namespace holdfast::redis
