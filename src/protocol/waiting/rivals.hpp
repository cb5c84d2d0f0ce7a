// A queue's knowledge of others that want its key: other processes, and clients of other libraries.
// The queue leaves them their turn: it stands back, and has a place in the line of a fair key.
#ifndef HOLDFAST_PROTOCOL_RIVALS_HPP
#define HOLDFAST_PROTOCOL_RIVALS_HPP

#include "protocol/time.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace holdfast::protocol {

class rivals {
public:
    /// Another client was seen to have the key, or votes for it.
    void meet() { met_ = seen_ = true; }
    /// Other clients want the key now. True if that was known already.
    bool contest() { return std::exchange(contested_, true); }
    /// A tenure begins. Clients that were met before it still want the key.
    void begin_tenure() { contested_ = std::exchange(met_, false); }

    bool contested() const { return contested_; }
    bool ever_seen() const { return seen_; }

private:
    bool contested_ = false;
    bool met_ = false; ///< since the last tenure began
    bool seen_ = false;
};

/// After a tenure a process stands back from the key for a moment, so that other processes get
/// their turn.
///
/// Meanwhile the process may listen: it asks the arbiter for a push when the key changes. If it
/// hears of no other process many times in a row, it counts as alone, and need not stand back each
/// time.
template <class Rules>
class stand_back {
public:
    void begin(bool listens) {
        to_listen_ = listens;
        hears_ = false;
    }
    void end(time_point now) {
        silent_ = std::exchange(hears_, false) ? silent_ + 1 : 0;
        ended_ = now;
    }

    /// True once if this process is to ask the arbiter for a push.
    bool take_question() { return std::exchange(to_listen_, false); }
    /// The arbiter has answered. `tracked`: it will push when the key changes.
    void listens(bool tracked) { hears_ = tracked; }
    bool listens() const { return hears_; }
    /// Another process has taken the key.
    void heard() { hears_ = false; }

    /// True if no listening counts towards is_alone().
    bool is_unused() const { return silent_ == 0; }
    bool is_alone(time_point now) const { return Rules::is_alone(silent_, now - ended_); }

private:
    time_point ended_{};
    unsigned silent_ = 0; ///< times in a row in which no other process took the key
    bool to_listen_ = false;
    bool hears_ = false; ///< the arbiter would push
};

/// The place of a process in the line of a fair key. The arbiter of the key keeps the line: the
/// tokens of the processes that wait, in the order in which they came. A release at the arbiter
/// gives the key there to the first token of the line, for a moment, and notifies that process
/// alone.
///
/// Such a *reservation* is no vote. Its process still asks every instance, the arbiter included,
/// and counts their answers. So the line decides the order, and safety rests on the quorum alone.
class place_in_line {
public:
    void fair(bool is) { fair_ = is; }
    bool fair() const { return fair_; }

    /// The arbiter says that it has reserved the key for this process. After a call in vain it is
    /// asked before all others, with the token that stands in line: that costs no place.
    void called() { called_ = !doubts_; }
    /// The arbiter had not reserved the key. With a full table of clients to notify, a server
    /// notifies them without a reason (tracking-table-max-keys).
    void called_in_vain() { doubts_ = true; }
    /// True once after called(): the next try is for the reserved key.
    bool take_call() {
        auto const called = called_;
        called_ = false;
        return called;
    }

    /// The key was not won. `a_holder`: a quorum has the key of another client. Otherwise
    /// contenders kept each other from a quorum. True if it was reserved for this process, which
    /// then goes back to the front of the line. It does not do so twice in a row.
    bool missed(bool a_holder, bool reserved) {
        constexpr std::uint8_t many = 64;
        splits_ = a_holder ? 0 : std::min<std::uint8_t>(splits_ + 1, many);
        if (!reserved) return false;
        front_ = !front_ && !a_holder;
        return front_;
    }
    void won() {
        front_ = doubts_ = false;
        splits_ = 0;
    }
    bool goes_to_front() const { return front_; }

    /// How often in a row contenders kept each other from a quorum. Zero without a line.
    unsigned splits() const { return fair_ ? splits_ : 0; }

private:
    bool fair_ : 1 = false;
    bool called_ : 1 = false;
    bool doubts_ : 1 = false;
    bool front_ : 1 = false;
    std::uint8_t splits_ = 0;
};

} // namespace holdfast::protocol

#endif
