// The counts of a simulation of fail-overs, and the choice of the world.
#ifndef HOLDFAST_TEST_SIMULATION_FAILOVERS_SETTINGS_HPP
#define HOLDFAST_TEST_SIMULATION_FAILOVERS_SETTINGS_HPP

#include "protocol/sentinel/promotion_guard.hpp"
#include "protocol/sentinel/sentinel_directory.hpp"
#include "protocol/server/replica_guard.hpp"

#include <cstdint>

namespace holdfast::test {

/// Counts of the events that the properties are about. Schedules without them prove nothing.
struct failover_tally {
    std::uint64_t failovers = 0, demotions = 0, moves = 0, leaves = 0, won = 0, contended = 0,
                  extended = 0, released = 0, uncounted_grants = 0, uncounted_extensions = 0,
                  read_only = 0, won_at_old = 0, lost_writes = 0, cuts = 0, late_commands = 0,
                  stuck_sentinels = 0, kept_over_failover = 0, missed_waits = 0, freezes = 0,
                  other_histories = 0;
};

/// The decisions that clients use. Broken ones differ.
template <class DirectoryRules = protocol::sentinel_rules,
          class PromotionRules = protocol::promotion_rules,
          class ReplicaRules = protocol::replica_rules>
struct failover_parts {
    using directory = protocol::basic_sentinel_directory<DirectoryRules>;
    using guard = protocol::basic_promotion_guard<PromotionRules>;
    using replica_guard = protocol::basic_replica_guard<ReplicaRules>;
};

struct failover_setup {
    /// Each client counts only writes that this many replicas have, of two.
    unsigned replicas = 0;
    bool clocks_differ = true; ///< of servers
    /// More fail-overs, cuts and freezes, at the edges of the times that the guards wait for.
    bool harsh = false;
    /// Clients compare the replication id of a primary, and know that a server which they meet may
    /// have forgotten grants (restart_guard).
    bool heeds_history = false;
    bool waits() const { return replicas != 0; }
};

} // namespace holdfast::test

#endif
