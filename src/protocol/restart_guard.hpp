// Tells from a server's INFO whether it may have forgotten keys that it granted: when
// it connects, and when it is checked again later.
//
// Redlock assumes that an instance keeps a key for its ttl. One that restarts has forgotten all
// that was not on its disk, and could then grant a second client a lock that a first one holds;
// https://redis.io/docs/latest/develop/use/patterns/distributed-locks/ recommends "delayed
// restarts", which no server does by itself. The server's uptime is of no help: it follows the wall
// clock, which may be set.
#ifndef HOLDFAST_PROTOCOL_RESTART_GUARD_HPP
#define HOLDFAST_PROTOCOL_RESTART_GUARD_HPP

#include <cstdint>
#include <utility>

namespace holdfast::protocol {

/// Where a server's data comes from.
struct data_origin {
    std::uint64_t run = 0; ///< the server process
    std::uint64_t history =
        0; ///< its replication id: it gets a new one when it stops being a replica
    std::uint64_t flushes = 0; ///< commands that deleted or exchanged all keys, in this process
    bool promoted = false;     ///< it remembers the history of a former time as a replica
    bool durable = false;      ///< it loses nothing in a crash
};

enum class forgetting : std::uint8_t {
    none,
    restart,     ///< a new process, and not each write was on disk
    flush,       ///< all keys were deleted, or exchanged for others
    replacement, ///< it has been a replica, so another server's data may have replaced its own
};

class restart_guard {
public:
    /// `observed`: restarts between two connections count. `strict`: and so does a restart that may
    /// have been before the first one.
    restart_guard(bool observed, bool strict)
        : observed_(observed)
        , strict_(strict) {}

    /// It has answered on a new connection. Not `none`: its grants must not count for as long as
    /// the longest lease may last that was granted before.
    forgetting connected(data_origin const& now) {
        auto const first = !known_;
        auto const restarted = known_ && now.run != last_.run;
        auto const was_replica = std::exchange(replica_, false);
        auto const new_history = known_ && now.history != last_.history;
        auto const flushed = known_ && !restarted && has_flushed_since(now);
        // Only a server that was durable before it went down can have come back with all its keys.
        auto const loses = !now.durable || (restarted && !last_.durable);
        known_ = true;
        last_ = now;
        announced_ = 0;
        if (was_replica && observed_) return forgetting::replacement;
        if (first ? !strict_ : !observed_) return forgetting::none;
        if (!first && !restarted) {
            if (flushed) return forgetting::flush;
            return new_history ? forgetting::replacement : forgetting::none;
        }
        if (loses) return forgetting::restart;
        if (restarted && now.flushes != 0) return forgetting::flush; // since its start
        // Each process has a history of its own. So this counts from its start only.
        return now.promoted ? forgetting::replacement : forgetting::none;
    }

    /// It was asked again on the same connection. `announced`: it would have told of replaced data
    /// (see emptied()). Then a new history alone means nothing: a server takes one also when its
    /// first replica comes, and when its last one has been gone for long.
    forgetting observed(data_origin const& now, bool announced) {
        auto const flushed = has_flushed_since(now);
        announced_ = 0;
        auto const new_history = std::exchange(last_, now).history != now.history;
        if (flushed && observed_) return forgetting::flush;
        auto const replaced = new_history && (now.promoted || !announced);
        return replaced && observed_ ? forgetting::replacement : forgetting::none;
    }

    /// It is a replica now. Counts when it connects as a primary.
    void is_replica() { replica_ = true; }

    /// All its keys are gone, and perhaps others came in their place. True: as above. It may have
    /// kept the locks: it does not say which of its databases was flushed.
    bool emptied() {
        ++announced_;
        return observed_;
    }

private:
    /// Beyond those that were announced. A count that has become smaller was reset in between.
    bool has_flushed_since(data_origin const& now) const {
        if (now.flushes < last_.flushes) return now.flushes != 0;
        return now.flushes - last_.flushes > announced_;
    }

    data_origin last_;
    std::uint64_t announced_ = 0; ///< times that its keys were gone, since it was asked last
    bool observed_, strict_;
    bool known_ = false;
    bool replica_ = false;
};

} // namespace holdfast::protocol

#endif
