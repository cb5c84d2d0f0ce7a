#ifndef HOLDFAST_LEASE_END_HPP
#define HOLDFAST_LEASE_END_HPP

#include <holdfast/detail/api.hpp>

#include <cstdint>
#include <iosfwd>

namespace holdfast {

/// How a lease ended.
enum class lease_end : std::uint8_t {
    none,     ///< it has not ended
    released, ///< by release(), detach(), or the destructor of its last object
    /// It came to its end: no extension succeeded in time, the watchdog was off, or max_hold or
    /// extend_while() ended it.
    expired,
    key_gone,  ///< a majority of the instances has not our key any more: deleted, taken, forgotten
    shut_down, ///< the client ended, or its context was destroyed, while the lease was held
    /// A client took the lock away by client::revoke(). No other client has it before the deadline
    /// that the lease had.
    revoked,
};

/// The value in words, for example "expired".
HOLDFAST_API char const* to_string(lease_end) noexcept;
/// As to_string().
HOLDFAST_API std::ostream& operator<<(std::ostream&, lease_end);

/// True for each end without a release: another client may have got the lock.
inline bool is_loss(lease_end e) noexcept {
    return e > lease_end::released;
}

} // namespace holdfast

#endif
