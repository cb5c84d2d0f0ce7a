#include <holdfast/address.hpp>
#include <holdfast/error.hpp>

#include "api/address/address_checks.hpp"
#include "api/address/address_parser.hpp"
#include "api/address/address_scheme.hpp"
#include "api/address/url.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace holdfast {

namespace {

// In the order of detail::address_part.
constexpr std::array<std::string_view, detail::address_part_count> names{
    "hosts",
    "socket_path",
    "database",
    "primary_name",
    "credentials",
    "credentials_source",
    "sentinel_credentials",
    "tls",
    "tls_options.ca_file",
    "tls_options.ca_directory",
    "tls_options.certificate_file",
    "tls_options.key_file",
    "tls_options.key_password",
    "tls_options.server_name",
    "tls_options.verify_name",
    "tls_options.min_version",
    "tls_options.verify",
    "tls_options.context",
    "deployment",
};

address_parts checked(address_parts parts) {
    auto const problem = detail::check(parts);
    if (!problem) return parts;
    auto name = "address_parts::" + std::string(names[static_cast<std::size_t>(problem->part)]);
    if (problem->part == detail::address_part::hosts)
        name += '[' + std::to_string(problem->host) + ']';
    throw system_error(make_error_code(errc::invalid_address), name + ": " + problem->reason);
}

std::string printed(host_port const& h) {
    auto const v6 = h.host.find(':') != h.host.npos;
    // The % of a zone is written %25.
    return (v6 ? '[' + detail::percent_encoded(h.host, ":") + ']' : h.host) + ':' +
           std::to_string(h.port);
}

std::string printed_socket(std::string const& path) {
    constexpr std::string_view as_they_are = "/:@!$&'()*+,;=";
    auto encoded = detail::percent_encoded(path, as_they_are);
    // unix:/path is not decoded, and unix://path has a host.
    if (encoded != path || path.starts_with("//")) return "unix://" + std::move(encoded);
    return "unix:" + std::move(encoded);
}

} // namespace

address::address(std::string_view text)
    : parts_(detail::parse_address(text)) {}

address::address(address_parts parts)
    : parts_(checked(std::move(parts))) {}

std::string const& address::host() const noexcept {
    static std::string const none;
    return parts_.hosts.empty() ? none : parts_.hosts.front().host;
}

std::uint16_t address::port() const noexcept {
    return parts_.hosts.empty() ? std::uint16_t{0} : parts_.hosts.front().port;
}

std::string address::to_string() const {
    if (!parts_.socket_path.empty()) return printed_socket(parts_.socket_path);
    std::string hosts;
    for (auto const& h : parts_.hosts) hosts += (hosts.empty() ? "" : ",") + printed(h);
    // unix:6379 would be a path.
    auto const short_form = !parts_.tls && host() != "unix";
    if (parts_.deployment == holdfast::deployment::server && short_form) return hosts;
    auto text = std::string(detail::scheme_of(parts_).name) + "://" + hosts;
    if (!parts_.primary_name.empty()) text += '/' + detail::percent_encoded(parts_.primary_name);
    if (parts_.database != 0) text += '/' + std::to_string(parts_.database);
    return text;
}

bool address::same_server(address const& other) const noexcept {
    auto const& mine = parts_;
    auto const& theirs = other.parts_;
    // Sentinels, and only they, have the name of a primary.
    if (mine.primary_name != theirs.primary_name) return false;
    if (mine.socket_path != theirs.socket_path) return false;
    if (!mine.socket_path.empty()) return true;
    return std::any_of(mine.hosts.begin(), mine.hosts.end(), [&](host_port const& h) {
        return std::find(theirs.hosts.begin(), theirs.hosts.end(), h) != theirs.hosts.end();
    });
}

} // namespace holdfast
