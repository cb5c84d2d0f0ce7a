// The decisions of Sentinel in a world whose fail-overs lose writes.
//
// HOLDFAST_SCHEDULES is how many schedules are tried, HOLDFAST_SEED the seed of the first. A
// failure names the seed that shows it again.
#include "simulation/failovers/failovers.hpp"
#include "simulation/kernel/search.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <ostream>
#include <string_view>

namespace {

using namespace holdfast;
using namespace holdfast::test;
using protocol::promotion_rules;
using protocol::sentinel_rules;

template <class Parts>
auto in(failover_setup const& setup, failover_tally& seen) {
    return [&seen, setup](std::uint64_t seed, std::ostream* story) {
        return failover_world<Parts>(seed, seen, setup, story).run();
    };
}

template <class PromotionRules = promotion_rules, class DirectoryRules = sentinel_rules>
failover_tally stand(failover_setup const& setup) {
    failover_tally seen;
    using parts = failover_parts<DirectoryRules, PromotionRules>;
    stands(schedules_to_try() / 4, in<parts>(setup, seen));
    BOOST_TEST_MESSAGE("failovers "
                       << seen.failovers << ", demotions " << seen.demotions << ", moves "
                       << seen.moves << ", leaves " << seen.leaves << ", won " << seen.won
                       << " (at an old primary " << seen.won_at_old << "), contended "
                       << seen.contended << ", extended " << seen.extended << " (over a fail-over "
                       << seen.kept_over_failover << "), released " << seen.released
                       << ", uncounted grants " << seen.uncounted_grants << " and extensions "
                       << seen.uncounted_extensions << ", read only " << seen.read_only
                       << ", lost writes " << seen.lost_writes << ", cuts " << seen.cuts
                       << ", late commands " << seen.late_commands << ", stuck sentinels "
                       << seen.stuck_sentinels << ", missed waits " << seen.missed_waits
                       << ", freezes " << seen.freezes << ", other histories "
                       << seen.other_histories);
    if (setup.fences) {
        BOOST_TEST_MESSAGE("numbers of hints "
                           << seen.hinted << ", hints behind " << seen.hints_behind << ", ignored "
                           << seen.hints_ignored << ", numbers lost in fail-overs "
                           << seen.counts_lost << " and in resyncs " << seen.counts_dropped
                           << ", low numbers " << seen.low_numbers << ", saved by a hint "
                           << seen.saved_by_hint);
    }
    return seen;
}

template <class DirectoryRules, class PromotionRules = promotion_rules>
void is_refuted(failover_setup const& setup = {}) {
    failover_tally seen;
    test::refute(in<failover_parts<DirectoryRules, PromotionRules>>(setup, seen), "S1");
}

constexpr auto repeats = "S2: two leases", falls = "S2: a later";

template <class PromotionRules = promotion_rules, class ReplicaRules = protocol::replica_rules>
void fences_are_refuted(failover_setup const& setup, std::string_view how = falls) {
    failover_tally seen;
    using parts = failover_parts<sentinel_rules, PromotionRules, ReplicaRules>;
    test::refute(in<parts>(setup, seen), how);
}

struct needs_no_confirmation : promotion_rules {
    static constexpr bool in_confirmation(protocol::time_point, protocol::time_point) {
        return true;
    }
};

struct confirms_for_longer : sentinel_rules {
    static constexpr protocol::duration confirmation(protocol::duration m) { return m + m / 2; }
};

struct has_no_quarantine : promotion_rules {
    static constexpr protocol::duration grants_pause(protocol::duration, protocol::duration) {
        return protocol::duration::zero();
    }
};

struct quarantines_without_m : promotion_rules {
    static constexpr protocol::duration grants_pause(protocol::duration longest,
                                                     protocol::duration) {
        return longest;
    }
};

struct counts_extensions_at_once : promotion_rules {
    static constexpr protocol::duration extensions_pause(protocol::duration) {
        return protocol::duration::zero();
    }
};

struct believes_those_that_answer : sentinel_rules {
    static constexpr unsigned majority(unsigned, unsigned answering) { return answering / 2 + 1; }
};

struct counts_what_all_but_one_have : protocol::replica_rules {
    static constexpr bool covers(unsigned told, unsigned needed) { return told + 1 >= needed; }
};

// Without a quarantine (restart_policy::off), mutual exclusion rests on the replicas alone, and on
// their clocks.
constexpr failover_setup with_wait{.replicas = 2, .clocks_differ = false};

struct has_no_guard : has_no_quarantine {
    static constexpr bool in_confirmation(protocol::time_point, protocol::time_point) {
        return true;
    }
    static constexpr protocol::duration extensions_pause(protocol::duration) {
        return protocol::duration::zero();
    }
};

// As in src/runtime, clients do not ask for a lock before a grant can count.
constexpr failover_setup fenced(fence_setup const& fences) {
    return {.asks_early = false, .harsh = true, .checks_history = true, .fences = fences};
}

// Clients count what this many replicas have, and trust all clocks, servers and sentinels.
constexpr failover_setup on_replicas(unsigned replicas) {
    return {.replicas = replicas,
            .one_holder = false,
            .harsh = true,
            .fences = fence_setup{.clocks = hint_clocks::arbitrary}};
}

} // namespace

BOOST_AUTO_TEST_SUITE(failovers)

BOOST_AUTO_TEST_CASE(no_two_leases_overlap_whatever_a_failover_loses) {
    auto const seen = stand({.checks_history = true});
    all_happened({seen.failovers, seen.demotions, seen.moves, seen.leaves, seen.won,
                  seen.won_at_old, seen.contended, seen.extended, seen.kept_over_failover,
                  seen.released, seen.uncounted_grants, seen.uncounted_extensions, seen.read_only,
                  seen.lost_writes, seen.cuts, seen.late_commands, seen.stuck_sentinels});
}

BOOST_AUTO_TEST_CASE(nor_without_a_quarantine_where_all_replicas_have_each_grant) {
    auto const seen = stand<has_no_quarantine>(with_wait);
    all_happened({seen.failovers, seen.won, seen.extended, seen.kept_over_failover,
                  seen.uncounted_grants, seen.lost_writes, seen.missed_waits});
}

BOOST_AUTO_TEST_CASE(one_replica_of_two_is_no_guard) {
    is_refuted<sentinel_rules, has_no_quarantine>({.replicas = 1, .clocks_differ = false});
}

BOOST_AUTO_TEST_CASE(a_replica_whose_clock_is_ahead_is_no_guard) {
    is_refuted<sentinel_rules, has_no_quarantine>({.replicas = 2});
}

BOOST_AUTO_TEST_CASE(a_grant_that_one_replica_lacks_must_not_count) {
    failover_tally seen;
    using parts = failover_parts<sentinel_rules, has_no_quarantine, counts_what_all_but_one_have>;
    test::refute(in<parts>(with_wait, seen), "S1");
}

BOOST_AUTO_TEST_CASE(without_confirmation_two_clients_hold_the_lock) {
    is_refuted<sentinel_rules, needs_no_confirmation>();
}

BOOST_AUTO_TEST_CASE(a_confirmation_for_longer_than_m_is_too_long) {
    is_refuted<confirms_for_longer>();
}

BOOST_AUTO_TEST_CASE(without_quarantine_two_clients_hold_the_lock) {
    is_refuted<sentinel_rules, has_no_quarantine>();
}

BOOST_AUTO_TEST_CASE(a_quarantine_without_m_is_too_short) {
    is_refuted<sentinel_rules, quarantines_without_m>();
}

BOOST_AUTO_TEST_CASE(extensions_must_not_count_at_once) {
    is_refuted<sentinel_rules, counts_extensions_at_once>();
}

BOOST_AUTO_TEST_CASE(a_lone_sentinel_must_not_be_believed) {
    is_refuted<believes_those_that_answer>();
}

BOOST_AUTO_TEST_CASE(no_two_leases_overlap_when_faults_come_just_before_a_guard_lets_go) {
    auto const seen = stand({.harsh = true, .checks_history = true});
    all_happened({seen.failovers, seen.won, seen.won_at_old, seen.kept_over_failover,
                  seen.uncounted_grants, seen.uncounted_extensions, seen.freezes,
                  seen.other_histories});
}

// A primary that was demoted, and is promoted again within M, may have lost grants that counted
// there. It does not help that each fail-over reaches a majority of the sentinels before the next.
BOOST_AUTO_TEST_CASE(two_failovers_within_m_must_not_go_unnoticed) {
    is_refuted<sentinel_rules>({.harsh = true});
}

//
// Fences
//

BOOST_AUTO_TEST_CASE(fences_grow_where_the_clocks_of_clients_differ_by_less_than_max_ttl) {
    auto const seen = stand(fenced({}));
    all_happened({seen.failovers, seen.demotions, seen.won, seen.won_at_old, seen.extended,
                  seen.kept_over_failover, seen.uncounted_grants, seen.lost_writes,
                  seen.late_commands, seen.hinted, seen.hints_behind, seen.counts_lost,
                  seen.counts_dropped, seen.saved_by_hint, seen.freezes});
    BOOST_TEST(seen.hints_ignored == 0U);
}

// The quarantine is longer by M. That does not help: grants of the old primary count for M too.
BOOST_AUTO_TEST_CASE(clocks_of_clients_that_differ_by_more_than_max_ttl_give_fences_that_fall) {
    fences_are_refuted(fenced({.clocks = hint_clocks::too_far_apart}));
}

BOOST_AUTO_TEST_CASE(a_hint_from_within_the_quarantine_gives_fences_that_fall) {
    auto setup = fenced({});
    setup.asks_early = true;
    fences_are_refuted(setup);
}

BOOST_AUTO_TEST_CASE(arbitrary_clocks_of_clients_give_fences_that_fall) {
    fences_are_refuted(fenced({.clocks = hint_clocks::arbitrary}));
}

BOOST_AUTO_TEST_CASE(without_hints_fences_repeat) {
    fences_are_refuted(fenced({.clocks = hint_clocks::none}), repeats);
}

BOOST_AUTO_TEST_CASE(a_counter_that_does_not_count_up_gives_a_fence_twice) {
    fences_are_refuted(fenced({.counts_up = false}), repeats);
}

BOOST_AUTO_TEST_CASE(a_counter_that_ran_ahead_of_all_clocks_gives_a_fence_twice) {
    fences_are_refuted(fenced({.counts_by_clock = false}), repeats);
}

BOOST_AUTO_TEST_CASE(a_new_primary_that_believes_no_hint_gives_fences_that_fall) {
    fences_are_refuted(fenced({.believes_hints = false}));
}

BOOST_AUTO_TEST_CASE(two_failovers_within_m_that_no_client_notices_give_fences_that_fall) {
    auto setup = fenced({});
    setup.checks_history = false;
    fences_are_refuted(setup);
}

BOOST_AUTO_TEST_CASE(without_quarantine_fences_fall) {
    auto setup = fenced({});
    setup.checks_history = false;
    fences_are_refuted<has_no_quarantine>(setup);
}

BOOST_AUTO_TEST_CASE(a_quarantine_without_m_is_too_short_for_fences) {
    fences_are_refuted<quarantines_without_m>(fenced({}));
}

BOOST_AUTO_TEST_CASE(without_confirmation_fences_fall) {
    fences_are_refuted<needs_no_confirmation>(fenced({}));
}

// Leases may overlap there, and fences still grow.
BOOST_AUTO_TEST_CASE(fences_grow_whatever_clocks_show_where_all_replicas_have_each_grant) {
    auto const seen = stand<has_no_guard, believes_those_that_answer>(on_replicas(2));
    all_happened({seen.failovers, seen.demotions, seen.won, seen.extended, seen.kept_over_failover,
                  seen.lost_writes, seen.missed_waits, seen.hinted, seen.hints_behind,
                  seen.hints_ignored, seen.counts_lost, seen.counts_dropped});
    BOOST_TEST(seen.low_numbers == 0U);
}

BOOST_AUTO_TEST_CASE(one_replica_of_two_keeps_no_fences) {
    fences_are_refuted<has_no_guard>(on_replicas(1));
}

BOOST_AUTO_TEST_CASE(a_number_that_one_replica_lacks_must_not_count) {
    fences_are_refuted<has_no_guard, counts_what_all_but_one_have>(on_replicas(2));
}

BOOST_AUTO_TEST_SUITE_END()
