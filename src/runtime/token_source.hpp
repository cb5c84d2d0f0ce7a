// The randomness of tokens and pauses.
#ifndef HOLDFAST_RUNTIME_TOKEN_SOURCE_HPP
#define HOLDFAST_RUNTIME_TOKEN_SOURCE_HPP

#include "redis/token.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::runtime {

/// Random bits of the operating system, fetched many at a time. After a fork the child fetches its
/// own.
class token_source {
public:
    explicit token_source(std::string_view label)
        : label_(label) {}

    void renew(redis::token&);
    std::uint64_t next_bits();
    /// For pauses, which need no secret: where no random numbers are to be had, the time will do.
    std::uint64_t pause_bits() noexcept;

private:
    std::string const label_;
    std::array<std::uint64_t, 256> pool_{};
    std::size_t used_ = pool_.size();
    unsigned forks_ = 0; ///< of the process, when they were fetched
};

} // namespace holdfast::runtime

#endif
