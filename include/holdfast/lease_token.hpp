#ifndef HOLDFAST_LEASE_TOKEN_HPP
#define HOLDFAST_LEASE_TOKEN_HPP

#include <holdfast/options.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace holdfast {

/// Of the library's own tokens: a label, a colon, and 128 bits in hexadecimal.
inline constexpr std::size_t max_token_size = max_label_size + 1 + 32;

/// Proves the ownership of a lease: lease::token() gives it, client::adopt() takes it.
///
/// It is a secret. A process that knows it can extend and release the lock.
struct lease_token {
    std::string value;       ///< the value of the key on the instances: 1 to max_token_size bytes
    std::uint64_t fence = 0; ///< the lease's fencing token, or 0 for none
    std::optional<unsigned> slot{}; ///< of a permit: lease::slot()
    /// Of a reader: others of its process shared it on the servers (read_write_lock.hpp), and may
    /// still do. So the process that adopts it leaves the key to its ttl. It has to be told: a
    /// writer may come beside those others if the adopted lease is released without it.
    bool shared = false;
};

} // namespace holdfast

#endif
