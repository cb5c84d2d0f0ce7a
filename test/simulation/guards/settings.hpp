// The counts of a simulation of the guards, their use, and the choice of faults.
#ifndef HOLDFAST_TEST_SIMULATION_GUARDS_SETTINGS_HPP
#define HOLDFAST_TEST_SIMULATION_GUARDS_SETTINGS_HPP

#include "protocol/restart_guard.hpp"
#include "protocol/standstill.hpp"
#include "protocol/time.hpp"

#include <cstdint>

namespace holdfast::test {

using protocol::duration;

/// Counts of the events that the properties are about. Schedules without them prove nothing.
struct guards_tally {
    std::uint64_t won = 0, contended = 0, no_quorum = 0, extended = 0, lost = 0, released = 0,
                  healed = 0, restarts = 0, all_restarted = 0, forgotten = 0, turned_back = 0,
                  kept_all = 0, setting_changes = 0, doubted = 0, prolonged = 0, late_starters = 0,
                  uncounted = 0, left_out = 0, won_beside = 0, kept_by_doubted = 0,
                  kept_by_healed = 0, jumps = 0, small_jumps = 0, jumps_back = 0, alarms = 0,
                  slow_checks = 0, known_all = 0, blind_overlaps = 0, standstills = 0, moved = 0,
                  excused = 0, misread = 0, final_wins = 0, final_refusals = 0, flushes = 0,
                  replacements = 0, announced = 0, missed = 0, refused_by_replica = 0;
};

/// How the guards are used. Broken ones differ.
struct guards_as_they_are {
    /// Whether an instance is to be doubted that says this of itself when it connects.
    static bool doubts(protocol::restart_guard& guard, protocol::data_origin const& now) {
        return guard.connected(now) != protocol::forgetting::none;
    }
    /// The same each second.
    static bool doubts_later(protocol::restart_guard& guard, protocol::data_origin const& now) {
        return guard.observed(now, true) != protocol::forgetting::none;
    }
    /// Whether it is doubted when it announces that its keys are gone.
    static constexpr bool hears() { return true; }
    /// For how long, when the server says that it has been up for so long.
    static duration doubted_for(duration max_ttl, duration /*uptime*/) { return max_ttl; }
    /// Whether a jump of its clock makes it so.
    static constexpr bool heeds_jumps() { return true; }
    /// Whether what it grants counts all the same, if it was asked before.
    static constexpr bool counts_what_arrives() { return false; }
    /// Whether what it extends counts.
    static constexpr bool counts_extensions() { return true; }
    /// For how long grants are in doubt after a jump by up to `most`.
    static duration in_doubt_for(duration max_ttl, duration /*most*/) { return max_ttl; }
    /// By how much deadlines are moved after a standstill.
    static duration moves(protocol::standstill::equal_jumps const& f) { return f.by; }
    /// Whether no server's clock has jumped.
    static bool is_ours(protocol::standstill::equal_jumps const& f) { return f.is_ours; }
    /// Whether a grant counts that came so long after it was asked for, where no ttl is shorter
    /// than that.
    static bool counts_grant(duration /*after*/, duration /*shortest_ttl*/) { return true; }
};

struct guards_setup {
    bool observed = true, strict = false;
    bool restarts = true;
    bool jumps = false;
    bool replacements = false;  ///< instances are flushed, and become replicas for a while
    bool late_starters = false; ///< some clients start when instances have restarted before
    enum {
        never,
        when_seen, ///< at a restart, if all clients have seen how it was before
        unseen
    } settings_change = when_seen;
    bool long_rounds = false; ///< an acquire may take longer than another's ttl
    bool slow = false;        ///< no faults but slow answers, stopped clients and drift
    bool single = false;      ///< one jump, and nothing else
    bool all_but_one = false; ///< the same, of all instances but one together
    bool away = false; ///< one client is cut off, and instances jump by different amounts meanwhile
    bool standstills = false;
    bool lone_standstill = false; ///< one, and nothing else
};

} // namespace holdfast::test

#endif
