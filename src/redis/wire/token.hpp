// The random values that prove the ownership of a key, with their labels.
#ifndef HOLDFAST_REDIS_TOKEN_HPP
#define HOLDFAST_REDIS_TOKEN_HPP

#include <holdfast/lease_token.hpp>
#include <holdfast/options.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace holdfast::redis {

/// The text of a token. Refers to a text that it is made of, and has its own copy of a text that
/// it is made from random bits.
class token_text {
public:
    constexpr token_text() = default;
    template <std::convertible_to<std::string_view> Text>
    constexpr token_text(Text const& other) // NOLINT: implicit, as that of a view
        : other_(other) {}
    /// 32 hexadecimal digits, after the label and a colon if there is a label.
    token_text(std::string_view label, std::array<std::uint64_t, 2> const& random) {
        auto* out = own_.data();
        if (!label.empty()) {
            out = std::copy(label.begin(), label.end(), out);
            *out++ = ':';
        }
        for (auto bits : random) {
            for (int i = 0; i < 8; ++i, bits >>= 8, out += 2)
                std::copy_n(pairs.begin() + 2 * (bits & 255), 2, out);
        }
        size_ = static_cast<std::uint8_t>(out - own_.data());
    }

    constexpr std::string_view view() const {
        return size_ != 0 ? std::string_view(own_.data(), size_) : other_;
    }
    constexpr operator std::string_view() const { return view(); }

private:
    static constexpr std::array<char, 512> pairs = [] {
        constexpr std::string_view hex = "0123456789abcdef";
        std::array<char, 512> all{};
        for (std::size_t i = 0; i < 256; ++i) {
            all[2 * i] = hex[i >> 4];
            all[2 * i + 1] = hex[i & 15];
        }
        return all;
    }();

    std::string_view other_;
    std::array<char, max_token_size> own_{};
    std::uint8_t size_ = 0;
};

/// 128 random bits. A client that could guess them could release another client's lock.
class token {
public:
    static constexpr std::size_t digits = 32;
    static constexpr std::size_t max_size = max_token_size;

    token() = default;
    explicit token(std::array<std::uint64_t, 2> const& random)
        : random_(random) {}
    token_text text(std::string_view label) const { return {label, random_}; }
    /// The token whose text ends with these characters. All other texts give some token, too.
    static token of_text(std::string_view text) {
        token t;
        if (text.size() < digits) return t;
        text.remove_prefix(text.size() - digits);
        for (std::size_t i = 0; i < digits; ++i) {
            auto const c = static_cast<unsigned char>(text[i]);
            auto const digit = static_cast<std::uint64_t>(c >= 'a' ? c - 'a' + 10 : c - '0') & 15U;
            // The first of two digits is the upper half of a byte; the first byte is the lowest.
            t.random_[i / 16] |= digit << (i % 16 / 2 * 8 + (i % 2 == 0 ? 4 : 0));
        }
        return t;
    }
    friend bool operator==(token const&, token const&) = default;
    friend std::size_t hash_value(token const& t) {
        return static_cast<std::size_t>(t.random_[0]); // random already
    }

private:
    std::array<std::uint64_t, 2> random_{};
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
