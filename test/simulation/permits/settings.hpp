// The settings of the simulation of permits: counts, parts that tests break, and schedules for
// measurements.
#ifndef HOLDFAST_TEST_SIMULATION_PERMITS_SETTINGS_HPP
#define HOLDFAST_TEST_SIMULATION_PERMITS_SETTINGS_HPP

#include "protocol/rules.hpp"
#include "protocol/time.hpp"

#include "simulation/kernel/tenures_network.hpp"

#include <chrono>
#include <cstdint>

namespace holdfast::test {

/// Counts of events that the properties concern. A run without them proves nothing.
struct permits_tally : faults_tally {
    std::uint64_t won = 0, fenced = 0, handed_over = 0, extended = 0, other_ttls = 0, healed = 0,
                  raised = 0, lost = 0, contended = 0, refused_at_arbiter = 0, timed_out = 0,
                  cancelled = 0, no_quorum = 0, adopted = 0, not_adopted = 0, left = 0,
                  second_rounds = 0, won_in_second = 0, full = 0, drained = 0;
    // At the instances
    std::uint64_t taken = 0, kept = 0, other_slots = 0, moved = 0, given_back = 0, dead_dropped = 0,
                  extensions_of_others = 0, refused = 0, evicted_refused = 0, expiries = 0;
    // Faults, and what they led to
    std::uint64_t pushes = 0, ghosts = 0, ghost_grants = 0, ghost_extensions = 0,
                  ghost_releases = 0, robberies = 0, evictions = 0, remnants = 0, revoked = 0,
                  revoked_too_late = 0;
    double longest_wait = 0; ///< of an acquire that could have a permit, as a part of its bound
};

/// The duties of the instances, of the machines and of the driver. Tests break them one at a time.
struct permits_parts {
    // Instances
    bool votes_for_slot = true;         ///< and not for a count of permits
    bool release_looks_at_token = true; ///< and does not free the slot of another
    bool extends_members_alone = true;  ///< an extension brings nobody back
    bool extends_own_slot_alone = true; ///< and does not take another slot of the token for it
    bool heals_free_slots_alone = true; ///< and takes no slot from another
    bool grows_deadlines = true;        ///< a command that is late shortens nothing
    bool drops_the_dead = true;         ///< nobody waits for those that have died
    bool drops_the_dead_alone = true;   ///< and not those that will die soon
    bool gives_back = true;             ///< the other slot of a token that cannot have its own
    bool token_keeps_slot = true;       ///< a second take does not move it
    bool keys_outlive_all = true;       ///< and not the newest permit alone
    bool guards_evicted_sets = true;    ///< nobody gets a slot while one of the keys is missing
    bool counts_per_slot = true;        ///< a grant gets a greater number than the last of its slot
    bool raise_stores = true;
    bool raise_needs_slot = true;
    bool tombstone_keeps_slot = true;     ///< until the deadline of the token that it replaces
    bool revokes_seen_token_alone = true; ///< and not who has the slot when it comes
    // Machines
    bool needs_quorum = true;
    bool levels = true; ///< a quorum has the number
    bool extends_in_time = true;
    bool counts_from_sent = true;
    // Driver
    bool other_is_no_yes = true;
    bool restart_guard = true;
    bool hands_over_small_slots_alone = true; ///< and no slot that the next one's number excludes
    bool audits_members = true;               ///< looks for slots that are gone, not only for twins
    bool audits_losses = true;
};

/// A schedule for measurements, without faults: processes that always want a permit.
struct permits_shape {
    unsigned instances = 3, permits = 2;
    unsigned processes = 2, actors_of_each = 1;
    protocol::duration hold{}, think{};
    protocol::duration ttl = std::chrono::seconds(10);
    protocol::duration length = std::chrono::seconds(2);
    protocol::duration kill_at{}; ///< the process 0
    /// Two tokens get each other's slot at the last instance. The rest takes `length`.
    protocol::duration swap_at{};
    bool steady = false; ///< messages take equally long
    bool fenced = false;
};

/// What a schedule for measurements has shown.
struct permits_measures {
    std::uint64_t wins = 0, tries = 0, commands = 0;
    double longest_wait_ms = 0; ///< waits, also those that did not end
    double slowest_round_trips = 0;
    unsigned most_at_once = 0;
    unsigned astray = 0; ///< at the end: holders without their slot at an instance
};

/// The rules of the machines. The world that runs says which of them are broken.
struct permits_tenure_rules : protocol::redlock_rules {
    static inline permits_parts parts{};

    static unsigned quorum(unsigned configured, unsigned reachable) {
        return parts.needs_quorum ? redlock_rules::quorum(configured, reachable) : 1;
    }
    static protocol::time_point deadline(protocol::time_point sent, protocol::time_point won,
                                         protocol::duration ttl) {
        return redlock_rules::deadline(parts.counts_from_sent ? sent : won, won, ttl);
    }
    static bool may_extend(protocol::time_point now, protocol::time_point end) {
        return !parts.extends_in_time || redlock_rules::may_extend(now, end);
    }
    static bool levels() { return parts.levels; }
};

} // namespace holdfast::test

#endif
