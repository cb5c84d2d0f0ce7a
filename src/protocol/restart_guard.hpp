// Tells from what a server says of itself when it connects whether it may have forgotten keys that it granted.
//
// Redlock assumes that an instance keeps a key for its ttl. One that restarts has forgotten what was not on
// its disk, and a second client could then be granted what a first one holds; "delayed restarts" on
// https://redis.io/docs/latest/develop/use/patterns/distributed-locks/ is the answer that nobody gives by
// itself. The server's uptime is of no help: it follows the wall clock, which may be set.
#ifndef HOLDFAST_PROTOCOL_RESTART_GUARD_HPP
#define HOLDFAST_PROTOCOL_RESTART_GUARD_HPP

#include <cstdint>

namespace holdfast::protocol {

class restart_guard {
public:
    /// `observed`: restarts between two connections count. `strict`: and so does what may have been before
    /// the first one.
    restart_guard(bool observed, bool strict)
        : observed_(observed)
        , strict_(strict) {}

    /// It is the server process `run`, and loses nothing in a crash if it is `durable`. True: its grants must
    /// not count for as long as the longest lease may last that was granted before.
    bool connected(std::uint64_t run, bool durable) {
        auto const first = !known_;
        auto const restarted = known_ && run != run_;
        // Only who was so before it went down can have come back with all it had.
        auto const forgets = !durable || (restarted && !durable_);
        known_ = true;
        run_ = run;
        durable_ = durable;
        return forgets && ((restarted && observed_) || (first && strict_));
    }

    /// All its keys are gone, and perhaps others came in their place. True: as above. It may have kept the
    /// locks: it does not say which of its databases was flushed.
    bool emptied() const { return observed_; }

private:
    std::uint64_t run_ = 0;
    bool observed_, strict_;
    bool known_ = false;
    bool durable_ = false;
};

} // namespace holdfast::protocol

#endif
