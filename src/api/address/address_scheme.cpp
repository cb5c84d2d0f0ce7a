#include "api/address/address_scheme.hpp"

#include <algorithm>
#include <array>

namespace holdfast::detail {

namespace {

constexpr std::size_t own_schemes = 7;
constexpr std::array<address_scheme, 16> schemes{{
    {"redis", deployment::server},
    {"rediss", deployment::server, true},
    {"redis+sentinel", deployment::sentinel},
    {"rediss+sentinel", deployment::sentinel, true},
    {"redis+cluster", deployment::cluster},
    {"rediss+cluster", deployment::cluster, true},
    {"unix", deployment::server, false, true},
    // Names that other libraries use.
    {"valkey", deployment::server},
    {"valkeys", deployment::server, true},
    {"valkey+sentinel", deployment::sentinel},
    {"valkeys+sentinel", deployment::sentinel, true},
    {"valkey+cluster", deployment::cluster},
    {"valkeys+cluster", deployment::cluster, true},
    {"redis-socket", deployment::server, false, true},
    {"redis-sentinel", deployment::sentinel},
    {"rediss-sentinel", deployment::sentinel, true},
}};

constexpr std::string_view digits = "0123456789";

/// True if the text has a ':' or an '@' as a URL encodes them.
bool has_encoded_separator(std::string_view text) {
    for (std::string_view const code : {"%3A", "%3a", "%40"}) {
        if (text.find(code) != text.npos) return true;
    }
    return false;
}

/// True if these may be brackets around an address of IPv6, with or without a zone.
bool has_brackets(std::string_view text) {
    auto const close = text.find(']');
    if (!text.starts_with('[') || close == text.npos) return false;
    auto const inner = text.substr(1, close - 1);
    return inner.substr(0, inner.find('%')).find_first_not_of("0123456789abcdefABCDEF:.") ==
           inner.npos;
}

/// The end of what can be shown of an authority behind its last @: the first colon that no port
/// follows. npos if all can be shown.
std::size_t end_of_numbers(std::string_view text, std::size_t begin, bool has_scheme) {
    constexpr std::size_t longest = 5; // of a port
    // In redis:/user:password the authority seems to end early.
    auto const end = std::min(text.find_first_of(has_scheme ? "/?#" : "?#", begin), text.size());
    if (has_encoded_separator(text.substr(begin, end - begin))) return begin;
    auto inside = false; // brackets
    for (auto i = begin; i < end; ++i) {
        if (text[i] == '[') inside = has_brackets(text.substr(i, end - i));
        if (text[i] == ']') inside = false;
        if (inside || text[i] != ':') continue;
        auto const stop = std::min(text.find_first_not_of(digits, i + 1), end);
        auto const ends = stop == end || std::string_view(",/:").find(text[stop]) != text.npos;
        if (!ends || stop - i - 1 > longest) return i + 1;
    }
    return text.npos;
}

} // namespace

address_scheme const* find_scheme(std::string_view name) {
    auto const alike = [](char own, char given) {
        return own == (given >= 'A' && given <= 'Z' ? given - 'A' + 'a' : given);
    };
    auto const* const found =
        std::find_if(schemes.begin(), schemes.end(), [&](address_scheme const& s) {
            return std::equal(s.name.begin(), s.name.end(), name.begin(), name.end(), alike);
        });
    return found == schemes.end() ? nullptr : found;
}

address_scheme const& scheme_of(address_parts const& parts) {
    return *std::find_if(schemes.begin(), schemes.end(), [&](address_scheme const& s) {
        return s.deployment == parts.deployment && s.tls == parts.tls;
    });
}

std::string scheme_names() {
    std::string all;
    for (std::size_t i = 0; i < own_schemes; ++i)
        all += (i == 0 ? "" : ", ") + std::string(schemes[i].name);
    return all;
}

bool is_plain_path(std::string_view text) {
    constexpr std::string_view unix_name = "unix:";
    if (text.size() < unix_name.size() || text.substr(unix_name.size()).starts_with("//"))
        return false;
    auto const* const found = find_scheme(text.substr(0, unix_name.size() - 1));
    return found != nullptr && found->name == "unix" && text[unix_name.size() - 1] == ':';
}

std::size_t end_of_scheme(std::string_view text) {
    auto const end = text.find("://");
    return end != 0 && end != text.npos && text.find_first_of(":@/?#") == end ? end : text.npos;
}

std::string masked(std::string_view text) {
    auto const scheme = end_of_scheme(text);
    auto const at = text.rfind('@');
    auto const options = text.find('?');
    auto start = std::size_t{0};
    if (scheme != text.npos && (at == text.npos || find_scheme(text.substr(0, scheme)) != nullptr))
        start = scheme + 3;
    auto shown = std::string(text.substr(0, start));
    // A text that lacks the ? of its options has the = behind their names.
    auto end = std::min(options, text.find('=', at == text.npos ? start : at));
    if (end != text.npos) ++end;
    auto hosts = start;
    if (at != text.npos) {
        shown += "***";
        if (options < at) return shown;
        start = at;
        hosts = at + 1;
    }
    if (!is_plain_path(text)) end = std::min(end, end_of_numbers(text, hosts, scheme != text.npos));
    shown += text.substr(start, end == text.npos ? end : end - start);
    if (end != text.npos) shown += "***";
    // A NUL would end the message early.
    std::replace_if(
        shown.begin(), shown.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
    return shown;
}

} // namespace holdfast::detail
