#include "redis/wire/tombstone.hpp"

#include <array>
#include <openssl/sha.h>

namespace holdfast::redis {

namespace {

std::string digits_of(std::string_view text, std::size_t count) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::array<unsigned char, SHA256_DIGEST_LENGTH> hash{};
    SHA256(reinterpret_cast<unsigned char const*>(text.data()), text.size(), hash.data());
    std::string all;
    for (std::size_t i = 0; i < count / 2; ++i) {
        all += digits[hash[i] / 16];
        all += digits[hash[i] % 16];
    }
    return all;
}

} // namespace

std::string digest_of(std::string_view token) {
    return digits_of(token, digest_size);
}

std::string tombstone_of(std::string_view of, std::string_view label) {
    std::string text(tombstone_start);
    text += label.substr(0, max_label_size - tombstone_start.size());
    return text + ':' + digits_of(of, token::digits);
}

bool replaces(std::string_view tombstone, std::string_view of) {
    return is_tombstone(tombstone) && tombstone.ends_with(digits_of(of, token::digits));
}

} // namespace holdfast::redis
