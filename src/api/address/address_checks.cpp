#include "api/address/address_checks.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/address_v6.hpp>
#include <boost/system/error_code.hpp>

#include <algorithm>
#include <sys/un.h>
#include <utility>
#include <vector>

namespace holdfast::detail {

namespace {

using problem = std::optional<address_problem>;

problem fault(address_part part, std::string reason) {
    return address_problem{part, 0, std::move(reason)};
}

problem fault_of_host(std::size_t number, std::string reason) {
    return address_problem{address_part::hosts, number, std::move(reason)};
}

bool is_alphanumeric(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool has_control_character(std::string_view text) {
    return std::any_of(text.begin(), text.end(),
                       [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

void to_lower(std::string& name) {
    std::transform(name.begin(), name.end(), name.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
}

/// The address of IPv6 in its canonical form. A zone is the name of an interface, and stays.
std::optional<std::string> canonical_v6(std::string_view text) {
    auto const zone = std::min(text.find('%'), text.size());
    auto const name = text.substr(zone).substr(zone < text.size() ? 1 : 0);
    if (zone < text.size() &&
        (name.empty() || !std::all_of(name.begin(), name.end(), is_unreserved)))
        return std::nullopt;
    auto const number = text.substr(0, zone);
    // A NUL would end the text early.
    if (number.find('\0') != number.npos) return std::nullopt;
    boost::system::error_code ec;
    auto const parsed = boost::asio::ip::make_address_v6(std::string(number), ec);
    if (ec) return std::nullopt;
    return parsed.to_string() + std::string(text.substr(zone));
}

problem check_hosts(address_parts& parts) {
    auto const default_port = parts.deployment == deployment::sentinel ? 26379 : 6379;
    for (std::size_t i = 0; i < parts.hosts.size(); ++i) {
        auto& [host, port] = parts.hosts[i];
        if (host.empty()) return fault_of_host(i, "the host is empty");
        if (host.find(':') != host.npos) {
            auto canonical = canonical_v6(host);
            if (!canonical) return fault_of_host(i, "the host is no address of IPv6");
            host = *std::move(canonical);
        } else {
            if (auto const reason = fault_of_host_name(host); !reason.empty())
                return fault_of_host(i, std::string(reason));
            to_lower(host);
        }
        if (port == 0) port = static_cast<std::uint16_t>(default_port);
        auto const end = parts.hosts.begin() + static_cast<std::ptrdiff_t>(i);
        if (std::find(parts.hosts.begin(), end, *end) != end)
            return fault_of_host(i, "the host is given twice");
    }
    return std::nullopt;
}

problem check_socket(address_parts const& parts) {
    auto const& path = parts.socket_path;
    // The system needs a NUL at the end.
    constexpr auto limit = sizeof(sockaddr_un::sun_path) - 1;
    auto const refused = [](std::string reason) {
        return fault(address_part::socket_path, std::move(reason));
    };
    if (!parts.hosts.empty()) return refused("a socket excludes hosts");
    if (parts.deployment != deployment::server)
        return refused("neither Sentinel nor Cluster has a socket");
    if (!path.starts_with('/')) return refused("a socket needs an absolute path");
    if (path.find('\0') != path.npos) return refused("the path has a NUL byte");
    if (path.size() > limit) {
        return refused("the path of a Unix socket may have " + std::to_string(limit) +
                       " bytes, and this one has " + std::to_string(path.size()));
    }
    if (parts.tls) return fault(address_part::tls, "a Unix socket has no TLS");
    return std::nullopt;
}

problem check_values(address_parts& parts) {
    auto const kind = parts.deployment;
    if (kind != deployment::server && kind != deployment::sentinel && kind != deployment::cluster)
        return fault(address_part::deployment, "there is no such deployment");
    auto const version = parts.tls_options.min_version;
    if (version != tls_version::v1_2 && version != tls_version::v1_3)
        return fault(address_part::min_version, "there is no such version of TLS");
    return std::nullopt;
}

problem check_places(address_parts& parts) {
    if (!parts.socket_path.empty()) return check_socket(parts);
    if (parts.hosts.empty()) return fault_of_host(0, "there is no host");
    if (auto found = check_hosts(parts)) return found;
    if (parts.deployment == deployment::server && parts.hosts.size() > 1) {
        return fault_of_host(1, "a server has one host; several need Sentinel or Cluster "
                                "(redis+sentinel:// or redis+cluster://)");
    }
    return std::nullopt;
}

problem check_names(address_parts& parts) {
    auto const has_sentinels = parts.deployment == deployment::sentinel;
    if (parts.primary_name.empty() && has_sentinels) {
        return fault(address_part::primary_name,
                     "Sentinel needs the name of the primary (redis+sentinel://host/name)");
    }
    if (!parts.primary_name.empty() && !has_sentinels)
        return fault(address_part::primary_name, "only Sentinel knows a primary by its name");
    if (has_control_character(parts.primary_name))
        return fault(address_part::primary_name, "the name of the primary has a control character");
    if (parts.deployment == deployment::cluster && parts.database != 0)
        return fault(address_part::database, "a Cluster has no databases");
    return std::nullopt;
}

problem check_credentials(address_parts& parts) {
    auto const user_alone = [](credentials const& c) {
        return !c.user.empty() && c.password.empty();
    };
    auto const& own = parts.credentials;
    auto const& sentinel = parts.sentinel_credentials;
    if (user_alone(own)) {
        return fault(address_part::credentials, "there is a user and no password "
                                                "(write user:password@ or :password@)");
    }
    if (parts.credentials_source && !own.password.empty()) {
        return fault(address_part::credentials_source,
                     "a source of credentials excludes a password");
    }
    if (user_alone(sentinel)) {
        return fault(address_part::sentinel_credentials,
                     "there is a user of the sentinels and no password (sentinel_password)");
    }
    if (parts.deployment != deployment::sentinel && !sentinel.password.empty()) {
        return fault(address_part::sentinel_credentials,
                     "only sentinels take the credentials of sentinels");
    }
    return std::nullopt;
}

/// The options that the program or the text has set.
std::vector<address_part> tls_options_set(tls_options const& o) {
    std::vector<address_part> all;
    auto const add = [&](bool set, address_part part) {
        if (set) all.push_back(part);
    };
    add(!o.ca_file.empty(), address_part::ca_file);
    add(!o.ca_directory.empty(), address_part::ca_directory);
    add(!o.certificate_file.empty(), address_part::certificate_file);
    add(!o.key_file.empty(), address_part::key_file);
    add(!o.key_password.empty(), address_part::key_password);
    add(!o.server_name.empty(), address_part::server_name);
    add(!o.verify_name.empty(), address_part::verify_name);
    add(o.min_version != tls_version::v1_2, address_part::min_version);
    add(!o.verify, address_part::verify);
    add(o.context != nullptr, address_part::context);
    return all;
}

bool is_address(std::string const& text) {
    boost::system::error_code ec;
    boost::asio::ip::make_address(text, ec);
    return !ec && text.find('\0') == text.npos;
}

problem check_tls_names(tls_options const& o) {
    if (is_address(o.server_name))
        return fault(address_part::server_name, "a client sends a name (SNI), not an address");
    if (auto const reason = fault_of_host_name(o.server_name); !reason.empty())
        return fault(address_part::server_name, std::string(reason));
    // A certificate has addresses without a zone.
    if (is_address(o.verify_name) && o.verify_name.find('%') == std::string::npos)
        return std::nullopt;
    if (auto const reason = fault_of_host_name(o.verify_name); !reason.empty())
        return fault(address_part::verify_name, std::string(reason));
    return std::nullopt;
}

problem check_tls_files(tls_options const& o) {
    std::pair<std::string const&, address_part> const paths[] = {
        {o.ca_file, address_part::ca_file},
        {o.ca_directory, address_part::ca_directory},
        {o.certificate_file, address_part::certificate_file},
        {o.key_file, address_part::key_file},
    };
    for (auto const& [path, part] : paths)
        if (path.find('\0') != path.npos) return fault(part, "the path has a NUL byte");
    if (o.certificate_file.empty() != o.key_file.empty()) {
        return fault(o.key_file.empty() ? address_part::certificate_file : address_part::key_file,
                     "a certificate and its key need each other; one file may hold both");
    }
    if (!o.key_password.empty() && o.key_file.empty())
        return fault(address_part::key_password, "there is no key that it could decrypt");
    return std::nullopt;
}

problem check_tls(address_parts& parts) {
    auto const& o = parts.tls_options;
    auto const set = tls_options_set(o);
    if (!set.empty() && !parts.tls) return fault(set.front(), "it needs TLS (rediss://)");
    if (o.context != nullptr) {
        for (auto const part : set) {
            if (part < address_part::server_name || part == address_part::min_version ||
                part == address_part::verify)
                return fault(part, "a TLS context of the program excludes it");
        }
    }
    if (auto found = check_tls_files(o)) return found;
    return check_tls_names(o);
}

} // namespace

std::string_view fault_of_host_name(std::string_view name) {
    for (char const c : name) {
        if (c == '\0') return "the host has a NUL byte";
        if (static_cast<unsigned char>(c) >= 0x80)
            return "the host is not ASCII; use punycode (xn--..)";
        if (!is_alphanumeric(c) && std::string_view("-._").find(c) == std::string_view::npos)
            return "a host has only letters, digits, '-', '.' and '_'";
    }
    return {};
}

bool is_unreserved(char c) {
    return is_alphanumeric(c) || std::string_view("-._~").find(c) != std::string_view::npos;
}

std::optional<address_problem> check(address_parts& parts) {
    for (auto* const rule : {check_values, check_places, check_names, check_credentials, check_tls})
        if (auto found = rule(parts)) return found;
    return std::nullopt;
}

} // namespace holdfast::detail
