// Random bits for tokens and pauses.
#ifndef HOLDFAST_RUNTIME_TOKEN_SOURCE_HPP
#define HOLDFAST_RUNTIME_TOKEN_SOURCE_HPP

#include "redis/wire/token.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::runtime {

/// Fetches random bits from OpenSSL's generator, many at a time. After a fork the child fetches new
/// bits.
class token_source {
public:
    explicit token_source(std::string_view label)
        : label_(label) {}

    redis::token next_token();
    /// Makes the text that names this client to others, once. May throw.
    void name_client();
    /// Empty before name_client().
    std::string_view client_name() const { return client_name_; }
    /// Precedes the random bits in the text of a token.
    std::string const& label() const { return label_; }
    std::uint64_t next_bits();
    /// For pauses, which need no secret. If the generator fails, the bits come from the time.
    std::uint64_t pause_bits() noexcept;

private:
    bool fill() noexcept;

    std::string const label_;
    std::string client_name_;
    std::array<std::uint64_t, 256> pool_{};
    std::size_t used_ = pool_.size();
    unsigned forks_ = 0; ///< count of forks when the bits were fetched
};

} // namespace holdfast::runtime

#endif
