// The settings of a contest: its counts, the duties of its driver, and schedules for measurements.
#ifndef HOLDFAST_TEST_SIMULATION_CONTEST_SETTINGS_HPP
#define HOLDFAST_TEST_SIMULATION_CONTEST_SETTINGS_HPP

#include <cstdint>

namespace holdfast::test {

/// Counts of events that the properties concern. A run without them proves nothing.
struct contest_tally {
    std::uint64_t leases = 0, tenures = 0, handovers = 0, pushes = 0, wasted = 0, splits = 0,
                  stand_backs = 0, own_releases = 0, cancelled = 0, heads_cancelled = 0,
                  cancelled_when_granted = 0, timed_out = 0, refused = 0, given_up = 0,
                  no_quorum = 0, lost = 0, deaths = 0, disconnects = 0, suspects = 0, expiries = 0,
                  flushes = 0, resent = 0, kept = 0, late_ttls = 0, foreign = 0, forgotten = 0,
                  outages = 0, measured = 0, stops = 0, overslept = 0, silences = 0, late_tries = 0,
                  late_arbiters = 0, late_releases = 0, late_inspections = 0, moved = 0, tracks = 0,
                  listens = 0, stays = 0, remnants = 0, rescued = 0, folded = 0, unfolded = 0,
                  unfolded_to_stand_back = 0, lost_folded = 0, beyond_limit = 0, calls = 0,
                  turns_taken = 0, repeats = 0, line_left = 0, told_in_vain = 0;
    std::uint64_t most_overtaken = 0; ///< the turns of another process while one stood in line
    double longest_try = 0; ///< of a try or release beside a silent minority, as part of its bound
    double most_tries =
        0; ///< of a process while the holder is the same, as a part of the number allowed
    double longest_wait = 0;        ///< of a free and wanted key, as a part of its bound
    double longest_quorum_wait = 0; ///< the same, while a minority keeps the key
    double highest_cost = 0;        ///< commands of an acquire, as a part of the number allowed
    double smallest_share = 1e9; ///< of the leases, as a part of the fair share; in long runs only
    double smallest_turns = 1e9; ///< the same for tenures

    friend bool operator==(contest_tally const&, contest_tally const&) = default;
};

/// The duties of a driver towards the protocol's machines. A broken driver leaves one out.
struct faithful_driver {
    static constexpr bool hears_own_release =
        true; ///< counts an own release as the push that NOLOOP suppresses
    static constexpr bool hears_pushes = true;
    static constexpr bool fair = false; ///< the arbiter keeps a line
    static constexpr bool calls_in_order = true;
    static constexpr bool asks_for_reserved = true; ///< a reservation is no vote
    static constexpr bool renews_tokens = true; ///< a token that was given keys is not used again
    static constexpr bool leaves_line = true;
    static constexpr bool stands_in_one_line = true; ///< and with one token in each
    static constexpr bool starts_again = true; ///< asks for the next action after giving up a try
    static constexpr bool keeps_the_turn =
        true; ///< releases the lease of a waiter that was cancelled when it was granted
    static constexpr bool knows_who_is_late = true;
    static constexpr bool folds_only_idle = true; ///< a queue stays while an acquire waits
    static constexpr bool unfolds_as_held = true;
    static constexpr bool ends_folded = true; ///< a folded queue ends with its tenure
};

/// How an arbiter keeps the line of a fair key.
struct line_rules {
    bool fair, calls_in_order;
};

/// A schedule for measurements. It is calm, and every actor always wants the key.
struct contest_shape {
    unsigned processes, waiters, instances;
    unsigned turns;              ///< tenures for each process
    unsigned handover_limit = 0; ///< 0: chance decides
    bool steady = false;         ///< messages take equally long, so pushes arrive in order
    bool brief = false;          ///< leases last 1 us or less, and tenures as long as their tries
};

} // namespace holdfast::test

#endif
