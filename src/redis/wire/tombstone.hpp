// A tombstone is the value that a revocation leaves in place of a token: `revoked@`, the label of
// the client that has revoked the holder, a colon, and 32 hexadecimal digits. It has the form of a
// token, so every client reports `revoked@LABEL` as the holder, and no client draws this token.
//
// The digits are the beginning of the token's SHA-256. So a holder recognizes the tombstone of its
// own token, and a second revocation finds what the first one has done.
#ifndef HOLDFAST_REDIS_TOMBSTONE_HPP
#define HOLDFAST_REDIS_TOMBSTONE_HPP

#include <holdfast/options.hpp>

#include "redis/wire/token.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace holdfast::redis {

/// The scripts of extensions know it, too.
inline constexpr std::string_view tombstone_start = "revoked@";
inline constexpr std::size_t digest_size = 16;

/// What reports show of a token: the first digits of its SHA-256.
std::string digest_of(std::string_view token);
/// Of a token. `label`: of the client that revokes. As much of it as there is room for.
std::string tombstone_of(std::string_view of, std::string_view label);
/// Whether the text is the tombstone of this token.
bool replaces(std::string_view tombstone, std::string_view of);

constexpr bool is_tombstone(std::string_view text) {
    return label_of(text).starts_with(tombstone_start);
}
/// The digest of the token that a tombstone has replaced.
constexpr std::string_view digest_in(std::string_view tombstone) {
    return tombstone.substr(tombstone.size() - token::digits, digest_size);
}
/// The label of the client that has revoked the holder, from what label_of() gives.
constexpr std::string_view revoker_in(std::string_view label) {
    return label.substr(std::min(label.size(), tombstone_start.size()));
}

} // namespace holdfast::redis

#endif
