// When a queue that waits at the arbiter asks all instances again. A holder that could not reach
// the arbiter has left its key there, although a majority may be free.
#ifndef HOLDFAST_PROTOCOL_RECHECK_SCHEDULE_HPP
#define HOLDFAST_PROTOCOL_RECHECK_SCHEDULE_HPP

#include "protocol/time.hpp"

#include <algorithm>

namespace holdfast::protocol {

template <class Rules>
class recheck_schedule {
public:
    /// The queue begins to wait at the arbiter.
    void begin(time_point now) {
        if (next_ != time_point::max()) return;
        pause_ = Rules::first_recheck;
        next_ = now + pause_;
    }
    void at_once(time_point now) { next_ = now; }
    /// The arbiter will not push. Each polls_between_rechecks-th of these tries leads to a recheck.
    void polled(time_point now) {
        if (++polls_ % Rules::polls_between_rechecks == 0) at_once(now);
    }
    void stop() {
        next_ = time_point::max();
        polls_ = 0;
    }

    /// True if a recheck is due. The time of the next one is then set.
    bool take(time_point now) {
        if (now < next_) return false;
        pause_ = std::min<duration>(2 * pause_, Rules::longest_between_rechecks);
        next_ = now + pause_;
        return true;
    }
    time_point next() const { return next_; }

private:
    time_point next_ = time_point::max();
    duration pause_{};
    unsigned polls_ = 0; ///< tries at an instance that does not push
};

} // namespace holdfast::protocol

#endif
