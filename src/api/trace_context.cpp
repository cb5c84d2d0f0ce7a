#include <holdfast/trace_context.hpp>

#include <algorithm>
#include <cstddef>
#include <span>

namespace holdfast {

namespace {

constexpr std::string_view digits = "0123456789abcdef";

// The standard allows lower case alone.
bool read_hex(std::string_view text, std::span<std::uint8_t> to) noexcept {
    for (std::size_t i = 0; i < to.size(); ++i) {
        auto const high = digits.find(text[2 * i]);
        auto const low = digits.find(text[2 * i + 1]);
        if (high == digits.npos || low == digits.npos) return false;
        to[i] = static_cast<std::uint8_t>(high * 16 + low);
    }
    return true;
}

void write_hex(std::string& text, std::span<std::uint8_t const> from) {
    for (auto const byte : from) {
        text += digits[byte / 16];
        text += digits[byte % 16];
    }
}

bool is_zero(std::span<std::uint8_t const> id) {
    return std::all_of(id.begin(), id.end(), [](auto byte) { return byte == 0; });
}

} // namespace

// https://www.w3.org/TR/trace-context/#versioning-of-traceparent
std::optional<trace_context> trace_context::parse(std::string_view text) noexcept {
    constexpr std::size_t length = 55;
    if (text.size() < length || text[2] != '-' || text[35] != '-' || text[52] != '-') return {};
    std::array<std::uint8_t, 1> version{}, flags{};
    trace_context parsed;
    auto const read = read_hex(text, version) && read_hex(text.substr(3), parsed.trace_id) &&
                      read_hex(text.substr(36), parsed.parent_id) &&
                      read_hex(text.substr(53), flags);
    if (!read || version[0] == 0xff) return {};
    if (text.size() > length && (version[0] == 0 || text[length] != '-')) return {};
    if (is_zero(parsed.trace_id) || is_zero(parsed.parent_id)) return {};
    parsed.flags = flags[0];
    return parsed;
}

std::string trace_context::to_string() const {
    std::string text = "00-";
    write_hex(text, trace_id);
    text += '-';
    write_hex(text, parent_id);
    text += '-';
    write_hex(text, std::span(&flags, 1));
    return text;
}

} // namespace holdfast
