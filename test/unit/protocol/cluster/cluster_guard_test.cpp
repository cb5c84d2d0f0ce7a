// The guards of a Cluster's nodes: promotions, silence, and clocks that differ.
#include "protocol/cluster/cluster_guard.hpp"

#include "unit/protocol/protocol_values.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>

using namespace holdfast::protocol;
using namespace std::chrono_literals;
using holdfast::test::at;

namespace {

constexpr node_origin primary{.run = 1, .history = 10, .promoted = false};
constexpr node_origin promoted_one{.run = 1, .history = 11, .promoted = true};
constexpr node_origin restarted_one{.run = 2, .history = 12, .promoted = false};
constexpr node_origin replica{.run = 1, .history = 10, .promoted = false, .replica = true};
constexpr duration node_timeout = 2s;

/// The node's clock is `ahead` of ours. The question was sent at `sent`, and took `took`.
clock_offset offset(duration ahead, duration sent, duration took = 1ms) {
    auto const asked = at(sent);
    return clock_offset::from(asked, asked + took, asked.time_since_epoch() + took / 2 + ahead);
}

silence_guard named_guard() {
    silence_guard guard(node_timeout);
    guard.connected();
    BOOST_TEST(!guard.answered(at(0s), at(1ms)));
    guard.named_by_another(at(1ms));
    return guard;
}

} // namespace

BOOST_AUTO_TEST_SUITE(cluster_guard)

BOOST_AUTO_TEST_CASE(a_promoted_node_may_lack_grants) {
    ownership_guard guard(false);
    BOOST_TEST((guard.serves(promoted_one, false) == ownership::promoted));
    BOOST_TEST((guard.serves(promoted_one, false) == ownership::known));
}

BOOST_AUTO_TEST_CASE(a_node_that_got_slots_in_a_migration_is_trusted) {
    ownership_guard fresh(false), with_more_slots(false);
    BOOST_TEST((fresh.serves(primary, false) == ownership::known));
    BOOST_TEST((with_more_slots.serves(promoted_one, true) == ownership::known));
    BOOST_TEST((with_more_slots.serves(promoted_one, false) == ownership::known));
}

BOOST_AUTO_TEST_CASE(a_primary_that_was_a_replica_meanwhile_may_lack_grants) {
    ownership_guard guard(false);
    BOOST_TEST((guard.serves(primary, true) == ownership::known));
    BOOST_TEST((guard.serves(promoted_one, false) == ownership::promoted));
}

BOOST_AUTO_TEST_CASE(a_primary_gets_a_new_history_with_its_first_replica) {
    ownership_guard guard(false);
    guard.serves(primary, true);
    BOOST_TEST((guard.serves({.run = 1, .history = 99}, false) == ownership::known));
}

// A configured address may be that of a replica. So the client may see the promotion itself.
BOOST_AUTO_TEST_CASE(a_node_that_was_seen_as_a_replica_may_lack_grants) {
    ownership_guard guard(false), by_first_map(false), same_history(false);
    guard.observed(replica);
    BOOST_TEST((guard.serves(promoted_one, false) == ownership::promoted));
    BOOST_TEST((guard.serves(promoted_one, false) == ownership::known));
    by_first_map.observed(replica);
    BOOST_TEST((by_first_map.serves(promoted_one, true) == ownership::promoted));
    same_history.observed(replica);
    BOOST_TEST((same_history.serves(primary, false) == ownership::promoted));
}

BOOST_AUTO_TEST_CASE(a_promotion_that_a_check_saw_before_the_map_counts) {
    ownership_guard guard(false);
    guard.observed(replica);
    guard.observed(promoted_one);
    BOOST_TEST((guard.serves(promoted_one, false) == ownership::promoted));
}

BOOST_AUTO_TEST_CASE(a_promotion_before_the_first_map_counts_if_strict) {
    ownership_guard observed(false), strict(true);
    BOOST_TEST((observed.serves(promoted_one, true) == ownership::known));
    BOOST_TEST((strict.serves(promoted_one, true) == ownership::promoted));
}

BOOST_AUTO_TEST_CASE(a_new_process_may_have_lost_its_data) {
    ownership_guard guard(false);
    guard.serves(primary, true);
    BOOST_TEST((guard.serves(restarted_one, false) == ownership::restarted));
    BOOST_TEST((guard.serves(restarted_one, false) == ownership::known));
}

BOOST_AUTO_TEST_CASE(a_quarantine_covers_leases_and_late_grants_of_the_old_primary) {
    BOOST_TEST((node_quarantine(60s, 15s) == 75s));
}

BOOST_AUTO_TEST_CASE(a_node_that_answers_often_counts) {
    auto guard = named_guard();
    for (auto t = 10ms; t < 20s; t += 900ms) BOOST_TEST(guard.answered(at(t), at(t + 99ms)));
}

BOOST_AUTO_TEST_CASE(a_grant_after_a_silence_of_half_the_node_timeout_does_not_count) {
    auto guard = named_guard();
    BOOST_TEST(guard.answered(at(500ms), at(999ms)));
    BOOST_TEST(!guard.answered(at(600ms), at(1500ms)));
    BOOST_TEST(guard.doubted());
    auto shorter = named_guard();
    BOOST_TEST(shorter.answered(at(500ms), at(999ms)));
    BOOST_TEST(shorter.answered(at(600ms), at(1499ms)));
}

BOOST_AUTO_TEST_CASE(all_commands_that_lay_in_the_socket_of_a_frozen_node_do_not_count) {
    auto guard = named_guard();
    for (int n = 0; n < 3; ++n) BOOST_TEST(!guard.answered(at(100ms), at(6s)));
    // Later answers do not count either, until another node names this one.
    BOOST_TEST(!guard.answered(at(6s), at(6001ms)));
    BOOST_TEST(!guard.answered(at(6001ms), at(6002ms)));
}

BOOST_AUTO_TEST_CASE(a_silent_node_counts_again_when_another_names_it) {
    auto guard = named_guard();
    BOOST_TEST(!guard.answered(at(100ms), at(6s)));
    guard.named_by_another(at(5999ms)); // another node was asked before this node went on
    BOOST_TEST(guard.doubted());
    guard.named_by_another(at(6s));
    BOOST_TEST(!guard.doubted());
    BOOST_TEST(guard.answered(at(6s), at(6001ms)));
}

BOOST_AUTO_TEST_CASE(a_new_connection_begins_with_a_doubt) {
    auto guard = named_guard();
    guard.connected();
    BOOST_TEST(!guard.ask_again_by());
    BOOST_TEST(!guard.answered(at(2ms), at(3ms)));
    guard.named_by_another(at(3ms));
    BOOST_TEST(guard.answered(at(4ms), at(5ms)));
}

BOOST_AUTO_TEST_CASE(an_idle_connection_asks_each_quarter_of_the_node_timeout) {
    auto guard = named_guard();
    BOOST_TEST((guard.ask_again_by() == at(501ms)));
    guard.set_node_timeout(8s);
    BOOST_TEST((guard.ask_again_by() == at(2001ms)));
}

BOOST_AUTO_TEST_CASE(a_quarantine_goes_along_with_a_slot) {
    BOOST_TEST((inherited_quarantine(time_point{}, at(0s), 60s) == 0s));
    BOOST_TEST((inherited_quarantine(at(10s), at(4s), 60s) == 6s));
    BOOST_TEST((inherited_quarantine(at(10s), at(10s), 60s) == 0s));
    BOOST_TEST((inherited_quarantine(at(90s), at(4s), 60s) == 60s));
}

BOOST_AUTO_TEST_CASE(an_owner_with_a_clock_ahead_ends_leases_early) {
    constexpr duration longest = 60s;
    auto const before = offset(0s, 0s);
    BOOST_TEST(ends_leases_early(offset(5s, 100ms), before, longest));
    BOOST_TEST(!ends_leases_early(offset(-5s, 100ms), before, longest));
    BOOST_TEST(!ends_leases_early(offset(0s, 100ms), before, longest));
    auto const ahead = certainly_ahead(offset(5s, 100ms), before, longest);
    BOOST_TEST((ahead > 4990ms && ahead <= 5s));
}

BOOST_AUTO_TEST_CASE(extensions_at_a_promoted_node_count_after_half_of_the_node_timeout) {
    succession_guard g;
    BOOST_TEST(g.counts_extensions(at(0s)));
    g.promoted(at(10s), 4s);
    BOOST_TEST(!g.counts_extensions(at(10s)));
    BOOST_TEST(!g.counts_extensions(at(11'999ms)));
    BOOST_TEST(g.counts_extensions(at(12s)));
}

BOOST_AUTO_TEST_CASE(extensions_count_at_once_if_the_old_primary_has_retired) {
    succession_guard g;
    g.promoted(at(10s), 4s);
    g.ceded();
    BOOST_TEST(g.counts_extensions(at(10s)));
    g.promoted(at(10s), 6s); // the node timeout was read after that
    BOOST_TEST(g.counts_extensions(at(10s)));
    // The next promotion has another predecessor.
    g.retired();
    g.promoted(at(20s), 4s);
    BOOST_TEST(!g.counts_extensions(at(20s)));
}

BOOST_AUTO_TEST_CASE(drift_and_slow_answers_are_no_difference_of_clocks) {
    constexpr duration longest = 60s;
    auto const before = offset(0s, 0s);
    BOOST_TEST(!ends_leases_early(offset(100ms, 10s), before, longest)); // drift of 1 % in 10 s
    BOOST_TEST(ends_leases_early(offset(110ms, 10s), before, longest));
    BOOST_TEST(!ends_leases_early(offset(600ms, 1000s), before, longest)); // no key is that old
    BOOST_TEST(ends_leases_early(offset(610ms, 1000s), before, longest));
    BOOST_TEST(!ends_leases_early(offset(400ms, 100ms, 1s), before, longest));
    BOOST_TEST(ends_leases_early(offset(600ms, 100ms, 1s), before, longest));
}

BOOST_AUTO_TEST_CASE(only_the_clock_that_is_ahead_is_certainly_ahead) {
    constexpr duration longest = 60s;
    auto const a = offset(0s, 0s), b = offset(150ms, 0s), c = offset(50ms, 0s);
    BOOST_TEST((certainly_ahead(b, a, longest) > clock_warning));
    BOOST_TEST((certainly_ahead(a, b, longest) == duration::zero()));
    BOOST_TEST((certainly_ahead(c, a, longest) < clock_warning));
}

BOOST_AUTO_TEST_SUITE_END()
