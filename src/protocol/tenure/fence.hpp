// The arithmetic of fencing tokens ("fences"). The counters of the instances give a tenure's
// number, and that number gives the fences of the tenure's leases.
//
// A lease's fence is `tenure number * 100 + number of leases that the tenure served before`. The
// tenure number is the greatest counter of the granting instances. A quorum must hold at least that
// number before the tenure is won (see tenure_number.hpp). Every later tenure needs a grant from an
// instance of that quorum, so its number is greater.
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
/// The last fence of a number is that of readers.
inline constexpr unsigned exclusive_leases_per_number = leases_per_number - 1;

/// Every tenure number is below this. The clock reaches it in the year 2255.
inline constexpr std::uint64_t fence_limit = (std::uint64_t{1} << 53) / leases_per_number;

/// The tenure numbers that the clock provides for each millisecond. A key has fewer tenures than
/// that.
inline constexpr unsigned numbers_per_millisecond = 10;

/// The tenure number that belongs to this time of the wall clock. Zero, which means no hint, if the
/// time has no number.
constexpr std::uint64_t fence_hint(std::chrono::microseconds since_epoch) {
    constexpr auto each =
        std::chrono::microseconds(std::chrono::milliseconds(1)).count() / numbers_per_millisecond;
    auto const number = since_epoch.count() / each;
    if (number <= 0 || number > static_cast<std::int64_t>(fence_limit - 1)) return 0;
    return static_cast<std::uint64_t>(number);
}

/// The greatest hint that a server believes whose clock shows this time. The scripts compare in the
/// same way: see redis/wire/kinds/lock_scripts.hpp.
constexpr std::uint64_t greatest_believed(std::chrono::microseconds shown) {
    return fence_hint(std::chrono::floor<std::chrono::seconds>(shown) + std::chrono::seconds(61));
}

/// True if an instance's counter can have this value.
constexpr bool is_fence_count(std::uint64_t n) {
    return n > 0 && n < fence_limit;
}

/// The fence of a lease of the tenure with this number, which served `handovers` leases before.
constexpr std::uint64_t fence_of(std::uint64_t number, unsigned handovers) {
    assert(is_fence_count(number) && handovers < leases_per_number);
    return number * leases_per_number + handovers;
}

// The parts of a fence, or zero for no fence.
constexpr std::uint64_t number_of(std::uint64_t fence) {
    return fence / leases_per_number;
}
constexpr unsigned handovers_of(std::uint64_t fence) {
    return static_cast<unsigned>(fence % leases_per_number);
}

} // namespace holdfast::protocol

#endif
