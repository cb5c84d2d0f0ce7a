// The decisions of a Cluster while a slot migrates or fails over.
#include "simulation/cluster/cluster.hpp"
#include "simulation/kernel/search.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <ostream>
#include <string_view>

namespace {

using namespace holdfast;
using namespace holdfast::test;
using protocol::cluster_guard_rules;
using protocol::cluster_rules;
using protocol::duration;

template <class Route, class Guard>
auto under(cluster_events& seen) {
    return [&seen](std::uint64_t seed, std::ostream* story) {
        return cluster_world<Route, Guard>(seed, seen, story).run();
    };
}

template <class Route, class Guard>
void refute(std::string_view property, std::uint64_t known = 0) {
    cluster_events seen;
    test::refute(under<Route, Guard>(seen), property, 20'000, known);
}

struct resend_after_release : cluster_rules {
    static constexpr bool may_resend_grant(bool /*wanted*/) { return true; }
};

struct hasty_client {
    static constexpr bool pauses = false;
};

struct release_to_the_owner : cluster_rules {
    static constexpr bool release_follows_grant() { return false; }
};

struct promotions_trusted : cluster_guard_rules {
    static constexpr bool doubts_promotions() { return false; }
};

struct migrations_doubted : cluster_guard_rules {
    static constexpr bool trusts_migrations() { return false; }
};

struct silence_ignored : cluster_guard_rules {
    static constexpr duration longest_silence(duration) { return std::chrono::hours(1); }
};

struct extensions_trusted : cluster_guard_rules {
    static constexpr duration serves_on(duration) { return duration::zero(); }
};

struct clocks_ignored : cluster_guard_rules {
    static constexpr bool too_far_ahead(duration) { return false; }
};

struct quarantine_left_behind : cluster_guard_rules {
    static constexpr bool inherits() { return false; }
};

} // namespace

BOOST_AUTO_TEST_SUITE(cluster)

BOOST_AUTO_TEST_CASE(every_schedule_keeps_every_promise) {
    cluster_events seen;
    stands(schedules_to_try() / 5, under<cluster_rules, cluster_guard_rules>(seen));
    BOOST_TEST_MESSAGE("held " << seen.held << ", refused " << seen.refused << ", resent "
                               << seen.resent << ", asked " << seen.asked << ", cancelled "
                               << seen.cancelled << ", migrations " << seen.migrations
                               << ", at once " << seen.at_once << ", fail-overs " << seen.failovers
                               << ", doubted " << seen.doubted << ", quarantines "
                               << seen.quarantines << ", isolations " << seen.isolations
                               << ", extended " << seen.extended << ", uncounted " << seen.uncounted
                               << ", waited " << seen.waited << ", given up " << seen.given_up);
    all_happened({seen.waited, seen.given_up, seen.isolations, seen.extended, seen.uncounted,
                  seen.held, seen.refused, seen.resent, seen.asked, seen.cancelled, seen.migrations,
                  seen.at_once, seen.failovers, seen.doubted, seen.quarantines});
}

BOOST_AUTO_TEST_CASE(a_grant_that_is_sent_again_after_its_release_is_refuted) {
    refute<resend_after_release, cluster_guard_rules>("S4", 2'509);
}

// An ASK to a node that cannot be asked leads back to the owner, which says the same.
BOOST_AUTO_TEST_CASE(refusals_without_a_pause_are_refuted) {
    cluster_events seen;
    test::refute(
        [&seen](std::uint64_t seed, std::ostream* story) {
            return cluster_world<cluster_rules, cluster_guard_rules, hasty_client>(seed, seen,
                                                                                   story)
                .run();
        },
        "L3");
}

BOOST_AUTO_TEST_CASE(a_release_that_goes_to_the_owner_is_refuted) {
    refute<release_to_the_owner, cluster_guard_rules>("S4");
}

BOOST_AUTO_TEST_CASE(a_promoted_node_that_is_trusted_is_refuted) {
    refute<cluster_rules, promotions_trusted>("S1");
}

BOOST_AUTO_TEST_CASE(a_quarantine_after_each_migration_is_refuted) {
    refute<cluster_rules, migrations_doubted>("migration");
}

BOOST_AUTO_TEST_CASE(grants_after_a_silence_are_refuted) {
    refute<cluster_rules, silence_ignored>("S1");
}

BOOST_AUTO_TEST_CASE(extensions_at_a_promoted_node_that_count_at_once_are_refuted) {
    refute<cluster_rules, extensions_trusted>("S1", 13'453);
}

BOOST_AUTO_TEST_CASE(clocks_that_are_not_compared_are_refuted) {
    refute<cluster_rules, clocks_ignored>("S1");
}

BOOST_AUTO_TEST_CASE(a_quarantine_that_stays_behind_is_refuted) {
    refute<cluster_rules, quarantine_left_behind>("S1");
}

BOOST_AUTO_TEST_SUITE_END()
