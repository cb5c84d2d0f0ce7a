// The place of a process in the line of a fair key. The arbiter of the key keeps the line: the
// tokens of the processes that wait, in the order in which they came. A release at the arbiter
// gives the key there to the first token of the line, for a moment, and tells that process alone.
//
// Such a *reservation* is no vote. Its process still asks every instance, the arbiter included, and
// counts their answers. So the line decides the order, and safety rests on the quorum alone.
#ifndef HOLDFAST_PROTOCOL_PLACE_IN_LINE_HPP
#define HOLDFAST_PROTOCOL_PLACE_IN_LINE_HPP

#include <utility>

namespace holdfast::protocol {

class place_in_line {
public:
    void fair(bool is) { fair_ = is; }
    bool fair() const { return fair_; }

    /// The arbiter says that it has reserved the key for this process. After a call in vain it is
    /// asked before all others, with the token that stands in line: that costs no place.
    void called() { called_ = !doubts_; }
    /// The arbiter had not reserved the key. With a full table of clients to tell, a server tells
    /// them without a reason (tracking-table-max-keys).
    void called_in_vain() { doubts_ = true; }
    /// True once after called(): the next try is for the reserved key.
    bool take_call() { return std::exchange(called_, false); }

    /// The reserved key was not won. `a_holder`: a quorum has the key of another client. Otherwise
    /// contenders kept each other from a quorum. True if the process goes back to the front of the
    /// line. It does not do so twice in a row.
    bool missed(bool a_holder) { return front_ = !front_ && !a_holder; }
    void won() { front_ = doubts_ = false; }
    bool goes_to_front() const { return front_; }

private:
    bool fair_ = false;
    bool called_ = false;
    bool doubts_ = false;
    bool front_ = false;
};

} // namespace holdfast::protocol

#endif
