// Time as the protocol sees it: points of the lease clock that are handed in. Nothing here reads a
// clock.
#ifndef HOLDFAST_PROTOCOL_TIME_HPP
#define HOLDFAST_PROTOCOL_TIME_HPP

#include <chrono>

namespace holdfast {

struct lease_clock;

namespace protocol {

using duration = std::chrono::nanoseconds;
using time_point = std::chrono::time_point<lease_clock, duration>;

/// A time that is given, or read only where it is needed.
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
