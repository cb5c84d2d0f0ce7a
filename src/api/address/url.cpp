#include "api/address/url.hpp"

#include "api/address/address_checks.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace holdfast::detail {

namespace {

constexpr auto npos = std::string_view::npos;

bool is_hexadecimal(char c) {
    return std::string_view("0123456789abcdefABCDEF").find(c) != npos;
}

} // namespace

std::size_t find_url_fault(std::string_view text) {
    constexpr std::string_view delimiters = "!$&'()*+,;=:@/?";
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '%') {
            auto const digits = text.substr(i + 1, 2);
            if (digits.size() < 2 || !std::all_of(digits.begin(), digits.end(), is_hexadecimal))
                return i;
        } else if (!is_unreserved(text[i]) && delimiters.find(text[i]) == npos) {
            return i;
        }
    }
    return npos;
}

std::size_t find_v6_fault(std::string_view number) {
    auto compressed = false;
    std::size_t digits = 0;
    for (std::size_t i = 0; i < number.size(); ++i) {
        auto const c = number[i];
        if (c == ':') {
            auto const doubled = i > 0 && number[i - 1] == ':';
            if (doubled && std::exchange(compressed, true)) return i;
        } else if (c != '.' && !is_hexadecimal(c)) {
            return i;
        }
        digits = is_hexadecimal(c) ? digits + 1 : 0;
        if (digits > 4) return i;
    }
    return number.find(':') == npos ? number.size() : npos;
}

std::string percent_decoded(std::string_view text) {
    std::string result;
    result.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            result += text[i];
            continue;
        }
        unsigned char byte = 0;
        std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16);
        result += static_cast<char>(byte);
        i += 2;
    }
    return result;
}

std::string percent_encoded(std::string_view text, std::string_view also) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    std::string result;
    for (char const c : text) {
        if (is_unreserved(c) || also.find(c) != npos) {
            result += c;
            continue;
        }
        auto const byte = static_cast<unsigned char>(c);
        result += {'%', digits[byte / 16U], digits[byte % 16U]};
    }
    return result;
}

} // namespace holdfast::detail
