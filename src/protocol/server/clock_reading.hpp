// The movement of a server's clock against ours between two answers to TIME.
#ifndef HOLDFAST_PROTOCOL_CLOCK_READING_HPP
#define HOLDFAST_PROTOCOL_CLOCK_READING_HPP

#include "protocol/time.hpp"

namespace holdfast::protocol {

/// The gain of the server's clock on ours between two answers, beyond drift. All times and
/// durations are of our clock.
struct clock_reading {
    bool first = true; ///< there was no answer before, so the reading shows nothing
    duration least{};  ///< the least jump ahead; if positive, the jump is certain
    duration most{};   ///< the greatest possible jump ahead
    /// A jump happened within this time. `to` is when this answer came. `from` is when the question
    /// before was sent; if slow answers since then may have hidden the jump, `from` is earlier.
    time_point from{}, to{};
    time_point asked{}; ///< the sending time of the question before
    /// A jump within this time is certainly part of this reading: from the answer before to this
    /// question.
    time_point sure_from{}, sure_to{};

    bool jumped() const { return least > duration::zero(); }
};

} // namespace holdfast::protocol

#endif
