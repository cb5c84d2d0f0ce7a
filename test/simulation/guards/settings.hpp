// The settings of the guard simulation: counts, the use of the guards, and the choice of faults.
#ifndef HOLDFAST_TEST_SIMULATION_GUARDS_SETTINGS_HPP
#define HOLDFAST_TEST_SIMULATION_GUARDS_SETTINGS_HPP

#include "protocol/server/restart_guard.hpp"
#include "protocol/server/standstill.hpp"
#include "protocol/time.hpp"

#include <cstdint>

namespace holdfast::test {

using protocol::duration;

/// Counts of events that the properties concern. A run without them proves nothing.
struct guards_tally {
    std::uint64_t won = 0, contended = 0, no_quorum = 0, extended = 0, lost = 0, released = 0,
                  healed = 0, restarts = 0, all_restarted = 0, forgotten = 0, turned_back = 0,
                  kept_all = 0, setting_changes = 0, doubted = 0, prolonged = 0, late_starters = 0,
                  uncounted = 0, left_out = 0, won_beside = 0, kept_by_doubted = 0,
                  kept_by_healed = 0, jumps = 0, small_jumps = 0, jumps_back = 0, alarms = 0,
                  slow_checks = 0, known_all = 0, blind_overlaps = 0, standstills = 0, moved = 0,
                  excused = 0, misread = 0, final_wins = 0, final_refusals = 0, flushes = 0,
                  replacements = 0, announced = 0, missed = 0, refused_by_replica = 0,
                  found_by_age = 0;
};

/// The use of the guards. A broken use overrides a function.
struct guards_as_they_are {
    /// True if an instance must be doubted, given the state that it shows when a client connects.
    static bool doubts(protocol::restart_guard& guard, protocol::data_origin const& now) {
        return guard.connected(now) != protocol::forgetting::none;
    }
    /// The same for the check of each second.
    static bool doubts_later(protocol::restart_guard& guard, protocol::data_origin const& now) {
        return guard.observed(now, true) != protocol::forgetting::none;
    }
    /// True if the client reacts to the announcement that keys are gone.
    static constexpr bool hears() { return true; }
    /// The duration of the quarantine, given the uptime that the server shows.
    static duration doubted_for(duration max_ttl, duration /*uptime*/) { return max_ttl; }
    /// True if the ages of the instances tell of restarts before the first contact.
    static constexpr bool compares_ages() { return true; }
    /// True if commands for a young instance wait until the others have told their ages.
    static constexpr bool awaits_ages() { return true; }
    /// True if a jump of the instance's clock begins a quarantine.
    static constexpr bool checks_jumps() { return true; }
    /// True if a grant counts that was asked for before the quarantine.
    static constexpr bool counts_what_arrives() { return false; }
    /// True if extensions by an instance in quarantine count.
    static constexpr bool counts_extensions() { return true; }
    /// The time for which grants are in doubt after a jump by up to `most`.
    static duration in_doubt_for(duration max_ttl, duration /*most*/) { return max_ttl; }
    /// The duration by which a standstill moves deadlines.
    static duration moves(protocol::standstill::equal_jumps const& f) { return f.by; }
    /// True if the client's clock stood still, and no server's clock jumped.
    static bool is_ours(protocol::standstill::equal_jumps const& f) { return f.is_ours; }
    /// True if a grant counts that took `after`, where no ttl is less than `shortest_ttl`.
    static bool counts_grant(duration /*after*/, duration /*shortest_ttl*/) { return true; }
};

struct guards_setup {
    bool observed = true, strict = false;
    bool restarts = true;
    bool jumps = false;
    bool replacements = false;  ///< instances are flushed, and become replicas for a while
    bool late_starters = false; ///< some clients start after instances have restarted
    bool aged = false;          ///< all instances are old, and one of them never restarts
    enum {
        never,
        when_seen, ///< at a restart, if all clients have seen the former setting
        unseen
    } settings_change = when_seen;
    bool long_rounds = false; ///< an acquire may take longer than another client's ttl
    bool slow = false;        ///< slow answers, stopped clients and drift are the only faults
    bool single = false;      ///< one jump is the only fault
    bool all_but_one = false; ///< a common jump of all instances but one is the only fault
    bool away = false;        ///< one client is cut off while instances jump by different amounts
    bool standstills = false;
    bool lone_standstill = false; ///< one standstill is the only fault
};

} // namespace holdfast::test

#endif
