#include "redis/wire/kinds/slot_fence_key.hpp"

#include "protocol/cluster/hash_slot.hpp"
#include "redis/wire/kinds/exclusive_key.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace holdfast::redis {

namespace {

constexpr unsigned letter_bits = 4; ///< of `@` to `O`, the bits that differ
constexpr std::size_t letters = 4;
constexpr unsigned tag_bits = letter_bits * letters;

using tag = std::array<char, letters>;

/// `@` has none of the bits.
constexpr tag tag_with(unsigned bits) {
    tag t{};
    for (auto& letter : t) {
        letter = static_cast<char>('@' + (bits & 0xFU));
        bits >>= letter_bits;
    }
    return t;
}

constexpr unsigned slot_of(tag const& t) {
    return protocol::crc16({t.data(), t.size()}) % protocol::hash_slots;
}

constexpr unsigned slot_of_zero = slot_of(tag_with(0));

/// CRC16 is affine: each bit of the tag changes the slot by XOR with a value of its own. Gaussian
/// elimination turns these values around. Entry i holds the bits of the tag that change bit i of
/// the slot alone.
constexpr std::array<std::uint16_t, tag_bits> invert() {
    std::array<unsigned, tag_bits> change{}, bits{};
    for (unsigned i = 0; i < tag_bits; ++i) {
        bits[i] = 1U << i;
        change[i] = slot_of(tag_with(bits[i])) ^ slot_of_zero;
    }
    std::array<std::uint16_t, tag_bits> table{};
    unsigned row = 0;
    for (unsigned bit = 0; (1U << bit) < protocol::hash_slots; ++bit) {
        auto pivot = row;
        while ((change[pivot] >> bit & 1U) == 0) ++pivot; // beyond the end: no constant expression
        std::swap(change[row], change[pivot]);
        std::swap(bits[row], bits[pivot]);
        for (unsigned i = 0; i < tag_bits; ++i) {
            if (i == row || (change[i] >> bit & 1U) == 0) continue;
            change[i] ^= change[row];
            bits[i] ^= bits[row];
        }
        ++row;
    }
    for (unsigned i = 0; i < row; ++i) table[i] = static_cast<std::uint16_t>(bits[i]);
    return table;
}

constexpr auto tag_changes = invert();

} // namespace

std::array<char, 4> tag_of_slot(unsigned slot) {
    unsigned bits = 0;
    auto const change = slot ^ slot_of_zero;
    for (unsigned i = 0; i < tag_bits; ++i) {
        if ((change >> i & 1U) != 0) bits ^= tag_changes[i];
    }
    return tag_with(bits);
}

void name_cluster_fence_key(std::string& name, std::string_view key) {
    auto const tagged = !protocol::hash_tag(key).empty();
    if (tagged || (!key.empty() && key.find('}') == key.npos)) return name_fence_key(name, key);
    auto const t = tag_of_slot(protocol::hash_slot(key));
    name.clear();
    name += '{';
    name.append(t.data(), t.size());
    name += '}';
    name += key;
    name += ":fence";
}

} // namespace holdfast::redis
