// Permits of a semaphore, with faults of all kinds.
//
// HOLDFAST_SCHEDULES sets the number of schedules (a quarter of it; 5,000 by default, and millions
// for a night). HOLDFAST_SEED sets the first seed. A failure names the seed that reproduces it, and
// tells its story.
#include "simulation/kernel/search.hpp"
#include "simulation/permits/permits.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

namespace {

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;
using faults = schedule_faults;
using parts = permits_parts;

/// Runs a schedule. Returns the violation.
auto under(permits_tally& seen, parts const& with = {}, faults of = faults::chance) {
    return [&seen, with, of](std::uint64_t seed, std::ostream* story) {
        return permits_world(seed, seen, with, of, std::nullopt, story).run();
    };
}

/// Breaks one part. `known`: see test::refute().
void refute(bool parts::*part, std::string_view property, faults of = faults::chance,
            std::uint64_t known = 0, parts with = {}) {
    with.*part = !(with.*part);
    permits_tally seen;
    test::refute(under(seen, with, of), std::string(property) + ':', 20'000, known);
}
/// The same, if the broken part lets two have one slot, or too many a lease.
void overlaps(bool parts::*part, std::string_view property = "P2", faults of = faults::chance,
              std::uint64_t known = 0) {
    parts with;
    with.audits_members = with.audits_losses = false;
    refute(part, property, of, known, with);
}

permits_measures measure(permits_shape const& shape, std::uint64_t seed, parts const& with = {}) {
    permits_tally seen;
    permits_world world(seed, seen, with, faults::none, shape);
    auto const found = world.measure();
    BOOST_TEST(world.found() == "");
    BOOST_TEST_MESSAGE("won " << found.wins << " of " << found.tries << " tries with "
                              << found.commands << " commands, longest wait "
                              << found.longest_wait_ms << " ms, at once " << found.most_at_once
                              << ", astray " << found.astray);
    return found;
}

} // namespace

BOOST_AUTO_TEST_SUITE(permits)

BOOST_AUTO_TEST_CASE(every_schedule_keeps_every_promise) {
    permits_tally seen;
    stands(schedules_to_try() / 4, under(seen));
    BOOST_TEST_MESSAGE(
        "won " << seen.won << ", fenced " << seen.fenced << ", handed over " << seen.handed_over
               << ", not because of their slot " << seen.drained << ", second rounds "
               << seen.second_rounds << ", won " << seen.won_in_second << ", extended "
               << seen.extended << ", with other ttls " << seen.other_ttls << ", healed "
               << seen.healed << ", raised " << seen.raised << ", lost " << seen.lost
               << ", contended " << seen.contended << ", refused at the arbiter "
               << seen.refused_at_arbiter << ", timed out " << seen.timed_out << ", cancelled "
               << seen.cancelled << ", no quorum " << seen.no_quorum << ", adopted " << seen.adopted
               << " and not " << seen.not_adopted << ", left " << seen.left);
    BOOST_TEST_MESSAGE("at the instances: taken "
                       << seen.taken << ", kept " << seen.kept << ", moved " << seen.moved
                       << ", given back " << seen.given_back << ", dead dropped "
                       << seen.dead_dropped << ", extensions with another slot "
                       << seen.extensions_of_others << ", refused " << seen.refused << ", full "
                       << seen.full << ", because a set was evicted " << seen.evicted_refused
                       << ", expiries " << seen.expiries);
    BOOST_TEST_MESSAGE(
        "pushes " << seen.pushes << ", ghosts " << seen.ghosts << ": grants " << seen.ghost_grants
                  << ", extensions " << seen.ghost_extensions << ", releases "
                  << seen.ghost_releases << "; breaks " << seen.breaks << ", freezes "
                  << seen.freezes << ", deaths " << seen.deaths << ", stops " << seen.stops
                  << ", restarts " << seen.restarts << ", quarantines " << seen.quarantined
                  << ", robberies " << seen.robberies << ", evictions " << seen.evictions
                  << ", remnants " << seen.remnants << ", suspects " << seen.suspects
                  << ", revoked " << seen.revoked << " and too late " << seen.revoked_too_late);
    all_happened({seen.won, seen.fenced, seen.handed_over, seen.drained, seen.second_rounds,
                  seen.won_in_second, seen.extended, seen.other_ttls, seen.healed, seen.raised,
                  seen.lost, seen.contended, seen.refused_at_arbiter, seen.timed_out,
                  seen.cancelled, seen.no_quorum, seen.adopted, seen.not_adopted, seen.left});
    all_happened({seen.taken,
                  seen.kept,
                  seen.moved,
                  seen.given_back,
                  seen.dead_dropped,
                  seen.extensions_of_others,
                  seen.refused,
                  seen.full,
                  seen.evicted_refused,
                  seen.expiries,
                  seen.pushes,
                  seen.ghost_grants,
                  seen.ghost_extensions,
                  seen.ghost_releases,
                  seen.breaks,
                  seen.freezes,
                  seen.deaths,
                  seen.stops,
                  seen.restarts,
                  seen.quarantined,
                  seen.robberies,
                  seen.evictions,
                  seen.remnants,
                  seen.suspects,
                  seen.revoked,
                  seen.revoked_too_late});
}

BOOST_AUTO_TEST_CASE(without_faults_nobody_waits_who_could_have_a_permit) {
    permits_tally seen;
    stands(schedules_to_try() / 10, under(seen, {}, faults::none));
    BOOST_TEST_MESSAGE("longest wait, as a part of its bound: " << seen.longest_wait);
}

//
// Broken instances
//

// Each instance counts to n, and majorities of three instances admit {1,2}, {2,3} and {1,3}.
BOOST_AUTO_TEST_CASE(votes_for_a_count_are_refuted) {
    overlaps(&parts::votes_for_slot, "P1");
    overlaps(&parts::votes_for_slot, "P1", faults::none);
}

BOOST_AUTO_TEST_CASE(a_release_by_slot_without_the_token_is_refuted) {
    overlaps(&parts::release_looks_at_token);
    refute(&parts::release_looks_at_token, "P3");
}

BOOST_AUTO_TEST_CASE(an_extension_that_brings_a_slot_back_is_refuted) {
    refute(&parts::extends_members_alone, "L4");
    refute(&parts::extends_members_alone, "L4", faults::restarts);
}

BOOST_AUTO_TEST_CASE(an_extension_of_another_slot_is_refuted) {
    refute(&parts::extends_own_slot_alone, "L4", faults::chance, 2'577);
}

BOOST_AUTO_TEST_CASE(a_heal_that_takes_the_slot_of_another_is_refuted) {
    overlaps(&parts::heals_free_slots_alone);
    refute(&parts::heals_free_slots_alone, "P3");
}

BOOST_AUTO_TEST_CASE(a_late_command_that_shortens_a_life_is_refuted) {
    overlaps(&parts::grows_deadlines, "P2", faults::chance, 177);
}

BOOST_AUTO_TEST_CASE(a_slot_that_is_dropped_before_its_deadline_is_refuted) {
    overlaps(&parts::drops_the_dead_alone);
}

// Two holders of one slot are what comes of it, but hardly in any schedule: test/model/permits.pml.
BOOST_AUTO_TEST_CASE(a_second_take_that_moves_the_token_is_refuted) {
    refute(&parts::token_keeps_slot, "P3", faults::chance, 69);
}

BOOST_AUTO_TEST_CASE(keys_that_end_with_the_newest_permit_are_refuted) {
    overlaps(&parts::keys_outlive_all);
}

BOOST_AUTO_TEST_CASE(slots_that_count_as_free_where_they_were_evicted_are_refuted) {
    overlaps(&parts::guards_evicted_sets);
}

BOOST_AUTO_TEST_CASE(one_number_for_two_holders_of_a_slot_is_refuted) {
    refute(&parts::counts_per_slot, "S2");
}

BOOST_AUTO_TEST_CASE(a_raise_that_is_not_stored_is_refuted) {
    refute(&parts::raise_stores, "S2");
}

BOOST_AUTO_TEST_CASE(a_raise_by_who_has_the_slot_no_more_is_refuted) {
    refute(&parts::raise_needs_slot, "S2", faults::reckless);
}

BOOST_AUTO_TEST_CASE(a_revocation_that_frees_the_slot_is_refuted) {
    overlaps(&parts::tombstone_keeps_slot);
}

BOOST_AUTO_TEST_CASE(a_revocation_of_who_has_the_slot_now_is_refuted) {
    refute(&parts::revokes_seen_token_alone, "P3");
}

//
// Broken machines
//

BOOST_AUTO_TEST_CASE(one_instance_for_a_permit_is_refuted) {
    overlaps(&parts::needs_quorum);
}

BOOST_AUTO_TEST_CASE(permits_that_do_not_level_are_refuted) {
    refute(&parts::levels, "S2");
}

BOOST_AUTO_TEST_CASE(validity_from_the_reply_is_refuted) {
    overlaps(&parts::counts_from_sent, "P2", faults::chance, 1'257);
}

// Those that have extended keep the slot for as long. But a lease that had ended is held again.
BOOST_AUTO_TEST_CASE(an_extension_that_counts_after_the_deadline_is_refuted) {
    refute(&parts::extends_in_time, "P1", faults::chance, 1'451);
}

//
// Broken drivers
//

BOOST_AUTO_TEST_CASE(another_slot_that_counts_as_yes_is_refuted) {
    overlaps(&parts::other_is_no_yes);
}

BOOST_AUTO_TEST_CASE(a_slot_handed_to_who_has_fewer_permits_is_refuted) {
    refute(&parts::hands_over_small_slots_alone, "P6");
}

BOOST_AUTO_TEST_CASE(no_restart_guard_is_refuted) {
    overlaps(&parts::restart_guard, "P2", faults::restarts);
}

//
// Nobody starves
//

// Each has the other's slot at one of three instances. Without a rule, that lasts until these slots
// end, as nobody extends them.
BOOST_AUTO_TEST_CASE(two_holders_with_swapped_slots_heal) {
    permits_shape const shape{.hold = 100s, .ttl = 3s, .length = 2100ms, .swap_at = 10ms};
    parts keeps;
    keeps.gives_back = false;
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        BOOST_TEST(measure(shape, seed).astray == 0U);
        BOOST_TEST(measure(shape, seed, keeps).astray == 2U);
    }
}

BOOST_AUTO_TEST_CASE(a_full_semaphore_starves_nobody) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        auto const found = measure({.permits = 2, .processes = 6, .hold = 2ms}, seed);
        BOOST_TEST(found.longest_wait_ms < 500);
        BOOST_TEST(found.most_at_once == 2U);
        auto const more =
            measure({.permits = 3, .processes = 3, .actors_of_each = 4, .hold = 2ms}, seed);
        BOOST_TEST(more.longest_wait_ms < 500);
        BOOST_TEST(more.most_at_once == 3U);
    }
}

// Others hold theirs all the time, so that the key does not expire.
BOOST_AUTO_TEST_CASE(a_dead_holder_keeps_its_permit_for_its_ttl_at_most) {
    permits_shape const shape{
        .permits = 2, .processes = 3, .hold = 100s, .ttl = 1s, .length = 4s, .kill_at = 103ms};
    parts with;
    with.drops_the_dead = false;
    double longest = 0;
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        BOOST_TEST(measure(shape, seed).longest_wait_ms < 1200);
        longest = std::max(longest, measure(shape, seed, with).longest_wait_ms);
    }
    BOOST_TEST(longest > 3'000);
}

//
// Cost, without faults
//

BOOST_AUTO_TEST_CASE(a_permit_needs_one_round_trip) {
    for (auto const n : {1U, 3U, 5U}) {
        for (auto const fenced : {false, true}) {
            auto const found = measure({.instances = n,
                                        .permits = 10,
                                        .processes = 8,
                                        .hold = 5s,
                                        .length = 900ms,
                                        .steady = true,
                                        .fenced = fenced},
                                       1);
            BOOST_TEST(found.wins == 8U);
            BOOST_TEST(found.slowest_round_trips < 1.001);
            BOOST_TEST(found.commands == 8 * n);
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
