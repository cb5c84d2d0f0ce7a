#include "testing/lua_number.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

namespace holdfast::testing {

namespace {

constexpr std::string_view blanks = " \f\n\r\t\v";

std::string written(double n, int digits) {
    std::array<char, 64> text{};
    auto const end =
        std::to_chars(text.data(), text.data() + text.size(), n, std::chars_format::general, digits)
            .ptr;
    return {text.data(), end};
}

} // namespace

std::optional<double> to_number(std::string_view text) {
    text = text.substr(0, text.find('\0')); // a script sees the beginning as a text of C
    text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
    text = text.substr(0, text.find_last_not_of(blanks) + 1);
    auto const negative = text.starts_with('-');
    if (negative || text.starts_with('+')) text.remove_prefix(1);
    auto const hex = text.starts_with("0x") || text.starts_with("0X");
    if (hex) text.remove_prefix(2);
    if (text.starts_with('-') || text.empty()) return std::nullopt;
    double n = 0;
    auto const* const end = text.data() + text.size();
    auto const read = std::from_chars(text.data(), end, n,
                                      hex ? std::chars_format::hex : std::chars_format::general);
    if (read.ptr != end || read.ec == std::errc::invalid_argument) return std::nullopt;
    if (read.ec == std::errc::result_out_of_range) {
        // Too small, or too large: strtod() gives zero or infinity.
        auto const small = text.find("e-") != text.npos || text.find("E-") != text.npos;
        n = small ? 0 : std::numeric_limits<double>::infinity();
    }
    return negative ? -n : n;
}

std::string to_text(double n) {
    return written(n, 14);
}

std::string to_argument(double n) {
    return written(n, 17);
}

std::int64_t to_reply(double n) {
    constexpr double limit = 9'223'372'036'854'775'808.0; // 2^63
    if (!(n >= -limit && n < limit)) return std::numeric_limits<std::int64_t>::min();
    return static_cast<std::int64_t>(n);
}

} // namespace holdfast::testing
