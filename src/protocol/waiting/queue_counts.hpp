// Counts of a wait queue. Only their differences are of use: a folded queue forgets them.
#ifndef HOLDFAST_PROTOCOL_QUEUE_COUNTS_HPP
#define HOLDFAST_PROTOCOL_QUEUE_COUNTS_HPP

namespace holdfast::protocol {

struct queue_counts {
    unsigned tries = 0;
    unsigned tenures = 0; ///< tries that were won
    unsigned wasted = 0;  ///< tries that were refused right after a push
    unsigned splits = 0;  ///< tries that ended with votes for several, and a quorum for none
};

} // namespace holdfast::protocol

#endif
