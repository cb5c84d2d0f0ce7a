// The settings of the simulation of readers and writers: counts, parts that tests break, and
// schedules for measurements.
#ifndef HOLDFAST_TEST_SIMULATION_READERS_SETTINGS_HPP
#define HOLDFAST_TEST_SIMULATION_READERS_SETTINGS_HPP

#include "protocol/rules.hpp"
#include "protocol/time.hpp"
#include "protocol/waiting/waiting_rules.hpp"

#include "simulation/kernel/tenures_network.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace holdfast::test {

/// Counts of events that the properties concern. A run without them proves nothing.
struct readers_tally : faults_tally {
    std::uint64_t read = 0, written = 0, plain = 0, foreign = 0, shared = 0, tenures = 0,
                  fenced_reads = 0, fenced_writes = 0, handovers = 0, downgraded = 0,
                  downgrades_confirmed = 0, shared_downgraded = 0, extended = 0, other_ttls = 0,
                  healed = 0, raised = 0, lost = 0, lost_together = 0, refused = 0, timed_out = 0,
                  cancelled = 0, total_cancels = 0, no_quorum = 0, outages = 0, parted = 0,
                  rejoined = 0, adopted = 0, not_adopted = 0, left = 0, left_shared = 0,
                  adopted_shared = 0, withdrawn = 0, folded = 0, late = 0, inspections = 0,
                  overslept = 0;
    // At the instances
    std::uint64_t admitted = 0, refused_by_intent = 0, passed_own_intent = 0, in_turn = 0,
                  refused_in_turn = 0, noted = 0, notes_renewed = 0, notes_deleted = 0, touched = 0,
                  dead_dropped = 0, dead_overcome = 0, evicted_refused = 0, converted = 0,
                  refused_beside_readers = 0, expiries = 0, early_expiries = 0;
    // Faults, and what they led to
    std::uint64_t pushes = 0, own_releases = 0, tracks = 0, ghosts = 0, ghost_admissions = 0,
                  ghost_grants = 0, ghost_extensions = 0, ghost_conversions = 0, ghost_releases = 0,
                  robberies = 0, evictions = 0, remnants = 0, writers_revoked = 0,
                  readers_revoked = 0, revoked_too_late = 0;
    double longest_wait = 0; ///< of an acquire that could have the key, as a part of its bound
};

/// The duties of the instances, of the machines and of the driver. Tests break them one at a time.
struct readers_parts {
    // Instances
    bool marker_outlives_all = true;   ///< and is not set for the newest reader alone
    bool marker_never_shrinks = true;  ///< at an extension
    bool downgrade_sets_marker = true; ///< and does not delete the key
    bool release_leaves_others = true; ///< the marker stays while there are other readers
    bool release_looks_at_set = true;  ///< the marker stays if the set was evicted
    bool marker_shows = true;          ///< to clients that know of no readers
    bool marker_excludes = true;       ///< a writer does not overwrite it
    bool writer_sees_all = true;       ///< and overlooks no reader
    bool drops_the_dead = true;        ///< a writer need not wait for readers that have died
    bool drops_the_dead_alone = true;  ///< and not those that will die soon
    bool extends_members_alone = true; ///< an extension brings nobody back
    bool guards_evicted_set = true;    ///< nobody is admitted by a marker without a set
    bool clears_old_set = true;        ///< when the key is free
    bool grows_deadlines = true;       ///< an extension that is late shortens nothing
    bool audits_losses = true;         ///< and ends that are made undone
    bool audits_members = true; ///< looks for members that are gone, and not only for overlaps
    bool reads_count = true;    ///< a reader gets the counter
    bool raise_stores = true;
    bool leaves_intent = true;
    bool intent_everywhere = true; ///< and not at the arbiter alone
    bool own_intent_lets_in = true;
    bool opens_turn = true;
    bool turn_keeps_writers_out = true;
    bool deletes_intent = true;           ///< when its writer wins or gives up
    bool touches_key = true;              ///< when an intent is withdrawn
    bool tombstone_keeps_key = true;      ///< until the key of the writer would have ended
    bool tombstone_keeps_deadline = true; ///< of the reader that it replaces
    // Machines
    bool reader_needs_quorum = true;
    bool readers_level = true; ///< a quorum has the number of a reader
    bool extends_in_time = true;
    bool counts_from_sent = true;
    bool shares_for_a_while = true; ///< and not for good
    bool renews_intent = true;
    bool spreads_intent = true; ///< to all instances soon after the arbiter has it
    // Driver
    bool keeps_order = true; ///< a reader of this process does not pass a writer that waits
    bool withdraws_intent = true;
    bool keeps_notes_of_others = true;   ///< a release leaves the note while another writer waits
    bool remembers_notes = true;         ///< of a writer that has won while another one waits
    bool withdraws_where_refused = true; ///< when a writer has won without these instances
    bool try_leaves_nothing = true;      ///< try_acquire leaves no notes
    bool hears_own_writes = true;   ///< of releases and extensions, which the server does not push
    bool hears_all_releases = true; ///< also of those that say that the key was not ours
    bool heals_held_alone = true;
    bool last_one_releases = true;  ///< of readers that share a tenure
    bool tells_shared = true;       ///< with the token of a reader that others share
    bool stays_shared = true;       ///< and others join no tenure that was handed over
    bool leaves_shared = true;      ///< to its ttl, when the adopted lease is released
    bool loss_leaves_shared = true; ///< and when a lease is lost
    bool restart_guard = true;
};

/// A schedule for measurements, without faults: processes that always want the key.
struct readers_shape {
    unsigned instances = 3;
    unsigned reading = 0, readers_of_each = 1; ///< processes, and their readers
    unsigned writing = 0, writers_of_each = 1;
    unsigned mixed = 0;                 ///< processes with a reader and a writer each
    protocol::duration read{}, write{}; ///< how long they hold
    protocol::duration think{};
    protocol::duration ttl = std::chrono::seconds(10), ttl_of_writers = ttl;
    protocol::duration length = std::chrono::seconds(2);
    protocol::duration kill_at{}; ///< the process `kill`
    unsigned kill = 0;
    bool steady = false; ///< messages take equally long
    bool fenced = false;
};

/// What a schedule for measurements has shown.
struct readers_measures {
    std::uint64_t reads = 0, writes = 0;              ///< leases
    std::uint64_t commands = 0, all_commands = 0;     ///< before the first lease; to the end
    double longest_read_ms = 0, longest_write_ms = 0; ///< waits, also those that did not end
    double slowest_round_trips = 0;                   ///< of an acquire, where steady
};

/// The rules of the machines. The world that runs says which of them are broken.
struct readers_tenure_rules : protocol::redlock_rules {
    static inline readers_parts parts{};
    static inline bool of_reader = false; ///< the tenure that has an event now

    static unsigned quorum(unsigned configured, unsigned reachable) {
        if (of_reader && !parts.reader_needs_quorum) return 1;
        return redlock_rules::quorum(configured, reachable);
    }
    static protocol::time_point deadline(protocol::time_point sent, protocol::time_point won,
                                         protocol::duration ttl) {
        return redlock_rules::deadline(parts.counts_from_sent ? sent : won, won, ttl);
    }
    static bool may_extend(protocol::time_point now, protocol::time_point end) {
        return !parts.extends_in_time || redlock_rules::may_extend(now, end);
    }
    static bool levels() { return !of_reader || parts.readers_level; }
};

struct readers_waiting_rules : protocol::waiting_rules {
    static protocol::duration share_time(protocol::duration won_in) {
        return readers_tenure_rules::parts.shares_for_a_while ? waiting_rules::share_time(won_in)
                                                              : std::chrono::hours(1);
    }
    static protocol::duration spreads_note(protocol::duration round_trip) {
        return readers_tenure_rules::parts.spreads_intent ? waiting_rules::spreads_note(round_trip)
                                                          : std::chrono::hours(1);
    }
    static protocol::duration renews_note(protocol::duration ttl) {
        return readers_tenure_rules::parts.renews_intent ? waiting_rules::renews_note(ttl)
                                                         : std::chrono::hours(1);
    }
};

} // namespace holdfast::test

#endif
