#include "runtime/token_source.hpp"

#include <openssl/rand.h>
#include <stdexcept>
#include <utility>

namespace holdfast::runtime {

std::uint64_t token_source::take() {
    if (used_ == pool_.size()) {
        // OpenSSL's generator is seeded by the operating system and notices a fork.
        if (RAND_bytes(reinterpret_cast<unsigned char*>(pool_.data()), static_cast<int>(sizeof pool_)) != 1) {
            throw std::runtime_error("no random numbers are to be had from the operating system");
        }
        used_ = 0;
    }
    return std::exchange(pool_[used_++], 0);
}

token token_source::next_token() {
    static constexpr char digits[] = "0123456789abcdef";
    token t;
    for (std::size_t half = 0; half < 2; ++half) {
        auto bits = take();
        for (std::size_t i = 0; i < 16; ++i, bits >>= 4) t[half * 16 + i] = digits[bits & 15];
    }
    return t;
}

std::uint64_t token_source::next_bits() {
    return take();
}

} // namespace holdfast::runtime
