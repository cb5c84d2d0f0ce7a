// Readers and writers among plain locks and foreign clients, with faults of all kinds.
//
// HOLDFAST_SCHEDULES sets the number of schedules (a quarter of it; 5,000 by default, and millions
// for a night). HOLDFAST_SEED sets the first seed. A failure names the seed that reproduces it, and
// tells its story.
#include "simulation/kernel/search.hpp"
#include "simulation/readers/readers.hpp"

#include <boost/test/unit_test.hpp>

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
using parts = readers_parts;

/// Runs a schedule. Returns the violation.
auto under(readers_tally& seen, parts const& with = {}, faults of = faults::chance) {
    return [&seen, with, of](std::uint64_t seed, std::ostream* story) {
        return readers_world(seed, seen, with, of, std::nullopt, story).run();
    };
}

/// Breaks one part. `known`: see test::refute().
void refute(bool parts::*part, std::string_view property, faults of = faults::chance,
            std::uint64_t known = 0, parts with = {}) {
    with.*part = !(with.*part);
    readers_tally seen;
    test::refute(under(seen, with, of), std::string(property) + ':', 20'000, known);
}
/// The same, if the broken part lets a writer overlap somebody.
void overlaps(bool parts::*part, faults of = faults::chance, std::uint64_t known = 0) {
    parts with;
    with.audits_members = with.audits_losses = false;
    refute(part, "W1", of, known, with);
}

readers_measures measure(readers_shape const& shape, std::uint64_t seed, parts const& with = {}) {
    readers_tally seen;
    readers_world world(seed, seen, with, faults::none, shape);
    auto const found = world.measure();
    BOOST_TEST(world.found() == "");
    BOOST_TEST_MESSAGE("reads " << found.reads << ", longest wait " << found.longest_read_ms
                                << " ms; writes " << found.writes << ", longest wait "
                                << found.longest_write_ms << " ms");
    return found;
}

/// Nobody waits longer to read, or to write.
void waits(readers_shape const& shape, duration to_read, duration to_write) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        auto const found = measure(shape, seed);
        BOOST_TEST(found.longest_read_ms < static_cast<double>(to_read / 1ms));
        BOOST_TEST(found.longest_write_ms < static_cast<double>(to_write / 1ms));
        if (shape.reading != 0) BOOST_TEST(found.reads > 0U);
        if (shape.writing != 0 && shape.kill_at == 0ms) BOOST_TEST(found.writes > 0U);
    }
}
/// With a part broken, a writer waits for so long.
void starves_writers(readers_shape const& shape, bool parts::*part, duration for_longer_than) {
    parts with;
    with.*part = !(with.*part);
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        auto const found = measure(shape, seed, with);
        BOOST_TEST(found.longest_write_ms > static_cast<double>(for_longer_than / 1ms));
    }
}

// Readers of 5 ms on average, 10 ms at most, that come again at once. In each of the processes
// there is a reader at any time.
constexpr readers_shape always_read{
    .reading = 4, .readers_of_each = 4, .writing = 1, .read = 5ms, .write = 1ms};
constexpr duration one_generation = 25ms;

constexpr readers_shape always_write{
    .reading = 2, .readers_of_each = 2, .writing = 6, .read = 1ms, .write = 1ms};

// The notes of the writer last for a tenth of a read.
constexpr readers_shape long_reads{.reading = 3,
                                   .writing = 1,
                                   .read = 1500ms,
                                   .write = 1ms,
                                   .ttl_of_writers = 300ms,
                                   .length = 20s};

constexpr readers_shape dead_reader{.reading = 4,
                                    .readers_of_each = 2,
                                    .writing = 1,
                                    .read = 5ms,
                                    .write = 1ms,
                                    .think = 1ms,
                                    .ttl = 1s,
                                    .length = 3s,
                                    .kill_at = 103ms,
                                    .kill = 1};

} // namespace

BOOST_AUTO_TEST_SUITE(readers)

BOOST_AUTO_TEST_CASE(every_schedule_keeps_every_promise) {
    readers_tally seen;
    stands(schedules_to_try() / 4, under(seen));
    BOOST_TEST_MESSAGE("leases to read "
                       << seen.read << ", to write " << seen.written << ", plain " << seen.plain
                       << ", foreign " << seen.foreign << ", shared " << seen.shared << ", tenures "
                       << seen.tenures << ", fences to read " << seen.fenced_reads << ", to write "
                       << seen.fenced_writes << ", handed over " << seen.handovers
                       << ", downgraded " << seen.downgraded << " and confirmed "
                       << seen.downgrades_confirmed << ", then shared " << seen.shared_downgraded
                       << ", extended " << seen.extended << ", with other ttls " << seen.other_ttls
                       << ", healed " << seen.healed << ", raised " << seen.raised << ", lost "
                       << seen.lost << ", together " << seen.lost_together << ", refused "
                       << seen.refused << ", timed out " << seen.timed_out << ", cancelled "
                       << seen.cancelled << ", in total " << seen.total_cancels << ", no quorum "
                       << seen.no_quorum << ", parted " << seen.parted << ", rejoined "
                       << seen.rejoined << ", adopted " << seen.adopted << " and not "
                       << seen.not_adopted << ", left " << seen.left << ", shared "
                       << seen.left_shared << " and adopted " << seen.adopted_shared
                       << ", withdrawn " << seen.withdrawn << ", folded " << seen.folded
                       << ", late " << seen.late << ", inspections " << seen.inspections
                       << ", overslept " << seen.overslept);
    BOOST_TEST_MESSAGE("at the instances: readers "
                       << seen.admitted << ", refused by notes " << seen.refused_by_intent
                       << ", passed own notes " << seen.passed_own_intent << ", in their turn "
                       << seen.in_turn << ", writers refused in it " << seen.refused_in_turn
                       << ", notes " << seen.noted << ", renewed " << seen.notes_renewed
                       << ", deleted " << seen.notes_deleted << ", told " << seen.touched
                       << ", dead dropped " << seen.dead_dropped << ", passed "
                       << seen.dead_overcome << ", refused for want of the set "
                       << seen.evicted_refused << ", converted " << seen.converted
                       << ", plain locks refused " << seen.refused_beside_readers << ", expiries "
                       << seen.expiries << ", early ones " << seen.early_expiries);
    BOOST_TEST_MESSAGE(
        "pushes " << seen.pushes << ", own writes " << seen.own_releases << ", tracks "
                  << seen.tracks << ", ghosts " << seen.ghosts << ": readers "
                  << seen.ghost_admissions << ", grants " << seen.ghost_grants << ", extensions "
                  << seen.ghost_extensions << ", conversions " << seen.ghost_conversions
                  << ", releases " << seen.ghost_releases << "; breaks " << seen.breaks
                  << ", freezes " << seen.freezes << ", deaths " << seen.deaths << ", stops "
                  << seen.stops << ", restarts " << seen.restarts << ", quarantines "
                  << seen.quarantined << ", robberies " << seen.robberies << ", evictions "
                  << seen.evictions << ", remnants " << seen.remnants << ", suspects "
                  << seen.suspects);
    all_happened({seen.read,
                  seen.written,
                  seen.plain,
                  seen.foreign,
                  seen.shared,
                  seen.fenced_reads,
                  seen.fenced_writes,
                  seen.handovers,
                  seen.downgraded,
                  seen.downgrades_confirmed,
                  seen.shared_downgraded,
                  seen.extended,
                  seen.other_ttls,
                  seen.healed,
                  seen.raised,
                  seen.lost,
                  seen.refused,
                  seen.timed_out,
                  seen.total_cancels,
                  seen.no_quorum,
                  seen.parted,
                  seen.rejoined,
                  seen.adopted,
                  seen.not_adopted,
                  seen.left,
                  seen.left_shared,
                  seen.adopted_shared,
                  seen.withdrawn,
                  seen.folded});
    all_happened({seen.admitted,
                  seen.refused_by_intent,
                  seen.passed_own_intent,
                  seen.in_turn,
                  seen.refused_in_turn,
                  seen.noted,
                  seen.notes_renewed,
                  seen.notes_deleted,
                  seen.touched,
                  seen.dead_dropped,
                  seen.dead_overcome,
                  seen.evicted_refused,
                  seen.converted,
                  seen.expiries,
                  seen.refused_beside_readers,
                  seen.early_expiries,
                  seen.pushes,
                  seen.own_releases,
                  seen.tracks,
                  seen.ghost_admissions,
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
                  seen.writers_revoked,
                  seen.readers_revoked,
                  seen.revoked_too_late,
                  seen.suspects});
}

BOOST_AUTO_TEST_CASE(without_faults_nobody_waits_who_could_have_the_key) {
    readers_tally seen;
    stands(schedules_to_try() / 4, under(seen, {}, faults::none));
    BOOST_TEST_MESSAGE("longest wait, as a part of its bound: " << seen.longest_wait);
}

//
// Broken instances
//

BOOST_AUTO_TEST_CASE(a_marker_with_the_ttl_of_the_newest_reader_is_refuted) {
    overlaps(&parts::marker_outlives_all);
}

BOOST_AUTO_TEST_CASE(an_extension_that_shortens_the_marker_is_refuted) {
    overlaps(&parts::marker_never_shrinks);
}

BOOST_AUTO_TEST_CASE(a_downgrade_without_a_marker_is_refuted) {
    overlaps(&parts::downgrade_sets_marker);
}

BOOST_AUTO_TEST_CASE(a_release_that_deletes_the_marker_of_others_is_refuted) {
    overlaps(&parts::release_leaves_others);
    refute(&parts::release_leaves_others, "W2");
}

BOOST_AUTO_TEST_CASE(no_marker_beside_plain_locks_is_refuted) {
    overlaps(&parts::marker_shows);
}

BOOST_AUTO_TEST_CASE(a_writer_that_overwrites_the_marker_is_refuted) {
    overlaps(&parts::marker_excludes);
}

BOOST_AUTO_TEST_CASE(a_writer_that_overlooks_a_reader_is_refuted) {
    overlaps(&parts::writer_sees_all);
}

BOOST_AUTO_TEST_CASE(a_writer_that_drops_readers_too_early_is_refuted) {
    overlaps(&parts::drops_the_dead_alone);
}

BOOST_AUTO_TEST_CASE(a_writer_that_trusts_a_set_that_was_evicted_is_refuted) {
    overlaps(&parts::guards_evicted_set);
}

BOOST_AUTO_TEST_CASE(a_release_that_trusts_a_set_that_was_evicted_is_refuted) {
    overlaps(&parts::release_looks_at_set);
}

BOOST_AUTO_TEST_CASE(a_late_extension_that_shortens_a_life_is_refuted) {
    overlaps(&parts::grows_deadlines, faults::ordinary, 1'431);
}

// Readers of an earlier key, which was deleted, would be readers of the next one.
BOOST_AUTO_TEST_CASE(a_set_that_outlives_its_key_is_refuted) {
    refute(&parts::clears_old_set, "L4");
}

// Somebody has deleted the key, or instances have forgotten it.
BOOST_AUTO_TEST_CASE(an_extension_that_brings_a_reader_back_is_refuted) {
    refute(&parts::extends_members_alone, "L4");
    refute(&parts::extends_members_alone, "L4", faults::restarts);
}

// An adoption asks also instances in quarantine: what they extend, they have not forgotten.
BOOST_AUTO_TEST_CASE(an_extension_that_brings_a_reader_back_lets_two_adopt_after_a_restart) {
    overlaps(&parts::extends_members_alone, faults::restarts, 45'964);
}

BOOST_AUTO_TEST_CASE(a_reader_without_a_number_is_refuted) {
    refute(&parts::reads_count, "W7");
}

BOOST_AUTO_TEST_CASE(a_raise_that_is_not_stored_is_refuted) {
    refute(&parts::raise_stores, "W7");
}

BOOST_AUTO_TEST_CASE(a_revocation_that_frees_the_key_is_refuted) {
    overlaps(&parts::tombstone_keeps_key);
}

BOOST_AUTO_TEST_CASE(a_revocation_that_frees_the_place_of_a_reader_is_refuted) {
    overlaps(&parts::tombstone_keeps_deadline);
}

//
// Broken machines
//

BOOST_AUTO_TEST_CASE(one_instance_for_a_reader_is_refuted) {
    overlaps(&parts::reader_needs_quorum);
}

BOOST_AUTO_TEST_CASE(readers_that_do_not_level_are_refuted) {
    refute(&parts::readers_level, "W7");
}

BOOST_AUTO_TEST_CASE(validity_from_the_reply_is_refuted) {
    overlaps(&parts::counts_from_sent, faults::chance, 1'023);
}

// No writer overlaps for that reason, also if instances restart: those that have extended keep the
// reader for as long. But a lease that had ended would be held again.
BOOST_AUTO_TEST_CASE(an_extension_that_counts_after_the_deadline_is_refuted) {
    refute(&parts::extends_in_time, "W1", faults::ordinary, 9'945);
    refute(&parts::extends_in_time, "W1", faults::restarts, 9'806);
}

//
// Broken drivers
//

BOOST_AUTO_TEST_CASE(a_reader_that_passes_a_waiting_writer_of_its_process_is_refuted) {
    refute(&parts::keeps_order, "FIFO", faults::none);
}

BOOST_AUTO_TEST_CASE(the_first_of_several_readers_that_releases_for_all_is_refuted) {
    refute(&parts::last_one_releases, "W2", faults::none);
}

BOOST_AUTO_TEST_CASE(a_token_that_is_not_said_to_be_shared_is_refuted) {
    overlaps(&parts::tells_shared, faults::none);
}

BOOST_AUTO_TEST_CASE(readers_that_join_one_that_was_handed_over_are_refuted) {
    overlaps(&parts::stays_shared, faults::none);
}

BOOST_AUTO_TEST_CASE(a_release_of_a_shared_reader_that_was_adopted_is_refuted) {
    overlaps(&parts::leaves_shared, faults::none);
}

BOOST_AUTO_TEST_CASE(a_release_of_a_shared_reader_that_is_lost_is_refuted) {
    overlaps(&parts::loss_leaves_shared, faults::ordinary);
}

BOOST_AUTO_TEST_CASE(a_heal_after_the_lease_has_ended_is_refuted) {
    refute(&parts::heals_held_alone, "W11");
}

BOOST_AUTO_TEST_CASE(no_restart_guard_is_refuted) {
    overlaps(&parts::restart_guard, faults::restarts);
}

// The others hear of it only at the end of a ttl.
BOOST_AUTO_TEST_CASE(notes_that_stay_are_refuted) {
    refute(&parts::withdraws_intent, "W5", faults::none);
    refute(&parts::withdraws_where_refused, "W5", faults::none);
    refute(&parts::remembers_notes, "W5", faults::none, 5'012'384);
    refute(&parts::deletes_intent, "W5", faults::none);
}

BOOST_AUTO_TEST_CASE(notes_that_go_unheard_are_refuted) {
    refute(&parts::touches_key, "W5", faults::none);
}

BOOST_AUTO_TEST_CASE(a_writer_that_keeps_out_readers_of_its_process_is_refuted) {
    refute(&parts::own_intent_lets_in, "W5", faults::none);
}

BOOST_AUTO_TEST_CASE(notes_of_who_does_not_wait_are_refuted) {
    refute(&parts::try_leaves_nothing, "W5", faults::none, 12'469);
}

// The server does not push what the process itself has changed.
BOOST_AUTO_TEST_CASE(a_process_that_does_not_hear_its_own_changes_is_refuted) {
    refute(&parts::hears_own_writes, "W5", faults::none);
    refute(&parts::hears_all_releases, "W5", faults::none, 3'056);
}

//
// Nobody starves
//

BOOST_AUTO_TEST_CASE(a_writer_gets_its_turn_although_readers_never_stop) {
    waits(always_read, one_generation, one_generation);
}

BOOST_AUTO_TEST_CASE(a_writer_without_notes_starves) {
    starves_writers(always_read, &parts::leaves_intent, 1s);
}

BOOST_AUTO_TEST_CASE(a_writer_with_a_note_at_the_arbiter_alone_starves) {
    starves_writers(always_read, &parts::intent_everywhere, 1s);
}

// The first round of the writer has met another writer, or a reader that has gone.
BOOST_AUTO_TEST_CASE(a_writer_that_does_not_spread_its_note_starves) {
    starves_writers(always_read, &parts::spreads_intent, 1s);
}

BOOST_AUTO_TEST_CASE(readers_that_share_for_good_starve_writers) {
    starves_writers(always_read, &parts::shares_for_a_while, 1s);
}

BOOST_AUTO_TEST_CASE(readers_that_pass_writers_of_their_process_starve_all_writers) {
    starves_writers(always_read, &parts::keeps_order, 1s);
}

BOOST_AUTO_TEST_CASE(a_note_lasts_however_long_the_readers_take) {
    waits(long_reads, 4s, 4s);
    starves_writers(long_reads, &parts::renews_intent, 15s);
}

BOOST_AUTO_TEST_CASE(readers_get_their_turn_although_writers_never_stop) {
    waits(always_write, 25ms, 1s);
    for (auto const part : {&parts::opens_turn, &parts::turn_keeps_writers_out}) {
        parts with;
        with.*part = false;
        for (std::uint64_t seed = 1; seed <= 3; ++seed)
            BOOST_TEST(measure(always_write, seed, with).longest_read_ms > 30);
    }
}

BOOST_AUTO_TEST_CASE(processes_that_read_and_write_do_not_starve_each_other) {
    waits({.mixed = 6, .read = 1ms, .write = 1ms}, 1s, 1s);
}

BOOST_AUTO_TEST_CASE(a_dead_reader_keeps_a_writer_out_for_its_ttl_at_most) {
    waits(dead_reader, 1100ms, 1100ms);
    parts with;
    with.drops_the_dead = false;
    BOOST_TEST(measure(dead_reader, 1, with).longest_write_ms > 1400);
}

BOOST_AUTO_TEST_CASE(a_dead_writer_keeps_readers_out_for_its_ttl_at_most) {
    readers_shape shape{.reading = 4,
                        .writing = 1,
                        .read = 100ms,
                        .ttl = 1s,
                        .length = 3s,
                        .kill_at = 253ms,
                        .kill = 4};
    waits(shape, 1100ms, 3s);
}

//
// Cost, without faults
//

BOOST_AUTO_TEST_CASE(a_reader_needs_one_round_trip_and_its_neighbour_none) {
    for (auto const n : {1U, 3U, 5U}) {
        for (auto const fenced : {false, true}) {
            readers_shape shape{.instances = n,
                                .reading = 1,
                                .readers_of_each = 100,
                                .read = 1s,
                                .length = 900ms,
                                .steady = true,
                                .fenced = fenced};
            auto const one = measure(shape, 1);
            BOOST_TEST(one.reads == 100U);
            BOOST_TEST(one.slowest_round_trips < 1.001);
            BOOST_TEST(one.all_commands == n);
            shape.reading = 3; // beside readers of other processes
            shape.readers_of_each = 1;
            auto const three = measure(shape, 1);
            BOOST_TEST(three.reads == 3U);
            BOOST_TEST(three.slowest_round_trips < 1.001);
            BOOST_TEST(three.all_commands == 3 * n);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_writer_needs_one_round_trip) {
    for (auto const n : {1U, 3U, 5U}) {
        auto const found = measure(
            {.instances = n, .writing = 1, .write = 1s, .length = 900ms, .steady = true}, 1);
        BOOST_TEST(found.writes == 1U);
        BOOST_TEST(found.slowest_round_trips < 1.001);
        BOOST_TEST(found.all_commands == n);
    }
}

BOOST_AUTO_TEST_SUITE_END()
