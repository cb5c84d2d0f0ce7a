// Grants that count only when replicas have them (client_options::replicas), behind Sentinel.
#include "integration/sentinels.hpp"
#include "integration/test_client.hpp"
#include "support/sentinel_group.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

constexpr auto failover_limit = 40s;

/// The replicas have a second to confirm a grant.
client_options replicated(unsigned replicas, std::chrono::milliseconds max_ttl) {
    auto o = alert(max_ttl);
    o.instance_timeout = 4s;
    o.replicas = replicas;
    return o;
}

/// A busy machine is no reason for a fail-over that the test did not cause.
sentinel_group_options patient(sentinel_group_options o) {
    o.down_after = 3s;
    return o;
}

/// A primary, two replicas, their sentinels, and two clients.
struct scene {
    scene(sentinel_group_options const& o, unsigned replicas)
        : group(patient(o))
        , a({address(group.url())}, replicated(replicas, renewed_ttl))
        , b({address(group.url())}, replicated(replicas, 60s)) {
        a.runs_with(b);
        BOOST_REQUIRE(a.all_up());
        BOOST_REQUIRE(b.all_up());
        first = group.member(0).address();
    }
    [[nodiscard]] bool is_up_again() {
        return a.until([&] { return is_up(a.locks); }, failover_limit);
    }
    /// Each lock is on all replicas as soon as it is granted.
    void check_locks() {
        auto const primary = group.primary();
        for (auto const fenced : {false, true}) {
            auto l = a.hold("seat", {.ttl = renewed_ttl, .fencing = fenced});
            for (std::size_t i = 0; i < group.members(); ++i) {
                if (i == primary || !group.member(i).running()) continue;
                BOOST_TEST(group.cli(i).exists("seat"));
                if (fenced) BOOST_TEST(group.cli(i).exists("{seat}:fence"));
            }
            auto const e = a.extend(l);
            BOOST_TEST(!e, e.what());
            BOOST_TEST(a.releases(l));
        }
    }
    /// No lock is granted, and the client says why.
    void check_unreplicated(std::string_view reason) {
        auto const s = a.status(0);
        BOOST_TEST((s.state == instance_state::unreplicated), to_string(s.state));
        BOOST_TEST(s.reason == make_error_code(errc::too_few_replicas));
        BOOST_TEST(contains(s.message, reason), s.message);
        for (auto const& e : {a.try_acquire("seat", unwatched(renewed_ttl)).first,
                              a.acquire("seat", unwatched(renewed_ttl)).first}) {
            BOOST_TEST((e == errc::too_few_replicas), e.what());
            BOOST_REQUIRE(e.report() != nullptr);
            auto const& told = e.report()->instances.at(0);
            BOOST_TEST((told.outcome == instance_outcome::unreplicated), e.what());
            BOOST_TEST(contains(told.message, reason), told.message);
        }
    }

    sentinel_group group;
    test_client a;     ///< its quarantines are short
    test_client b;     ///< for a lease that outlasts a fail-over
    std::string first; ///< the address of the first primary
};

} // namespace

BOOST_AUTO_TEST_SUITE(sentinel_replicas)

BOOST_AUTO_TEST_CASE(a_lock_needs_all_replicas) {
    on_failover_kinds([](sentinel_group_options const& o) {
        scene s(o, 2);
        s.check_locks();
        s.group.cut_replication(1);
        BOOST_TEST(
            (s.a.try_acquire("seat", unwatched(renewed_ttl)).first == errc::too_few_replicas));
        s.check_unreplicated("1 of 2 replicas");
        s.group.restore_replication(1);
        BOOST_REQUIRE(s.is_up_again());
        s.check_locks();
        check_no_refusals(s.group);
    });
}

// The promoted server has one replica less until the old primary is back.
BOOST_AUTO_TEST_CASE(after_a_failover_nothing_counts_until_the_old_primary_is_a_replica) {
    on_failover_kinds([](sentinel_group_options const& o) {
        scene s(o, 2);
        auto kept = s.b.hold("kept", unwatched(60s));
        s.group.member(0).kill();
        BOOST_REQUIRE(has_moved(s.a, s.first));
        // The status shows the quarantine as long as that lasts.
        BOOST_REQUIRE(s.a.until([&] { return s.a.status(0).state == instance_state::unreplicated; },
                                failover_limit));
        auto const next = s.group.primary();
        BOOST_TEST(uses(s.a, s.group.member(next).address()));
        s.check_unreplicated("1 of 2 replicas");
        // The key has outlived the fail-over. Its extensions do not count.
        BOOST_TEST(s.group.cli(next).exists("kept"));
        BOOST_TEST(
            s.b.until([&] { return s.b.extend(kept) == errc::too_few_replicas; }, failover_limit));
        BOOST_TEST(kept.held());
        s.group.member(0).restart();
        BOOST_REQUIRE(s.is_up_again());
        BOOST_TEST(s.group.primary() == next);
        BOOST_TEST(s.group.role(0) == "slave");
        s.check_locks();
        BOOST_TEST(s.b.until([&] { return !s.b.extend(kept); }));
        BOOST_TEST(kept.held());
        BOOST_TEST(s.b.releases(kept));
        check_no_refusals(s.group);
    });
}

// The promoted server is asked for as many as it lists.
BOOST_AUTO_TEST_CASE(with_all_replicas_those_that_are_left_suffice_after_a_failover) {
    on_failover_kinds([](sentinel_group_options const& o) {
        scene s(o, all_replicas);
        s.check_locks();
        auto kept = s.b.hold("kept", unwatched(60s));
        s.group.member(0).kill();
        BOOST_REQUIRE(has_moved(s.a, s.first));
        BOOST_TEST(s.b.until([&] { return !s.b.extend(kept); }, failover_limit));
        BOOST_REQUIRE(s.is_up_again());
        s.check_locks();
        BOOST_TEST(kept.held());
        BOOST_TEST(s.b.releases(kept));
        check_no_refusals(s.group);
    });
}

BOOST_AUTO_TEST_SUITE_END()
