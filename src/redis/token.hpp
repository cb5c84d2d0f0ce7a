// The random values that prove the ownership of a key, with their labels.
#ifndef HOLDFAST_REDIS_TOKEN_HPP
#define HOLDFAST_REDIS_TOKEN_HPP

#include <holdfast/lease_token.hpp>
#include <holdfast/options.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace holdfast::redis {

/// 128 random bits in hexadecimal, after the label and a colon if there is a label. A client that
/// could guess the bits could release another client's lock.
class token {
public:
    static constexpr std::size_t digits = 32;
    static constexpr std::size_t max_size = max_token_size;

    void set(std::string_view label, std::array<std::uint64_t, 2> random) {
        auto* out = text_.data();
        if (!label.empty()) {
            out = std::copy(label.begin(), label.end(), out);
            *out++ = ':';
        }
        static constexpr char hex[] = "0123456789abcdef";
        for (auto bits : random) {
            for (int i = 0; i < 16; ++i, bits >>= 4) *out++ = hex[bits & 15];
        }
        size_ = static_cast<std::uint8_t>(out - text_.data());
    }

    /// Of another client. `text`: at most max_size bytes.
    void set(std::string_view text) {
        std::copy(text.begin(), text.end(), text_.begin());
        size_ = static_cast<std::uint8_t>(text.size());
    }

    std::string_view text() const { return {text_.data(), size_}; }

private:
    std::array<char, max_size> text_{};
    std::uint8_t size_ = 0;
};

constexpr bool fits_label(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-' || c == '@';
}

/// The label in a token of this library; empty for all other texts.
constexpr std::string_view label_of(std::string_view text) {
    if (text.size() < token::digits + 2 || text.size() > token::max_size) return {};
    auto const label = text.substr(0, text.size() - token::digits - 1);
    auto const random = text.substr(label.size() + 1);
    auto const hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
    auto const ours = text[label.size()] == ':' &&
                      std::all_of(label.begin(), label.end(), fits_label) &&
                      std::all_of(random.begin(), random.end(), hex);
    return ours ? label : std::string_view();
}

} // namespace holdfast::redis

#endif
