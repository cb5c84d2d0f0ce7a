#ifndef HOLDFAST_CLOCK_HPP
#define HOLDFAST_CLOCK_HPP

#include <holdfast/detail/api.hpp>

#include <chrono>

namespace holdfast {

/// The clock that measures leases: time since boot, with the time in which the machine was
/// suspended (CLOCK_BOOTTIME on Linux, mach_continuous_time on macOS).
///
/// With a clock that stops during a suspend, a machine that wakes up would believe in a lease that
/// ended hours ago. Unlike the wall clock, this clock is never set. Its epoch means nothing on
/// other machines or after a reboot.
///
/// A sandbox may refuse CLOCK_BOOTTIME. CLOCK_MONOTONIC then takes over, which does not count
/// suspends: a machine that wakes up believes in its leases for too long. If the sandbox refuses
/// that clock as well, each reading is a day later than the one before, so no lease is held.
///
/// @par Thread safety  Safe.
struct HOLDFAST_API lease_clock {
    /// Time is counted in nanoseconds.
    using duration = std::chrono::nanoseconds;
    /// The number of nanoseconds.
    using rep = duration::rep;
    /// A nanosecond, as a ratio of a second.
    using period = duration::period;
    /// A time on this clock, for lease::deadline() and events.
    using time_point = std::chrono::time_point<lease_clock, duration>;
    /// The clock is never set back.
    static constexpr bool is_steady = true;

    /// Reads the clock.
    static time_point now() noexcept;
};

} // namespace holdfast

#endif
