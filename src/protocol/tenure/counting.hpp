// How an instance counts for a tenure that it grants.
//
// A script takes the key and counts in one step. Native commands are two: SET NX PX, and ZADD GT,
// which lifts the counter to the hint if it is below that. Anything may happen between the two, and
// a tenure that did not get the key lifts the counter too. No harm comes of that: a counter only
// grows, and each tenure that counts on a number has itself lifted a counter from below that number
// to it (doc/internals/fencing.md). Readers alone share a number.
#ifndef HOLDFAST_PROTOCOL_COUNTING_HPP
#define HOLDFAST_PROTOCOL_COUNTING_HPP

#include <cstdint>

namespace holdfast::protocol {

enum class counting : std::uint8_t {
    by_script, ///< one more than the counter, or the hint if that is greater
    known,     ///< natively, if the counter is there and below the hint
    renewed,   ///< natively, also if there is no counter; the counter's ttl is renewed
};

struct count_plan {
    std::uint64_t hint = 0;
    counting how = counting::by_script;
};

} // namespace holdfast::protocol

#endif
