// Counts of what a wait queue has seen. Only differences count: a folded queue forgets them.
#ifndef HOLDFAST_PROTOCOL_QUEUE_COUNTS_HPP
#define HOLDFAST_PROTOCOL_QUEUE_COUNTS_HPP

namespace holdfast::protocol {

class queue_counts {
public:
    unsigned tries() const { return tries_; }
    /// How many tries were won.
    unsigned tenures() const { return tenures_; }
    /// How many tries were refused right after a push.
    unsigned wasted() const { return wasted_; }
    /// How many tries ended with votes for several contenders, and a quorum for none.
    unsigned splits() const { return splits_; }

protected:
    unsigned tries_ = 0, tenures_ = 0, wasted_ = 0, splits_ = 0;
};

} // namespace holdfast::protocol

#endif
