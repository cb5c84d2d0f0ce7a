// A hash of a text, the same in every process.
#ifndef HOLDFAST_REDIS_TEXT_HASH_HPP
#define HOLDFAST_REDIS_TEXT_HASH_HPP

#include <boost/hash2/fnv1a.hpp>

#include <cstdint>
#include <string_view>

namespace holdfast::redis {

inline std::uint64_t hash_of(std::string_view text) {
    boost::hash2::fnv1a_64 hash;
    hash.update(text.data(), text.size());
    return hash.result();
}

} // namespace holdfast::redis

#endif
