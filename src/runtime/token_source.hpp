// The random values that prove who owns a key.
#ifndef HOLDFAST_RUNTIME_TOKEN_SOURCE_HPP
#define HOLDFAST_RUNTIME_TOKEN_SOURCE_HPP

#include <array>
#include <cstddef>
#include <cstdint>

namespace holdfast::runtime {

/// 128 random bits in hexadecimal: whoever could guess them could release another's lock.
using token = std::array<char, 32>;

/// Random bits of the operating system, fetched many at a time.
class token_source {
public:
    token next_token();
    std::uint64_t next_bits();

private:
    std::uint64_t take();

    std::array<std::uint64_t, 256> pool_{};
    std::size_t used_ = pool_.size();
};

} // namespace holdfast::runtime

#endif
