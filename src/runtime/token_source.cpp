#include "runtime/token_source.hpp"

#include <openssl/rand.h>
#include <stdexcept>
#include <utility>

namespace holdfast::runtime {

std::uint64_t token_source::next_bits() {
    if (used_ == pool_.size()) {
        // OpenSSL's generator is seeded by the operating system and notices a fork.
        if (RAND_bytes(reinterpret_cast<unsigned char*>(pool_.data()), static_cast<int>(sizeof pool_)) != 1) {
            throw std::runtime_error("no random numbers are to be had from the operating system");
        }
        used_ = 0;
    }
    return std::exchange(pool_[used_++], 0);
}

void token_source::renew(redis::token& t) {
    auto const first = next_bits();
    t.set(label_, {first, next_bits()});
}

} // namespace holdfast::runtime
