// The arithmetic of fencing tokens ("fences"): a tenure's number from the instances' counters, and
// a lease's fence from that.
//
// A lease's fence is `tenure number * 100 + number of leases that the tenure served before`. The
// tenure number is the greatest that the granting instances counted, and a quorum that the tenure
// owns must hold at least that number (see tenure_number.hpp). Every later tenure shares an
// instance with that quorum, so it counts on from there.
//
// A fence is below 2^53, so Lua, JavaScript and JSON represent it exactly as a number. It is close
// to the time in microseconds since 1970.
#ifndef HOLDFAST_PROTOCOL_FENCE_HPP
#define HOLDFAST_PROTOCOL_FENCE_HPP

#include <cassert>
#include <chrono>
#include <cstdint>

namespace holdfast::protocol {

inline constexpr unsigned leases_per_number = 100;

/// Every tenure number is below this. The clock reaches it in the year 2255.
inline constexpr std::uint64_t fence_limit = (std::uint64_t{1} << 53) / leases_per_number;

/// Tenure numbers that the clock provides in a millisecond: more than one key has tenures.
inline constexpr unsigned numbers_per_millisecond = 10;

/// The tenure number that belongs to this time of the wall clock. Zero, which is no hint, for a
/// time that has no number.
constexpr std::uint64_t fence_hint(std::chrono::milliseconds since_epoch) {
    auto const ms = since_epoch.count();
    if (ms <= 0 || ms > static_cast<std::int64_t>((fence_limit - 1) / numbers_per_millisecond))
        return 0;
    return static_cast<std::uint64_t>(ms) * numbers_per_millisecond;
}

/// Whether an instance can have counted so far.
constexpr bool is_fence_count(std::uint64_t n) {
    return n > 0 && n < fence_limit;
}

/// The fence of the lease before which the tenure with this number had served `handoffs`.
constexpr std::uint64_t fence_of(std::uint64_t number, unsigned handoffs) {
    assert(is_fence_count(number) && handoffs < leases_per_number);
    return number * leases_per_number + handoffs;
}

} // namespace holdfast::protocol

#endif
