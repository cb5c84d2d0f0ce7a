// Finds out from a server's INFO whether the server may have forgotten keys that it granted. It
// checks each new connection, and each server check on a connection.
//
// Redlock assumes that an instance keeps a key for its ttl. A server that restarts has forgotten
// all keys that were not on its disk. It could then grant a lock to a second client while the first
// one holds it. https://redis.io/docs/latest/develop/use/patterns/distributed-locks/ recommends
// "delayed restarts", but no server delays its start. The server's uptime does not replace this
// guard: it follows the wall clock, which may be set. It only helps at the first contact:
// server_ages.hpp.
#ifndef HOLDFAST_PROTOCOL_RESTART_GUARD_HPP
#define HOLDFAST_PROTOCOL_RESTART_GUARD_HPP

#include <cstdint>
#include <utility>

namespace holdfast::protocol {

/// Where a server's data comes from.
struct data_origin {
    std::uint64_t run = 0; ///< identifies the server process
    /// The replication id. The server takes a new one when it stops being a replica.
    std::uint64_t history = 0;
    std::uint64_t flushes = 0; ///< commands that deleted or exchanged all keys, in this process
    bool promoted = false;     ///< the server still reports that it was a replica
    bool durable = false;      ///< the server loses no write in a crash
};

enum class forgetting : std::uint8_t {
    none,
    restart,     ///< a new process, and some writes may not have been on disk
    flush,       ///< all keys were deleted, or exchanged for others
    replacement, ///< it was a replica, so another server's data may have replaced its own
};

class restart_guard {
public:
    /// `observed`: a restart between two connections counts. `strict`: a restart that may have been
    /// before the first connection counts too.
    restart_guard(bool observed, bool strict)
        : observed_(observed)
        , strict_(strict) {}

    /// The server has answered on a new connection. If the result is not `none`, its grants must
    /// not count until every lease that it may have forgotten has ended.
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
        if (first || restarted) unseen_ = first && observed_ && !strict_ && loses;
        if (was_replica && observed_) return forgetting::replacement;
        if (first ? !strict_ : !observed_) return forgetting::none;
        if (!first && !restarted) {
            if (flushed) return forgetting::flush;
            return new_history ? forgetting::replacement : forgetting::none;
        }
        if (loses) return forgetting::restart;
        if (restarted && now.flushes != 0) return forgetting::flush; // since its start
        // Each process begins with a history of its own. So `promoted` tells only of the time since
        // its start.
        return now.promoted ? forgetting::replacement : forgetting::none;
    }

    /// The server was asked again on the same connection. `announced`: the server pushes when its
    /// data is replaced (see emptied()). Then a new history alone means nothing: a server also
    /// takes a new one when its first replica connects, or when its last replica has been gone for
    /// long.
    forgetting observed(data_origin const& now, bool announced) {
        auto const flushed = has_flushed_since(now);
        announced_ = 0;
        auto const new_history = std::exchange(last_, now).history != now.history;
        if (flushed && observed_) return forgetting::flush;
        auto const replaced = new_history && (now.promoted || !announced);
        return replaced && observed_ ? forgetting::replacement : forgetting::none;
    }

    /// True if a restart before the first contact may have cost keys, and did not count: the client
    /// could not know of it. Other evidence may show it.
    bool trusted_at_first_sight() const { return unseen_; }
    /// There is such evidence.
    void distrust() { unseen_ = false; }

    /// The server is a replica now. This counts when it connects as a primary.
    void is_replica() { replica_ = true; }

    /// The server has announced that its keys are gone, and perhaps others came in their place.
    /// True if its grants must not count, as above. The locks may still be there: the server does
    /// not say which of its databases was flushed.
    bool emptied() {
        ++announced_;
        return observed_;
    }

private:
    /// True if there were more flushes than were announced. A count that has become smaller was
    /// reset in between.
    bool has_flushed_since(data_origin const& now) const {
        if (now.flushes < last_.flushes) return now.flushes != 0;
        return now.flushes - last_.flushes > announced_;
    }

    data_origin last_;
    std::uint64_t announced_ = 0; ///< calls of emptied() since the last INFO
    bool observed_, strict_;
    bool known_ = false;
    bool unseen_ = false; ///< see trusted_at_first_sight()
    bool replica_ = false;
};

} // namespace holdfast::protocol

#endif
