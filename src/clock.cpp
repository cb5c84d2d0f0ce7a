#include <holdfast/clock.hpp>

#include <time.h>

namespace holdfast {

lease_clock::time_point lease_clock::now() noexcept {
#if defined(CLOCK_BOOTTIME)
    constexpr auto id = CLOCK_BOOTTIME;
#else
    // On macOS this clock goes on during sleep, as CLOCK_BOOTTIME does on Linux.
    constexpr auto id = CLOCK_MONOTONIC_RAW;
#endif
    timespec t{};
    ::clock_gettime(id, &t);
    return time_point(std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec));
}

} // namespace holdfast
