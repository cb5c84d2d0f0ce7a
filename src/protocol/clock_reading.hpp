// The knowledge of a server's clock from two answers to the question for its time.
#ifndef HOLDFAST_PROTOCOL_CLOCK_READING_HPP
#define HOLDFAST_PROTOCOL_CLOCK_READING_HPP

#include "protocol/time.hpp"

namespace holdfast::protocol {

/// By how much the server's clock has gained on ours between the two, beyond drift.
/// All times and spans are ours.
struct clock_reading {
    bool first = true; ///< there was no answer before: nothing can be said
    duration least{};  ///< positive: it has jumped ahead
    duration most{};   ///< it has not jumped by more
    /// A jump is within this time: from the question before, or the last one with an answer that
    /// did not take so long that a jump may be hidden in it, to this answer.
    time_point from{}, to{};
    time_point asked{}; ///< when the question before was sent
    /// A jump within this time is seen for certain: from the answer before to this question.
    time_point sure_from{}, sure_to{};

    bool jumped() const { return least > duration::zero(); }
};

} // namespace holdfast::protocol

#endif
