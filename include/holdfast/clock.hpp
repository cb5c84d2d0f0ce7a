#ifndef HOLDFAST_CLOCK_HPP
#define HOLDFAST_CLOCK_HPP

#include <chrono>

namespace holdfast {

/// The clock that leases are measured by: time since boot, including the time a machine was
/// suspended (CLOCK_BOOTTIME on Linux, mach_continuous_time on macOS).
///
/// A steady clock that stops during suspend would let a machine that wakes up believe in a lease
/// that ran out hours ago. It is never set, unlike the wall clock. Its epoch means nothing across
/// machines or reboots.
///
/// A sandbox may refuse CLOCK_BOOTTIME. Then CLOCK_MONOTONIC takes over, which does not count
/// suspends: a machine that wakes up believes in its leases for too long. If that clock is refused
/// as well, each reading is a day later than the one before, so no lease is held.
///
/// @par Thread safety  Safe.
struct lease_clock {
    using duration = std::chrono::nanoseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<lease_clock, duration>;
    static constexpr bool is_steady = true;

    static time_point now() noexcept;
};

} // namespace holdfast

#endif
