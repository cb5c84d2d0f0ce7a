// The wait queue and the tenure in many processes that want one key.
//
// HOLDFAST_SCHEDULES sets the number of schedules (5,000 by default; millions for a night).
// HOLDFAST_SEED sets the first seed. A failure names the seed that reproduces it.
#include "simulation/contest/contest.hpp"
#include "simulation/kernel/search.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <optional>
#include <ostream>
#include <string_view>
#include <utility>

namespace {

using namespace holdfast;
using namespace holdfast::test;

/// Runs a schedule with these rules and this driver. Returns the violation.
template <class Rules, class Driver = faithful_driver>
auto under(contest_tally& seen, std::optional<contest_shape> shape = std::nullopt) {
    return [&seen, shape](std::uint64_t seed, std::ostream* story) {
        return contest<Rules, Driver>(seed, seen, shape, false, story).run();
    };
}

/// The same for schedules in which a minority falls silent and is not suspected.
template <class Driver = faithful_driver, class Rules = protocol::waiting_rules>
auto beside_a_silent_minority(contest_tally& seen) {
    return [&seen](std::uint64_t seed, std::ostream* story) {
        return contest<Rules, Driver>(seed, seen, std::nullopt, true, story).run();
    };
}

template <class Rules, class Driver = faithful_driver>
void refute(std::string_view property, std::uint64_t known = 0) {
    contest_tally seen;
    test::refute(under<Rules, Driver>(seen), property, 20'000, known);
}

struct deaf_to_expiry : protocol::waiting_rules {
    static constexpr bool wakes_at_expiry() { return false; }
};

struct deaf_to_disconnects : protocol::waiting_rules {
    static constexpr bool wakes_at_disconnect() { return false; }
};

struct greedy : protocol::waiting_rules {
    static constexpr bool stands_back() { return false; }
};

struct in_the_order_of_pushes : protocol::waiting_rules {
    static constexpr duration wake_delay(auto...) { return duration(1); }
};

struct for_one_waiter_only : protocol::waiting_rules {
    static constexpr bool inherits() { return false; }
};

struct no_end_of_handing_over : protocol::waiting_rules {
    static constexpr bool may_hand_over(auto...) { return true; }
};

struct the_limit_is_void : protocol::waiting_rules {
    static constexpr bool may_hand_over(unsigned, unsigned limit, duration, duration age,
                                        duration longest) {
        return limit > 1 && age < longest;
    }
};

struct young_tenures_never_end : protocol::waiting_rules {
    static constexpr bool may_hand_over(unsigned leases, unsigned limit, duration won_in,
                                        duration age, duration longest) {
        return (leases < limit && age < longest) || (limit > 1 && age < won_in);
    }
};

struct one_is_no_limit : protocol::waiting_rules {
    static constexpr bool may_hand_over(unsigned leases, unsigned limit, duration won_in,
                                        duration age, duration longest) {
        return (leases < limit || age < won_in) && age < longest;
    }
};

struct anything_suffices : protocol::waiting_rules {
    static constexpr bool suffices(duration, duration, bool) { return true; }
};

struct blames_the_servers : protocol::waiting_rules {
    static constexpr bool excuses(duration, duration, bool) { return false; }
};

struct at_the_arbiter_alone : protocol::waiting_rules {
    static constexpr unsigned tracked(unsigned, unsigned) { return 1; }
};

struct at_one_too_few : protocol::waiting_rules {
    static constexpr unsigned tracked(unsigned reachable, unsigned quorum) {
        return reachable - quorum;
    }
};

struct pauses_as_usual : protocol::waiting_rules {
    static constexpr duration longest_pause(duration usual, unsigned) { return usual; }
};

struct never_folds : protocol::waiting_rules {
    static constexpr bool may_fold(unsigned) { return false; }
};

struct folds_and_forgets : protocol::waiting_rules {
    static constexpr bool may_fold(unsigned) { return true; }
};

struct deaf_to_own_releases : faithful_driver {
    static constexpr bool hears_own_release = false;
};

struct deaf_to_pushes : faithful_driver {
    static constexpr bool hears_pushes = false;
};

struct forgets_to_start_again : faithful_driver {
    static constexpr bool starts_again = false;
};

struct loses_the_turn : faithful_driver {
    static constexpr bool keeps_the_turn = false;
};

struct waits_for_everybody : faithful_driver {
    static constexpr bool knows_who_is_late = false;
};

struct folds_waiters : faithful_driver {
    static constexpr bool folds_only_idle = false;
};

struct unfolds_as_ready : faithful_driver {
    static constexpr bool unfolds_as_held = false;
};

struct keeps_ended_tenures : faithful_driver {
    static constexpr bool ends_folded = false;
};

} // namespace

BOOST_AUTO_TEST_SUITE(contention)

BOOST_AUTO_TEST_CASE(every_schedule_keeps_every_promise) {
    contest_tally seen;
    stands(schedules_to_try(), under<protocol::waiting_rules>(seen));
    BOOST_TEST_MESSAGE(
        "leases " << seen.leases << ", tenures " << seen.tenures << ", handovers " << seen.handovers
                  << ", pushes " << seen.pushes << ", wasted " << seen.wasted << ", splits "
                  << seen.splits << ", stand-backs " << seen.stand_backs << ", own releases "
                  << seen.own_releases << ", cancelled " << seen.cancelled << ", heads cancelled "
                  << seen.heads_cancelled << ", cancelled when granted "
                  << seen.cancelled_when_granted << ", timed out " << seen.timed_out << ", refused "
                  << seen.refused << ", given up " << seen.given_up << ", no quorum "
                  << seen.no_quorum << ", lost " << seen.lost << ", deaths " << seen.deaths
                  << ", disconnects " << seen.disconnects << ", suspects " << seen.suspects
                  << ", expiries " << seen.expiries << ", flushes " << seen.flushes << ", resent "
                  << seen.resent << ", kept " << seen.kept << ", late ttls " << seen.late_ttls
                  << ", foreign " << seen.foreign << ", forgotten " << seen.forgotten
                  << ", measured " << seen.measured << ", outages " << seen.outages << ", stops "
                  << seen.stops << ", overslept " << seen.overslept << ", tracks " << seen.tracks
                  << ", listens " << seen.listens << ", stays " << seen.stays << ", remnants "
                  << seen.remnants << ", rescued " << seen.rescued << ", folded " << seen.folded
                  << ", unfolded " << seen.unfolded << ", unfolded to stand back "
                  << seen.unfolded_to_stand_back << ", lost folded " << seen.lost_folded
                  << ", beyond the limit " << seen.beyond_limit);
    BOOST_TEST_MESSAGE("longest wait " << seen.longest_wait << " of its bound, for a quorum "
                                       << seen.longest_quorum_wait << ", highest cost "
                                       << seen.highest_cost << " of what is allowed, most tries "
                                       << seen.most_tries << " of what is allowed, smallest share "
                                       << seen.smallest_share << " of the fair one ("
                                       << seen.smallest_turns << " of the turns)");
    all_happened({seen.leases,
                  seen.tenures,
                  seen.handovers,
                  seen.pushes,
                  seen.wasted,
                  seen.splits,
                  seen.stand_backs,
                  seen.own_releases,
                  seen.cancelled,
                  seen.heads_cancelled,
                  seen.cancelled_when_granted,
                  seen.timed_out,
                  seen.refused,
                  seen.given_up,
                  seen.no_quorum,
                  seen.lost,
                  seen.deaths,
                  seen.disconnects,
                  seen.suspects,
                  seen.expiries,
                  seen.flushes,
                  seen.resent,
                  seen.kept,
                  seen.late_ttls,
                  seen.foreign,
                  seen.forgotten,
                  seen.measured,
                  seen.outages,
                  seen.stops,
                  seen.overslept,
                  seen.tracks,
                  seen.listens,
                  seen.stays,
                  seen.remnants,
                  seen.rescued,
                  seen.folded,
                  seen.unfolded,
                  seen.unfolded_to_stand_back,
                  seen.lost_folded,
                  seen.beyond_limit});
}

BOOST_AUTO_TEST_CASE(a_silent_minority_delays_nobody) {
    contest_tally seen;
    stands(schedules_to_try() / 10, beside_a_silent_minority(seen));
    BOOST_TEST_MESSAGE("silences " << seen.silences << ", tenures " << seen.tenures
                                   << ", late tries " << seen.late_tries << ", late arbiters "
                                   << seen.late_arbiters << ", late releases " << seen.late_releases
                                   << ", late inspections " << seen.late_inspections << ", moved "
                                   << seen.moved << ", longest try " << seen.longest_try
                                   << " of its bound, longest wait " << seen.longest_wait);
    all_happened({seen.silences, seen.tenures, seen.late_tries, seen.late_arbiters,
                  seen.late_releases, seen.late_inspections, seen.moved});
}

BOOST_AUTO_TEST_CASE(waiting_for_silent_instances_is_refuted) {
    contest_tally seen;
    test::refute(beside_a_silent_minority<waits_for_everybody>(seen), "L5");
}

BOOST_AUTO_TEST_CASE(no_timer_at_the_expiry_is_refuted) {
    refute<deaf_to_expiry>("L");
}

BOOST_AUTO_TEST_CASE(no_try_after_a_disconnect_is_refuted) {
    refute<deaf_to_disconnects>("L", 9'367);
}

BOOST_AUTO_TEST_CASE(no_stand_back_is_refuted) {
    refute<greedy>("fairness");
}

// All messages take equally long. So the process that the server tells first would always try
// first.
BOOST_AUTO_TEST_CASE(tries_in_the_order_of_the_pushes_are_refuted) {
    contest_tally seen;
    test::refute(under<in_the_order_of_pushes>(seen, contest_shape{16, 2, 3, 50, 0, true}),
                 "fairness", 3);
}

BOOST_AUTO_TEST_CASE(handing_over_without_end_is_refuted) {
    refute<no_end_of_handing_over>("fairness");
}

BOOST_AUTO_TEST_CASE(handing_over_beyond_the_limits_is_refuted) {
    refute<the_limit_is_void>("handover");
    refute<young_tenures_never_end>("handover");
    refute<one_is_no_limit>("handover");
}

BOOST_AUTO_TEST_CASE(handing_over_what_is_left_is_refuted) {
    refute<anything_suffices>("validity");
}

BOOST_AUTO_TEST_CASE(waiting_at_the_arbiter_alone_is_refuted) {
    refute<at_the_arbiter_alone>("Q");
}

BOOST_AUTO_TEST_CASE(tracking_one_instance_less_is_refuted) {
    refute<at_one_too_few>("Q");
}

BOOST_AUTO_TEST_CASE(blaming_the_servers_for_a_stopped_process_is_refuted) {
    refute<blames_the_servers>("W");
}

BOOST_AUTO_TEST_CASE(an_own_release_that_wakes_nobody_is_refuted) {
    refute<protocol::waiting_rules, deaf_to_own_releases>("L", 3'659);
}

BOOST_AUTO_TEST_CASE(deafness_to_pushes_is_refuted) {
    refute<protocol::waiting_rules, deaf_to_pushes>("L");
}

BOOST_AUTO_TEST_CASE(a_try_given_up_and_none_begun_is_refuted) {
    refute<for_one_waiter_only, forgets_to_start_again>("L");
}

BOOST_AUTO_TEST_CASE(a_turn_lost_with_its_waiter_is_refuted) {
    refute<protocol::waiting_rules, loses_the_turn>("L");
}

// A schedule with folded queues is the same schedule.
BOOST_AUTO_TEST_CASE(folding_changes_nothing_else) {
    std::uint64_t folded = 0, unfolded = 0;
    for (std::uint64_t seed = 1; seed <= 1'000; ++seed) {
        contest_tally with, without;
        BOOST_TEST((contest<protocol::waiting_rules>(seed, with).run() ==
                    contest<never_folds>(seed, without).run()));
        folded += with.folded;
        unfolded += with.unfolded;
        with.folded = with.unfolded = with.unfolded_to_stand_back = with.lost_folded = 0;
        with.forgotten = without.forgotten; // a folded queue is not forgotten
        BOOST_TEST_INFO("seed " << seed);
        BOOST_TEST((with == without));
    }
    all_happened({folded, unfolded});
}

BOOST_AUTO_TEST_CASE(folding_a_queue_with_waiters_is_refuted) {
    refute<protocol::waiting_rules, folds_waiters>("forget");
}

BOOST_AUTO_TEST_CASE(unfolding_a_queue_as_ready_is_refuted) {
    refute<protocol::waiting_rules, unfolds_as_ready>("once");
}

BOOST_AUTO_TEST_CASE(a_folded_queue_that_outlives_its_tenure_is_refuted) {
    refute<protocol::waiting_rules, keeps_ended_tenures>("L");
}

BOOST_AUTO_TEST_CASE(a_folded_queue_that_forgets_leases_is_refuted) {
    refute<folds_and_forgets>("S2");
}

// A try that is given up and begun again costs time, but breaks no promise.
BOOST_AUTO_TEST_CASE(tries_that_nobody_inherits_are_safe) {
    contest_tally seen;
    stands(2'000, under<for_one_waiter_only>(seen));
    BOOST_TEST(seen.given_up > 0U);
}

namespace {

struct fair_driver : faithful_driver {
    static constexpr bool fair = true;
};
struct counts_reservations : fair_driver {
    static constexpr bool asks_for_reserved = false;
};
struct uses_tokens_again : fair_driver {
    static constexpr bool renews_tokens = false;
};
struct stays_in_line : fair_driver {
    static constexpr bool leaves_line = false;
};
struct stands_in_two_lines : fair_driver {
    static constexpr bool stands_in_one_line = false;
};
struct calls_the_last : fair_driver {
    static constexpr bool calls_in_order = false;
};
struct never_asks_again : protocol::waiting_rules {
    static constexpr duration renews_place = std::chrono::hours(24);
};

constexpr contest_shape brief_leases{
    .processes = 4, .waiters = 3, .instances = 3, .turns = 60, .brief = true};

struct always_stands_back : protocol::waiting_rules {
    static constexpr bool is_alone(unsigned, duration) { return false; }
};

template <class Rules>
void measure_without_handover(char const* which) {
    for (auto const processes : {1U, 2U, 4U, 16U}) {
        for (auto const steady : {false, true}) {
            contest_tally seen;
            contest<Rules> all(7, seen, contest_shape{processes, 4, 3, 500, 1, steady});
            BOOST_TEST(all.run() == "");
            BOOST_TEST_MESSAGE(which
                               << ", " << processes << (steady ? " steady" : "") << " processes: "
                               << static_cast<double>(all.leases()) / all.busy_seconds()
                               << " leases/s, smallest share " << all.share() << ", longest wait "
                               << all.longest_gap_ms() << " ms, " << all.cost() << " commands, "
                               << seen.stand_backs << " stand-backs, " << seen.stays << " stays; "
                               << all.describe());
        }
    }
}

} // namespace

// Each lease has a tenure of its own. One process alone is quick. Several processes take turns.
BOOST_AUTO_TEST_CASE(tenures_of_one_lease_are_shared) {
    measure_without_handover<always_stands_back>("always stands back");
    measure_without_handover<protocol::waiting_rules>("listens");
}

BOOST_AUTO_TEST_CASE(crowds_share_the_key) {
    for (auto const& [processes, steady] : {std::pair(4U, false), std::pair(16U, false),
                                            std::pair(64U, false), std::pair(16U, true)}) {
        contest_tally seen;
        contest<protocol::waiting_rules> all(7, seen,
                                             contest_shape{processes, 2, 3, 200, 0, steady});
        BOOST_TEST(all.run() == "");
        BOOST_TEST_MESSAGE(processes << " processes: " << all.cost() << " commands for a lease, "
                                     << static_cast<double>(all.leases()) / all.busy_seconds()
                                     << " leases/s, smallest share " << all.share()
                                     << " of the leases, " << all.turn_share() << " of the turns");
        BOOST_TEST(seen.measured > 0U);
    }
}

BOOST_AUTO_TEST_CASE(every_schedule_of_a_fair_key_keeps_every_promise) {
    contest_tally seen;
    stands(schedules_to_try(), under<protocol::waiting_rules, fair_driver>(seen));
    BOOST_TEST_MESSAGE(
        "leases " << seen.leases << ", tenures " << seen.tenures << ", calls " << seen.calls
                  << ", turns taken " << seen.turns_taken << ", left the line " << seen.line_left
                  << ", wasted " << seen.wasted << ", splits " << seen.splits << ", longest wait "
                  << seen.longest_wait << " of its bound, for a quorum " << seen.longest_quorum_wait
                  << ", highest cost " << seen.highest_cost << ", most tries " << seen.most_tries
                  << ", smallest share " << seen.smallest_share << " (" << seen.smallest_turns
                  << " of the turns), most turns of another process meanwhile "
                  << seen.most_overtaken);
    all_happened({seen.calls, seen.most_overtaken, seen.turns_taken, seen.line_left,
                  seen.told_in_vain, seen.lost, seen.deaths, seen.disconnects, seen.expiries,
                  seen.flushes, seen.kept, seen.foreign, seen.measured, seen.handovers,
                  seen.cancelled, seen.timed_out});
}

BOOST_AUTO_TEST_CASE(a_reservation_that_counts_as_a_vote_is_refuted) {
    refute<protocol::waiting_rules, counts_reservations>("S1");
}

BOOST_AUTO_TEST_CASE(a_token_of_the_line_that_is_used_again_is_refuted) {
    refute<protocol::waiting_rules, uses_tokens_again>("S3");
}

BOOST_AUTO_TEST_CASE(a_token_that_stands_in_two_lines_is_refuted) {
    refute<protocol::waiting_rules, stands_in_two_lines>("S4", 19'149);
}

BOOST_AUTO_TEST_CASE(a_place_in_line_that_is_never_renewed_is_refuted) {
    refute<never_asks_again, fair_driver>("L");
}

BOOST_AUTO_TEST_CASE(a_line_that_calls_the_last_is_refuted) {
    refute<protocol::waiting_rules, calls_the_last>("order");
}

BOOST_AUTO_TEST_CASE(waiters_that_stay_in_line_when_they_leave_are_refuted) {
    refute<protocol::waiting_rules, stays_in_line>("line");
}

// The line goes on at another instance.
BOOST_AUTO_TEST_CASE(a_silent_minority_delays_no_line) {
    contest_tally seen;
    stands(schedules_to_try() / 10, beside_a_silent_minority<fair_driver>(seen));
    BOOST_TEST_MESSAGE("silences " << seen.silences << ", calls " << seen.calls << ", turns taken "
                                   << seen.turns_taken << ", moved " << seen.moved
                                   << ", longest try " << seen.longest_try
                                   << " of its bound, longest wait " << seen.longest_wait);
    all_happened({seen.silences, seen.calls, seen.turns_taken, seen.moved, seen.late_tries,
                  seen.late_arbiters});
}

// Lines at two arbiters keep each other from a quorum.
BOOST_AUTO_TEST_CASE(pauses_that_do_not_grow_are_refuted) {
    contest_tally seen;
    test::refute(beside_a_silent_minority<fair_driver, pauses_as_usual>(seen), "L", 20'000,
                 2'001'085);
}

BOOST_AUTO_TEST_CASE(fair_crowds_take_turns) {
    for (auto const& [processes, steady] :
         {std::pair(2U, false), std::pair(4U, false), std::pair(16U, false), std::pair(64U, false),
          std::pair(16U, true)}) {
        contest_tally seen;
        contest<protocol::waiting_rules, fair_driver> all(
            7, seen, contest_shape{processes, 2, 3, 200, 0, steady});
        BOOST_TEST(all.run() == "");
        BOOST_TEST_MESSAGE(processes << " processes: " << all.cost() << " commands for a lease, "
                                     << static_cast<double>(all.leases()) / all.busy_seconds()
                                     << " leases/s, smallest share " << all.share()
                                     << " of the leases, " << all.turn_share()
                                     << " of the turns, longest wait " << all.longest_gap_ms()
                                     << " ms");
        BOOST_TEST(seen.measured > 0U);
    }
}

// Leases are so short that the time of its try ends a tenure, and not the limit of hand-overs.
BOOST_AUTO_TEST_CASE(tenures_as_long_as_their_tries_are_shared) {
    contest_tally seen;
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
        contest<protocol::waiting_rules> all(seed, seen, brief_leases);
        BOOST_TEST(all.run() == "");
        BOOST_TEST_MESSAGE("seed "
                           << seed << ": " << static_cast<double>(all.leases()) / all.busy_seconds()
                           << " leases/s, smallest share " << all.share() << " of the leases, "
                           << all.turn_share() << " of the turns; " << all.describe());
    }
    BOOST_TEST(seen.measured > 0U);
    BOOST_TEST(seen.beyond_limit > seen.leases / 2);
    contest_tally greedy_seen;
    test::refute(under<greedy>(greedy_seen, brief_leases), "fairness", 12);
}

BOOST_AUTO_TEST_SUITE_END()
