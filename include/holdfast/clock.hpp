#ifndef HOLDFAST_CLOCK_HPP
#define HOLDFAST_CLOCK_HPP

#include <chrono>

namespace holdfast {

/// The clock that leases are measured by: time since boot, including the time a machine was suspended
/// (CLOCK_BOOTTIME on Linux, mach_continuous_time on macOS).
///
/// A steady clock that stops during suspend would let a machine that wakes up believe in a lease that ran out
/// hours ago. It is never set, unlike the wall clock. Its epoch means nothing across machines or reboots.
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
