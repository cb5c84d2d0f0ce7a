// The settings of the simulation of locks on several keys: counts, parts that tests break, and
// schedules for measurements.
#ifndef HOLDFAST_TEST_SIMULATION_SETS_SETTINGS_HPP
#define HOLDFAST_TEST_SIMULATION_SETS_SETTINGS_HPP

#include "protocol/time.hpp"

#include "simulation/kernel/tenures_network.hpp"

#include <cstdint>
#include <limits>

namespace holdfast::test {

/// Counts of events that the properties concern. A run without them proves nothing.
struct sets_tally : faults_tally {
    std::uint64_t leases = 0, sets = 0, singles = 0, foreign = 0, fenced = 0, handovers = 0,
                  sets_handed_over = 0, extended = 0, healed = 0, raised = 0, lost = 0, refused = 0,
                  timed_out = 0, cancelled = 0, cancelled_together = 0, cancelled_in_order = 0,
                  cancelled_in_conversion = 0, total_cancels = 0, no_quorum = 0, outages = 0,
                  in_order = 0, keys_taken = 0, conversions = 0, converted = 0,
                  conversions_failed = 0, started_over = 0, overwritten = 0, behind_sets = 0,
                  behind_queues = 0, pushes = 0, own_releases = 0, tracks = 0, ghosts = 0,
                  ghost_conversions = 0, ghost_grants = 0, ghost_extensions = 0, ghost_releases = 0,
                  robberies = 0, remnants = 0, expiries = 0, early_expiries = 0, folded = 0,
                  late = 0, inspections = 0, overslept = 0, left = 0, adopted = 0, sets_adopted = 0,
                  not_adopted = 0, overtaken = 0, stood_aside = 0;
};

/// The duties of the instances and of the driver. Tests break them one at a time.
struct set_parts {
    // Instances
    bool takes_all_or_none = true;
    bool grants_all_or_none = true; ///< does not grant a set of which it took a part
    bool compares_prior = true;     ///< before a conversion overwrites a key
    bool doubts_prior = true;       ///< does not count a key of anybody as converted, and leave it
    bool releases_own = true;
    bool extends_all_or_none = true;
    bool raise_stores = true;
    bool counts_for_the_set = true; ///< and not a number for each key
    // Driver
    bool byte_order = true;
    bool keeps_order = true; ///< in the process
    bool one_order = true;   ///< for all keys, and not one for each
    bool gives_back = true;  ///< the keys that were taken in order, when the acquire has failed
    bool hands_over_converted = false; ///< a key whose token a conversion has sent
    bool joins_in_order = true; ///< an acquire that comes now lets those out of line go first
    bool tells_use = true;      ///< of a key whose first place is given up
    bool overtakes = true;      ///< the adoption of a set, all that wait
    bool tries_together = true; ///< also with a patience of 0, if the acquire does not wait
    bool tells_parts = true;    ///< an instance without one of the keys may have others
    bool calls_off = true;      ///< the acquire of the next key, when a key that was taken is lost
    bool asks_each_time = true; ///< whether the first waiter of a queue may try
    bool heals_held_alone = true;
    bool restart_guard = true;
};

inline constexpr unsigned never = std::numeric_limits<unsigned>::max(); ///< patience

/// A schedule for measurements, without faults. Messages take equally long if it is steady.
struct set_shape {
    unsigned instances = 3, keys = 8;
    unsigned wide = 2, keys_of_wide = 8; ///< each in a process of its own
    unsigned narrow = 0, narrow_processes = 0;
    unsigned patience = 4;
    protocol::duration think{}, length = std::chrono::seconds(2);
    bool steady = false;
    bool fenced = false;
};

/// What a schedule for measurements has shown.
struct set_measures {
    std::uint64_t wide = 0, narrow = 0;                                      ///< leases
    std::uint64_t fewest_of_one = std::numeric_limits<std::uint64_t>::max(); ///< narrow acquirer
    std::uint64_t commands = 0;                        ///< before the first lease
    double longest_wide_ms = 0, longest_narrow_ms = 0; ///< waits, also those that did not end
    double quickest_round_trips = 0, slowest_round_trips = 0; ///< of an acquire, where steady
};

} // namespace holdfast::test

#endif
