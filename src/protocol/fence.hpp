// The arithmetic of fences: a tenure's number from the instances' counters, and a lease's number from that.
//
// A lease's fence is its tenure's number, and behind it how many leases the tenure had served before. The
// former is the greatest of what the granting instances counted, and a quorum that we own must hold at least
// that (see tenure.hpp), so every later tenure, which shares an instance with it, counts on from there.
#ifndef HOLDFAST_PROTOCOL_FENCE_HPP
#define HOLDFAST_PROTOCOL_FENCE_HPP

#include <cassert>
#include <chrono>
#include <cstdint>

namespace holdfast::protocol {

inline constexpr unsigned handoff_bits = 16;

/// Below this every tenure's number stays: a fence then fits a signed 64-bit integer, as databases have them,
/// and an instance's counter is exact in a script's floating-point number (2^53). The clock comes to it in
/// the year 2248.
inline constexpr std::uint64_t fence_limit = std::uint64_t{1} << 47;

/// Where a tenure that begins at this time of the wall clock would have its number: sixteen in a millisecond.
/// Zero, which is no hint, where the clock shows a time that has no number.
constexpr std::uint64_t fence_hint(std::chrono::milliseconds since_epoch) {
    auto const ms = since_epoch.count();
    if (ms <= 0 || ms >= static_cast<std::int64_t>(fence_limit >> 4)) return 0;
    return static_cast<std::uint64_t>(ms) << 4;
}

/// Whether an instance can have counted so far.
constexpr bool is_fence_count(std::uint64_t n) {
    return n > 0 && n < fence_limit;
}

/// The fence of the lease before which the tenure had served `handoffs`.
constexpr std::uint64_t fence_of(std::uint64_t tenure, unsigned handoffs) {
    assert(is_fence_count(tenure) && handoffs < 1U << handoff_bits);
    return tenure << handoff_bits | handoffs;
}

} // namespace holdfast::protocol

#endif
