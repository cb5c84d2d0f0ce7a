// The types of time in the protocol. Callers hand in times of the lease clock; no class in this
// folder reads a clock.
#ifndef HOLDFAST_PROTOCOL_TIME_HPP
#define HOLDFAST_PROTOCOL_TIME_HPP

#include <chrono>

namespace holdfast {

struct lease_clock;

namespace protocol {

using duration = std::chrono::nanoseconds;
using time_point = std::chrono::time_point<lease_clock, duration>;

/// Returns a time that was given, or calls a function that reads the clock.
inline time_point read_time(time_point now) {
    return now;
}
template <class Clock>
time_point read_time(Clock now) {
    return now();
}

} // namespace protocol
} // namespace holdfast

#endif
