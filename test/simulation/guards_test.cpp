// The guards in a world in which instances forget keys and their clocks jump.
//
// HOLDFAST_SCHEDULES sets the number of schedules (5,000 by default; millions for a night).
// HOLDFAST_SEED sets the first seed. A failure names the seed that reproduces it.
#include "simulation/guards/guards.hpp"
#include "simulation/kernel/search.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <string_view>

namespace {

using namespace holdfast;
using namespace holdfast::test;

template <class Guards>
auto in(guards_setup const& setup, guards_tally& seen) {
    return [&seen, setup](std::uint64_t seed, std::ostream* story) {
        return guarded_world<Guards>(seed, seen, setup, story).run();
    };
}

template <class Guards = guards_as_they_are>
guards_tally stand(std::uint64_t schedules, guards_setup const& setup) {
    guards_tally seen;
    stands(schedules, in<Guards>(setup, seen));
    BOOST_TEST_MESSAGE(
        "won " << seen.won << " (beside some " << seen.won_beside << "), contended "
               << seen.contended << ", no quorum " << seen.no_quorum << ", extended "
               << seen.extended << ", lost " << seen.lost << ", released " << seen.released
               << ", healed " << seen.healed << "; restarts " << seen.restarts << " (of all "
               << seen.all_restarted << "), forgotten " << seen.forgotten << ", turned back "
               << seen.turned_back << ", kept all " << seen.kept_all << ", setting changes "
               << seen.setting_changes << ", late starters " << seen.late_starters << "; doubted "
               << seen.doubted << ", prolonged " << seen.prolonged << ", left out " << seen.left_out
               << ", uncounted " << seen.uncounted << ", kept by doubted " << seen.kept_by_doubted
               << ", kept by healed " << seen.kept_by_healed << "; jumps " << seen.jumps
               << " (small " << seen.small_jumps << "), back " << seen.jumps_back << ", alarms "
               << seen.alarms << ", slow checks " << seen.slow_checks << ", known all "
               << seen.known_all << ", blind overlaps " << seen.blind_overlaps << "; standstills "
               << seen.standstills << ", moved " << seen.moved << ", excused " << seen.excused
               << ", misread " << seen.misread << "; flushes " << seen.flushes << ", replacements "
               << seen.replacements << " (announced to " << seen.announced << ", missed by "
               << seen.missed << "), refused by a replica " << seen.refused_by_replica
               << ", found by age " << seen.found_by_age << "; final wins " << seen.final_wins
               << ", final refusals " << seen.final_refusals);
    return seen;
}

/// Checks that the same schedules refute a broken guard.
template <class Guards = guards_as_they_are>
void is_refuted(guards_setup const& setup, std::string_view property, std::uint64_t known = 0) {
    guards_tally seen;
    test::refute(in<Guards>(setup, seen), property, 20'000, known);
}

guards_setup restarts() {
    return {};
}

guards_setup restarts_and_late_starters() {
    return {.strict = true, .late_starters = true, .settings_change = guards_setup::never};
}

guards_setup restarts_of_the_aged() {
    return {.late_starters = true, .aged = true, .settings_change = guards_setup::never};
}

guards_setup jumps() {
    return {.jumps = true};
}

guards_setup standstills() {
    return {.restarts = false, .standstills = true};
}

guards_setup lone_standstill() {
    return {.restarts = false, .lone_standstill = true};
}

guards_setup replacements() {
    return {.replacements = true};
}

struct compares_no_ages : guards_as_they_are {
    static constexpr bool compares_ages() { return false; }
};

struct awaits_no_ages : guards_as_they_are {
    static constexpr bool awaits_ages() { return false; }
};

struct trusts_who_is_durable_now : guards_as_they_are {
    static bool doubts(protocol::restart_guard& guard, protocol::data_origin const& now) {
        return guards_as_they_are::doubts(guard, now) && !now.durable;
    }
};

struct trusts_who_was_durable : guards_as_they_are {
    static bool doubts(protocol::restart_guard& guard, protocol::data_origin const& now) {
        auto was = guard;
        // The guard is told that the server is durable now. So only the former setting decides.
        auto still = now;
        still.durable = true;
        auto const doubted = guards_as_they_are::doubts(was, still);
        guards_as_they_are::doubts(guard, now);
        return doubted;
    }
};

struct deaf_to_announcements : guards_as_they_are {
    static constexpr bool hears() { return false; }
};

struct blind_to_histories : guards_as_they_are {
    static bool doubts(protocol::restart_guard& guard, protocol::data_origin now) {
        now.history = 0;
        return guards_as_they_are::doubts(guard, now);
    }
    static bool doubts_later(protocol::restart_guard& guard, protocol::data_origin now) {
        now.history = 0;
        return guards_as_they_are::doubts_later(guard, now);
    }
};

struct counts_no_flushes : guards_as_they_are {
    static bool doubts(protocol::restart_guard& guard, protocol::data_origin now) {
        now.flushes = 0;
        return guards_as_they_are::doubts(guard, now);
    }
    static bool doubts_later(protocol::restart_guard& guard, protocol::data_origin now) {
        now.flushes = 0;
        return guards_as_they_are::doubts_later(guard, now);
    }
};

struct believes_the_uptime : guards_as_they_are {
    static duration doubted_for(duration max_ttl, duration uptime) {
        return std::max(duration::zero(), max_ttl - uptime);
    }
};

struct doubts_for_a_ninth_less : guards_as_they_are {
    static duration doubted_for(duration max_ttl, duration) { return max_ttl - max_ttl / 9; }
};

struct deaf_to_jumps : guards_as_they_are {
    static constexpr bool checks_jumps() { return false; }
};

struct counts_what_arrives_in_quarantine : guards_as_they_are {
    static constexpr bool counts_what_arrives() { return true; }
};

struct counts_no_extension : guards_as_they_are {
    static constexpr bool counts_extensions() { return false; }
};

struct counts_no_slow_grant : guards_as_they_are {
    static bool counts_grant(duration after, duration shortest_ttl) {
        return after < shortest_ttl - protocol::redlock_rules::drift(shortest_ttl);
    }
};

struct doubts_for_as_long_as_the_jump : guards_as_they_are {
    static duration in_doubt_for(duration, duration most) {
        return most + protocol::redlock_rules::drift(most);
    }
};

struct moves_no_deadline : guards_as_they_are {
    static duration moves(protocol::standstill::equal_jumps const&) { return duration::zero(); }
};

struct moves_deadlines_by_half : guards_as_they_are {
    static duration moves(protocol::standstill::equal_jumps const& f) { return f.least / 2; }
};

struct blames_the_servers : guards_as_they_are {
    static bool is_ours(protocol::standstill::equal_jumps const&) { return false; }
};

struct does_not_ask_the_others : guards_as_they_are {
    static bool is_ours(protocol::standstill::equal_jumps const& f) {
        return f.instances.size() > 1;
    }
};

} // namespace

BOOST_AUTO_TEST_SUITE(guards)

BOOST_AUTO_TEST_CASE(no_two_leases_overlap_whatever_restarts_if_the_clients_were_there_before) {
    auto const seen = stand(schedules_to_try(), restarts());
    all_happened({seen.won,
                  seen.contended,
                  seen.no_quorum,
                  seen.extended,
                  seen.lost,
                  seen.released,
                  seen.healed,
                  seen.restarts,
                  seen.all_restarted,
                  seen.forgotten,
                  seen.turned_back,
                  seen.kept_all,
                  seen.setting_changes,
                  seen.doubted,
                  seen.prolonged,
                  seen.won_beside,
                  seen.left_out,
                  seen.kept_by_doubted,
                  seen.kept_by_healed,
                  seen.final_wins,
                  seen.final_refusals});
}

BOOST_AUTO_TEST_CASE(nor_with_clients_that_start_later_if_they_are_strict) {
    auto const seen = stand(schedules_to_try() / 4, restarts_and_late_starters());
    all_happened({seen.late_starters, seen.uncounted, seen.forgotten, seen.doubted, seen.won,
                  seen.final_wins, seen.final_refusals});
}

BOOST_AUTO_TEST_CASE(nor_with_clients_that_start_later_if_one_instance_is_old) {
    auto const seen = stand(schedules_to_try() / 2, restarts_of_the_aged());
    all_happened({seen.late_starters, seen.found_by_age, seen.uncounted, seen.forgotten, seen.won,
                  seen.final_wins, seen.final_refusals});
}

BOOST_AUTO_TEST_CASE(ages_that_are_not_compared_are_refuted) {
    is_refuted<compares_no_ages>(restarts_of_the_aged(), "S1");
}

BOOST_AUTO_TEST_CASE(a_vote_before_the_older_one_has_told_its_age_is_refuted) {
    is_refuted<awaits_no_ages>(restarts_of_the_aged(), "S1", 14'259);
}

BOOST_AUTO_TEST_CASE(nor_whatever_is_flushed_or_replaced) {
    auto const seen = stand(schedules_to_try() / 2, replacements());
    all_happened({seen.won, seen.extended, seen.lost, seen.healed, seen.restarts, seen.flushes,
                  seen.replacements, seen.announced, seen.missed, seen.refused_by_replica,
                  seen.uncounted, seen.left_out, seen.won_beside, seen.final_wins,
                  seen.final_refusals});
}

BOOST_AUTO_TEST_CASE(jumps_harm_only_whom_they_take_by_surprise) {
    auto const seen = stand(schedules_to_try() / 2, jumps());
    all_happened({seen.jumps, seen.small_jumps, seen.jumps_back, seen.alarms, seen.known_all,
                  seen.uncounted, seen.blind_overlaps, seen.kept_by_doubted, seen.final_wins});
}

BOOST_AUTO_TEST_CASE(a_jump_is_noticed_within_a_second_and_a_round_trip) {
    auto const seen = stand(schedules_to_try() / 8, {.restarts = false, .single = true});
    all_happened({seen.jumps, seen.alarms, seen.won});
}

BOOST_AUTO_TEST_CASE(a_standstill_of_ours_harms_nobody_once_it_is_noticed) {
    auto const seen = stand(schedules_to_try() / 2, standstills());
    all_happened({seen.standstills, seen.moved, seen.excused, seen.won, seen.lost, seen.extended,
                  seen.blind_overlaps, seen.final_wins});
    stand(schedules_to_try() / 4, {.jumps = true, .standstills = true});
}

BOOST_AUTO_TEST_CASE(a_standstill_of_ours_is_noticed_within_a_second_and_blamed_on_nobody) {
    auto const seen = stand(schedules_to_try() / 8, lone_standstill());
    all_happened({seen.standstills, seen.moved, seen.excused, seen.won});
}

BOOST_AUTO_TEST_CASE(jumps_of_servers_are_no_standstill_if_one_did_not_jump) {
    auto const seen = stand(schedules_to_try() / 8, {.restarts = false, .all_but_one = true});
    all_happened({seen.jumps, seen.alarms, seen.won});
}

BOOST_AUTO_TEST_CASE(jumps_that_a_client_was_away_for_are_no_standstill) {
    auto const seen = stand(schedules_to_try() / 8, {.restarts = false, .away = true});
    all_happened({seen.jumps, seen.alarms, seen.won});
}

BOOST_AUTO_TEST_CASE(a_standstill_that_moves_no_deadline_is_refuted) {
    is_refuted<moves_no_deadline>(standstills(), "S1");
}

BOOST_AUTO_TEST_CASE(a_standstill_that_moves_deadlines_by_half_is_refuted) {
    is_refuted<moves_deadlines_by_half>(standstills(), "S1");
}

BOOST_AUTO_TEST_CASE(a_standstill_that_is_blamed_on_the_servers_is_refuted) {
    is_refuted<blames_the_servers>(lone_standstill(), "ours");
}

BOOST_AUTO_TEST_CASE(a_majority_that_is_believed_against_the_rest_is_refuted) {
    is_refuted<does_not_ask_the_others>({.restarts = false, .all_but_one = true}, "theirs");
}

// A jump shortens the life of every key. A key that outlives the jump still expires early, after
// such a quarantine.
BOOST_AUTO_TEST_CASE(a_quarantine_as_long_as_the_jump_is_refuted) {
    is_refuted<doubts_for_as_long_as_the_jump>(jumps(), "S1");
}

BOOST_AUTO_TEST_CASE(drift_and_slow_answers_are_no_jump) {
    auto const seen = stand(schedules_to_try() / 8, {.restarts = false, .slow = true});
    all_happened({seen.slow_checks, seen.won});
}

BOOST_AUTO_TEST_CASE(no_restart_guard_is_refuted) {
    auto setup = restarts();
    setup.observed = false;
    is_refuted(setup, "S1");
}

BOOST_AUTO_TEST_CASE(who_starts_later_and_is_not_strict_is_refuted) {
    auto setup = restarts_and_late_starters();
    setup.strict = false;
    is_refuted(setup, "S1");
}

BOOST_AUTO_TEST_CASE(trust_in_who_is_durable_only_now_is_refuted) {
    is_refuted<trusts_who_is_durable_now>(restarts(), "S1");
}

BOOST_AUTO_TEST_CASE(trust_in_who_was_durable_only_before_is_refuted) {
    is_refuted<trusts_who_was_durable>(restarts(), "S1");
}

// The next check would come too late.
BOOST_AUTO_TEST_CASE(not_to_hear_what_is_announced_is_refuted) {
    auto setup = replacements();
    setup.restarts = false;
    is_refuted<deaf_to_announcements>(setup, "S1");
}

// A client that was not connected learns of an announcement when it connects.
BOOST_AUTO_TEST_CASE(not_to_ask_for_what_was_missed_is_refuted) {
    auto setup = replacements();
    setup.restarts = false;
    is_refuted<blind_to_histories>(setup, "S1", 2'999);
    is_refuted<counts_no_flushes>(setup, "S1", 4'163);
}

BOOST_AUTO_TEST_CASE(trust_in_the_uptime_is_refuted) {
    is_refuted<believes_the_uptime>(restarts(), "S1");
}

BOOST_AUTO_TEST_CASE(a_quarantine_shorter_than_the_longest_ttl_is_refuted) {
    is_refuted<doubts_for_a_ninth_less>(restarts(), "S1");
}

BOOST_AUTO_TEST_CASE(grants_that_arrive_in_quarantine_and_count_are_refuted) {
    is_refuted<counts_what_arrives_in_quarantine>(jumps(), "S1", 9'120);
}

// The guard knows the former settings of a server from its last connection. It cannot know of a
// change in a run that the client has not seen. Neither can a client that starts afterwards, even a
// strict one.
BOOST_AUTO_TEST_CASE(settings_that_change_unseen_are_refuted) {
    is_refuted({.settings_change = guards_setup::unseen}, "S1");
    is_refuted({.strict = true, .late_starters = true, .settings_change = guards_setup::when_seen},
               "S1");
}

BOOST_AUTO_TEST_CASE(no_clock_guard_is_refuted) {
    is_refuted<deaf_to_jumps>(jumps(), "S1");
    is_refuted<deaf_to_jumps>({.restarts = false, .single = true}, "S1");
}

// An extension by an instance in quarantine counts: an instance that says yes has our key, even if
// a heal has put it there. So a lease may move to an instance that has just forgotten a grant, and
// leave another one, where its key expires. A client with the former grant of the first instance
// can then ask the second one, and win as well. Such an acquire outlasts another client's ttl. So
// instance_timeout must be less than half of every ttl.
BOOST_AUTO_TEST_CASE(an_acquire_that_outlasts_anothers_ttl_is_refuted) {
    is_refuted({.long_rounds = true}, "S1");
}

BOOST_AUTO_TEST_CASE(it_is_safe_where_late_grants_do_not_count_or_extensions_in_quarantine) {
    stand<counts_no_slow_grant>(schedules_to_try() / 4, {.long_rounds = true});
    stand<counts_no_extension>(schedules_to_try() / 4, {.long_rounds = true});
}

BOOST_AUTO_TEST_SUITE_END()
