// Locks on several keys among locks on one key and foreign clients, with faults of all kinds.
//
// HOLDFAST_SCHEDULES sets the number of schedules (5,000 by default; a suite that is not the first
// takes a part). HOLDFAST_SEED sets the first seed. A failure names the seed that reproduces it.
#include "simulation/kernel/search.hpp"
#include "simulation/sets/sets.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string_view>

namespace {

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;
using faults = set_faults_of;

/// Runs a schedule. Returns the violation.
auto under(sets_tally& seen, set_parts const& parts = {}, faults of = faults::chance) {
    return [&seen, parts, of](std::uint64_t seed, std::ostream* story) {
        return set_world(seed, seen, parts, of, std::nullopt, story).run();
    };
}

void refuted(set_parts const& parts, std::string_view property, faults of = faults::chance) {
    sets_tally seen;
    test::refute(under(seen, parts, of), property, 3'000);
}

} // namespace

BOOST_AUTO_TEST_SUITE(sets)

BOOST_AUTO_TEST_CASE(every_schedule_keeps_every_promise) {
    sets_tally seen;
    stands(schedules_to_try() / 2, under(seen));
    BOOST_TEST_MESSAGE(
        "leases " << seen.leases << " of sets " << seen.sets << ", of one key " << seen.singles
                  << ", foreign " << seen.foreign << ", fences " << seen.fenced << ", handovers "
                  << seen.handovers << " of sets " << seen.sets_handed_over << ", extended "
                  << seen.extended << ", healed " << seen.healed << ", raised " << seen.raised
                  << ", lost " << seen.lost << ", refused " << seen.refused << ", timed out "
                  << seen.timed_out << ", cancelled " << seen.cancelled << " together "
                  << seen.cancelled_together << " in order " << seen.cancelled_in_order
                  << " in conversion " << seen.cancelled_in_conversion << " total "
                  << seen.total_cancels << ", no quorum " << seen.no_quorum << ", outages "
                  << seen.outages << ", in order " << seen.in_order << ", keys taken "
                  << seen.keys_taken << ", conversions " << seen.conversions << " won "
                  << seen.converted << " failed " << seen.conversions_failed << " keys replaced "
                  << seen.overwritten << ", started over " << seen.started_over);
    BOOST_TEST_MESSAGE("behind sets " << seen.behind_sets << ", behind others "
                  << seen.behind_queues << ", pushes " << seen.pushes << ", own releases "
                  << seen.own_releases << ", tracks " << seen.tracks << ", ghosts " << seen.ghosts
                  << ": conversions " << seen.ghost_conversions << ", grants " << seen.ghost_grants
                  << ", extensions " << seen.ghost_extensions << ", releases "
                  << seen.ghost_releases << ", breaks " << seen.breaks << ", freezes "
                  << seen.freezes << ", deaths " << seen.deaths << ", stops " << seen.stops
                  << ", restarts " << seen.restarts << ", quarantined " << seen.quarantined
                  << ", robberies " << seen.robberies << ", remnants " << seen.remnants
                  << ", suspects " << seen.suspects << ", expiries " << seen.expiries << " early "
                  << seen.early_expiries << ", folded " << seen.folded << ", late " << seen.late
                  << ", inspections " << seen.inspections << ", overslept " << seen.overslept);
}

#define REFUTED(name, part, value, property, ...)                                                  \
    BOOST_AUTO_TEST_CASE(name) { set_parts p; p.part = value; refuted(p, property __VA_OPT__(,) __VA_ARGS__); }
REFUTED(v1_takes_part, takes_all_or_none, false, "M2")
REFUTED(v2_grants_part, grants_all_or_none, false, "M1")
REFUTED(v3_overwrites, compares_prior, false, "M1")
REFUTED(v4_counts, doubts_prior, false, "M1")
REFUTED(v5_releases, releases_own, false, "S3")
REFUTED(v6_extends, extends_all_or_none, false, "M6")
REFUTED(v7_no_raise, raise_stores, false, "S2")
REFUTED(v8_first_key, raise_looks_at_all, false, "S2", faults::reckless)
REFUTED(v9_any_key, raise_needs_all, false, "S2", faults::reckless)
REFUTED(v10_number_each, counts_for_the_set, false, "S2")
REFUTED(v11_byte_order, byte_order, false, "M3", faults::none)
REFUTED(v12_no_order, keeps_order, false, "")
REFUTED(v13_other_orders, one_order, false, "M3")
REFUTED(v14_gives_back, gives_back, false, "")
REFUTED(v15_converted, hands_over_converted, true, "M1")
REFUTED(v16_joins, joins_in_order, false, "FIFO")
REFUTED(v17_use, tells_use, false, "FIFO")
REFUTED(v18_each, asks_each_time, false, "")
REFUTED(v19_heals, heals_held_alone, false, "M2")
REFUTED(v20_guard, restart_guard, false, "M1", faults::restarts)

BOOST_AUTO_TEST_SUITE_END()
