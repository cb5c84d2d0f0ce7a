// The counts of a simulation of fail-overs, and the choice of the world.
#ifndef HOLDFAST_TEST_SIMULATION_FAILOVERS_SETTINGS_HPP
#define HOLDFAST_TEST_SIMULATION_FAILOVERS_SETTINGS_HPP

#include "protocol/sentinel/promotion_guard.hpp"
#include "protocol/sentinel/sentinel_directory.hpp"
#include "protocol/server/replica_guard.hpp"

#include <cstdint>
#include <optional>

namespace holdfast::test {

/// Counts of the events that the properties are about. Schedules without them prove nothing.
struct failover_tally {
    std::uint64_t failovers = 0, demotions = 0, moves = 0, leaves = 0, won = 0, contended = 0,
                  extended = 0, released = 0, uncounted_grants = 0, uncounted_extensions = 0,
                  read_only = 0, won_at_old = 0, lost_writes = 0, cuts = 0, late_commands = 0,
                  stuck_sentinels = 0, kept_over_failover = 0, missed_waits = 0, freezes = 0,
                  other_histories = 0;
    // Of fences:
    std::uint64_t hinted = 0, hints_behind = 0, hints_ignored = 0;
    std::uint64_t counts_lost = 0;    ///< promotions of a replica that lacked numbers
    std::uint64_t counts_dropped = 0; ///< resyncs of a server that had counted further
    std::uint64_t low_numbers = 0;    ///< given, and no greater than that of an earlier lease
    std::uint64_t saved_by_hint = 0;  ///< wins where the server lacked an earlier lease's number
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

/// The wall clocks of clients, which give the hints of fences.
enum class hint_clocks : std::uint8_t {
    close,         ///< any two differ by at most max_ttl, less the drift of such a lease
    too_far_apart, ///< by up to max_ttl and a fifth of M
    arbitrary,
    none, ///< no client sends a hint
};

struct fence_setup {
    hint_clocks clocks = hint_clocks::close;
    bool counts_up = true;       ///< each tenure gets a new number
    bool counts_by_clock = true; ///< false: the counter has run ahead of all clocks
    bool believes_hints = true;  ///< false: the clock of a server is years behind
};

struct failover_setup {
    /// Each client counts only writes that this many replicas have, of two.
    unsigned replicas = 0;
    bool clocks_differ = true; ///< of servers
    /// Clients also ask for the lock before a grant can count: it may count when it arrives.
    bool asks_early = true;
    bool one_holder = true; ///< S1 is checked
    /// More fail-overs, cuts and freezes, at the edges of the times that the guards wait for.
    bool harsh = false;
    /// Clients compare the replication id of a primary, and know that a server which they meet may
    /// have forgotten grants (restart_guard).
    bool checks_history = false;
    std::optional<fence_setup> fences{};
    bool waits() const { return replicas != 0; }
};

} // namespace holdfast::test

#endif
