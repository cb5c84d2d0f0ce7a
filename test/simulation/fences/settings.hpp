// The settings of the fence simulation: counts, conditions, and the parts that tests break.
#ifndef HOLDFAST_TEST_SIMULATION_FENCES_SETTINGS_HPP
#define HOLDFAST_TEST_SIMULATION_FENCES_SETTINGS_HPP

#include <cstdint>

namespace holdfast::test {

/// Counts of events that fences concern. A run without them proves nothing.
struct fence_tally {
    std::uint64_t tenures = 0, won = 0, won_unfenced = 0, won_at_arbiter = 0, raises = 0,
                  won_by_raise = 0, lifted = 0, won_after_lift = 0, raises_denied = 0,
                  raises_unknown = 0, raises_unsent = 0, ended_by_raise = 0,
                  saved_by_late_grant = 0, stale_raises = 0, expired_in_raise = 0,
                  cancelled_in_raise = 0, expiries = 0, handovers = 0, extended = 0, healed = 0,
                  lost = 0, released = 0, pauses = 0, stale_hints = 0, hints_ignored = 0,
                  hints_behind = 0, clock_jumps = 0, freezes = 0, breaks = 0, ghosts = 0,
                  timeouts = 0, crashes = 0, forgotten = 0, restored = 0, forgetful_grants = 0,
                  ran_ahead = 0, too_old = 0, scripts_lost = 0, exhausted = 0, counted = 0,
                  not_counted = 0, counted_for_others = 0, counted_late = 0, moved = 0;
};

/// The assumptions of a simulation.
struct fence_conditions {
    /// Worlds without faults, with one client.
    enum class calmness : std::uint8_t {
        no,
        good_clocks, ///< right clocks, and different counters behind them
        diverged,    ///< different counters ahead of all clocks
    };
    enum class away : std::uint8_t {
        long_enough,
        twice_the_error, ///< but not until counters that ran ahead are in the past
        briefly,
    };
    calmness calm = calmness::no;
    unsigned fewest = 1, most = 7; ///< the number of instances
    bool right_clocks = false;     ///< the clocks that give the hints are right to within E
    bool fresh_hints = true; ///< hints are still right, with such clocks, when they are carried out
    unsigned forgetful = 0;  ///< the number of instances that may forget
    away forgetting = away::long_enough;
    bool right_servers = true;     ///< instances that forget believe right hints
    bool older_state = false;      ///< an instance that forgets may come back with an older state
    bool bounded_acquires = false; ///< no acquire takes longer than such an instance is away
    bool hint_within = false; ///< the deadline of an acquire counts from before its hint is read
};

/// The server, the wire and the driver. A broken one leaves out a duty.
struct faithful_parts {
    /// The instance stores the number of a raise before it answers yes.
    static constexpr bool raise_stores = true;
    /// The instance gives each tenure a new number.
    static constexpr bool counts_up = true;
    /// The answer to a raise names its round.
    static constexpr bool tells_round = true;
    /// A client without an answer to a raise does not count the raise as done.
    static constexpr bool doubts_silence = true;
    /// The client learns that a raise could not be sent.
    static constexpr bool tells_unsent = true;
    /// A native count lifts the counter, or fails.
    static constexpr bool count_lifts = true;
    /// The number of a native count is the one that was sent, whatever the tenure asks for now.
    static constexpr bool remembers_number = true;
    /// A raise to a number that the counter has already is of another tenure.
    static constexpr bool raise_lifts = true;
};

} // namespace holdfast::test

#endif
