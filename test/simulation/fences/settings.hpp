// The counts of a simulation of fences, its conditions, and the parts that can be broken.
#ifndef HOLDFAST_TEST_SIMULATION_FENCES_SETTINGS_HPP
#define HOLDFAST_TEST_SIMULATION_FENCES_SETTINGS_HPP

#include <cstdint>

namespace holdfast::test {

/// Counts of the events that fences are about. Schedules without them prove nothing.
struct fence_tally {
    std::uint64_t tenures = 0, won = 0, won_unfenced = 0, won_at_arbiter = 0, raises = 0,
                  won_by_raise = 0, lifted = 0, won_after_lift = 0, raises_denied = 0,
                  raises_unknown = 0, raises_unsent = 0, ended_by_raise = 0,
                  saved_by_late_grant = 0, stale_raises = 0, expired_in_raise = 0,
                  cancelled_in_raise = 0, expiries = 0, handoffs = 0, extended = 0, healed = 0,
                  lost = 0, released = 0, pauses = 0, stale_hints = 0, hints_ignored = 0,
                  hints_behind = 0, clock_jumps = 0, freezes = 0, breaks = 0, ghosts = 0,
                  timeouts = 0, crashes = 0, forgotten = 0, restored = 0, forgetful_grants = 0,
                  ran_ahead = 0, too_old = 0, scripts_lost = 0, exhausted = 0;
};

/// The assumptions of a simulation.
struct fence_conditions {
    /// Of a world without faults, with one client.
    enum class calmness : std::uint8_t {
        no,
        good_clocks, ///< right clocks, and counters that are behind them, each elsewhere
        diverged,    ///< counters that are ahead of all clocks, each elsewhere
    };
    enum class away : std::uint8_t {
        long_enough,
        twice_the_error, ///< but not until counters that ran ahead are in the past
        briefly,
    };
    calmness calm = calmness::no;
    unsigned fewest = 1, most = 7; ///< instances
    bool right_clocks = false;     ///< the clocks that hints are read from are right to within E
    bool fresh_hints = true; ///< and hints still are when they are carried out, with such clocks
    unsigned forgetful = 0;  ///< so many instances may forget
    away forgetting = away::long_enough;
    bool right_servers = true;     ///< who forgets believes right hints
    bool older_state = false;      ///< who forgets may come back with an older state
    bool bounded_acquires = false; ///< none takes longer than who forgets is away
    bool hint_within = false;      ///< an acquire begins, by its deadline, before its hint is read
};

/// The server, the wire and the driver. Broken ones leave out a duty.
struct faithful_parts {
    /// A raise is for the holder of the key alone.
    static constexpr bool raise_compares = true;
    /// A raise that is answered with yes has been done.
    static constexpr bool raise_stores = true;
    /// Each tenure is given another number than the one before it.
    static constexpr bool counts_up = true;
    /// The sender of a raise knows which raise is answered.
    static constexpr bool tells_round = true;
    /// A sender without an answer to a raise does not take it for done.
    static constexpr bool doubts_silence = true;
    /// It is told that a raise cannot be sent.
    static constexpr bool tells_unsent = true;
};

} // namespace holdfast::test

#endif
