// The hash slot of a key: the share of a Cluster's keys to which the key belongs.
//
// Source: https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/ ("Key
// distribution model", "Hash tags"). The hash is CRC16/XMODEM: polynomial 0x1021, begins with 0.
#ifndef HOLDFAST_PROTOCOL_HASH_SLOT_HPP
#define HOLDFAST_PROTOCOL_HASH_SLOT_HPP

#include <array>
#include <cstdint>
#include <string_view>

namespace holdfast::protocol {

inline constexpr unsigned hash_slots = 16'384;

namespace detail {

constexpr std::array<std::uint16_t, 256> make_crc_table() {
    std::array<std::uint16_t, 256> table{};
    for (unsigned byte = 0; byte < table.size(); ++byte) {
        unsigned crc = byte << 8U;
        for (int bit = 0; bit < 8; ++bit) crc = (crc << 1U) ^ ((crc & 0x8000U) != 0 ? 0x1021U : 0U);
        table[byte] = static_cast<std::uint16_t>(crc);
    }
    return table;
}
inline constexpr auto crc_table = make_crc_table();

} // namespace detail

constexpr std::uint16_t crc16(std::string_view bytes) {
    std::uint16_t crc = 0;
    for (char const c : bytes) {
        auto const index = static_cast<std::uint8_t>((crc >> 8U) ^ static_cast<std::uint8_t>(c));
        crc = static_cast<std::uint16_t>((crc << 8U) ^ detail::crc_table[index]);
    }
    return crc;
}

/// The bytes between the first `{` and the first `}` after it. Empty if there are none. Later
/// braces never count.
constexpr std::string_view hash_tag(std::string_view key) {
    auto const open = key.find('{');
    if (open == key.npos) return {};
    auto const close = key.find('}', open + 1);
    if (close == key.npos) return {};
    return key.substr(open + 1, close - open - 1);
}

/// The slot of the hash tag, or of the whole key if the key has no tag.
constexpr unsigned hash_slot(std::string_view key) {
    auto const tag = hash_tag(key);
    return crc16(tag.empty() ? key : tag) % hash_slots;
}

} // namespace holdfast::protocol

#endif
