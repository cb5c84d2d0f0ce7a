// Slots, hosts and ports in the texts of a Cluster's nodes.
#ifndef HOLDFAST_REDIS_SLOT_TEXT_HPP
#define HOLDFAST_REDIS_SLOT_TEXT_HPP

#include "protocol/cluster/hash_slot.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace holdfast::redis {

/// The number from `least` to `most` that is the whole text; empty if it is no such number.
inline std::optional<unsigned> to_number_within(std::string_view text, unsigned least,
                                                unsigned most) {
    unsigned n = 0;
    auto const* const last = text.data() + text.size();
    auto const [end, error] = std::from_chars(text.data(), last, n);
    if (error != std::errc{} || end != last || n < least || n > most) return std::nullopt;
    return n;
}
inline std::optional<unsigned> to_slot(std::string_view text) {
    return to_number_within(text, 0, protocol::hash_slots - 1);
}
inline std::optional<std::uint16_t> to_port(std::string_view text) {
    auto const n = to_number_within(text, 1, 0xFFFF);
    if (!n) return std::nullopt;
    return static_cast<std::uint16_t>(*n);
}

/// True if the text can be a host name, or an IPv4 or IPv6 address. A zone such as `%eth0` is part
/// of an address.
inline bool is_host(std::string_view text) {
    constexpr std::size_t longest = 253; // of a name in the DNS
    constexpr std::string_view other = ".-_:%";
    return !text.empty() && text.size() <= longest && std::ranges::all_of(text, [&](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               other.find(c) != other.npos;
    });
}

/// The beginning of a server's text, for messages. Bytes that are not printable become `.`.
inline std::string short_text(std::string_view text) {
    constexpr std::size_t longest = 40;
    std::string result(text.substr(0, longest));
    std::ranges::replace_if(
        result, [](char c) { return c < ' ' || c > '~'; }, '.');
    if (text.size() > longest) result += "..";
    return result;
}

} // namespace holdfast::redis

#endif
