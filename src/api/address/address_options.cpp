#include "api/address/address_options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <numeric>
#include <system_error>
#include <utility>
#include <vector>

namespace holdfast::detail {

namespace {

using parts = address_parts;

constexpr char const* taken = nullptr;

char const* set_database(parts& p, std::string value) {
    return parse_number(value, p.database) ? taken : "db is not the number of a database";
}

char const* set_min_version(parts& p, std::string value) {
    if (value != "1.2" && value != "1.3") return "tls_min is neither 1.2 nor 1.3";
    p.tls_options.min_version = value == "1.2" ? tls_version::v1_2 : tls_version::v1_3;
    return taken;
}

template <std::string tls_options::*Member>
char const* set_tls(parts& p, std::string value) {
    p.tls_options.*Member = std::move(value);
    return taken;
}

template <std::string credentials::*Member>
char const* set_sentinel(parts& p, std::string value) {
    p.sentinel_credentials.*Member = std::move(value);
    return taken;
}

constexpr std::array<address_option, 10> options{{
    {"ca", option_scope::tls, address_part::ca_file, set_tls<&tls_options::ca_file>},
    {"capath", option_scope::tls, address_part::ca_directory, set_tls<&tls_options::ca_directory>},
    {"cert", option_scope::tls, address_part::certificate_file,
     set_tls<&tls_options::certificate_file>},
    {"db", option_scope::servers, address_part::database, set_database},
    {"key", option_scope::tls, address_part::key_file, set_tls<&tls_options::key_file>},
    {"sentinel_password", option_scope::sentinel, address_part::sentinel_credentials,
     set_sentinel<&credentials::password>},
    {"sentinel_user", option_scope::sentinel, address_part::sentinel_credentials,
     set_sentinel<&credentials::user>},
    {"sni", option_scope::tls, address_part::server_name, set_tls<&tls_options::server_name>},
    {"tls_min", option_scope::tls, address_part::min_version, set_min_version},
    {"verify_name", option_scope::tls, address_part::verify_name,
     set_tls<&tls_options::verify_name>},
}};

/// The least number of characters to insert, delete or replace.
std::size_t distance(std::string_view from, std::string_view to) {
    std::vector<std::size_t> row(to.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < from.size(); ++i) {
        auto diagonal = std::exchange(row[0], i + 1);
        for (std::size_t j = 0; j < to.size(); ++j) {
            auto const replaced = diagonal + (from[i] == to[j] ? 0 : 1);
            diagonal = row[j + 1];
            row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
        }
    }
    return row.back();
}

} // namespace

address_option const* find_option(std::string_view name) {
    auto const* const found = std::find_if(options.begin(), options.end(),
                                           [&](address_option const& o) { return o.name == name; });
    return found == options.end() ? nullptr : found;
}

address_option const* nearest_option(std::string_view name) {
    // Longer names are near none, and would take long to compare.
    if (name.size() > 32) return nullptr;
    address_option const* nearest = nullptr;
    auto least = std::size_t{3};
    for (auto const& o : options) {
        auto const far = distance(name, o.name);
        if (far >= least || far >= o.name.size()) continue;
        least = far;
        nearest = &o;
    }
    return nearest;
}

std::string option_names() {
    std::string all;
    for (auto const& o : options) all += (all.empty() ? "" : ", ") + std::string(o.name);
    return all;
}

std::string misplaced(address_option const& o, address_parts const& p) {
    auto const name = std::string(o.name);
    switch (o.scope) {
    case option_scope::servers:
        return p.deployment == deployment::cluster ? "a Cluster has no databases" : "";
    case option_scope::tls:
        return p.tls ? "" : "the option " + name + " needs TLS (rediss://)";
    case option_scope::sentinel:
        return p.deployment == deployment::sentinel
                   ? ""
                   : "the option " + name + " needs Sentinel (redis+sentinel://)";
    }
    return {};
}

bool parse_number(std::string_view text, unsigned& number) {
    auto const [end, ec] = std::from_chars(text.data(), text.data() + text.size(), number);
    return ec == std::errc{} && end == text.data() + text.size();
}

} // namespace holdfast::detail
