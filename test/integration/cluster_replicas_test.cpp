// Grants that count only when replicas have them (client_options::replicas), in a Cluster with one
// replica for each primary.
#include "integration/cluster_load.hpp"
#include "support/wait.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

constexpr auto failover_limit = 40s;

/// The replica has a second to confirm a grant.
client_options replicated(std::chrono::milliseconds max_ttl) {
    auto o = patient();
    o.instance_timeout = 4s;
    o.max_ttl = max_ttl;
    o.replicas = 1;
    return o;
}

struct scene {
    explicit scene(cluster_group& of_test)
        : cluster(of_age(of_test))
        , a(address_of(cluster), replicated(renewed_ttl))
        , b(address_of(cluster), replicated(60s))
        , key(cluster.key_on(0))
        , beside(cluster.key_on(1))
        , replica(replica_of(cluster, 0)) {
        a.runs_with(b);
        BOOST_REQUIRE(a.all_up());
        BOOST_REQUIRE(b.all_up());
    }
    static cluster_group& of_age(cluster_group& c) {
        c.wait_until_older_than(renewed_ttl);
        return c;
    }
    /// The lock is on this replica as soon as it is granted.
    void check_locks(std::size_t at_replica) {
        for (auto const fenced : {false, true}) {
            auto l = a.hold(key, {.ttl = renewed_ttl, .fencing = fenced});
            auto cli = cluster.cli(at_replica);
            BOOST_TEST(cli.command({"READONLY"}).is_ok());
            BOOST_TEST(cli.exists(key));
            auto const e = a.extend(l);
            BOOST_TEST(!e, e.what());
            BOOST_TEST(a.releases(l));
        }
        check_beside();
    }
    /// The nodes beside have their replicas.
    void check_beside() {
        auto l = a.hold(beside, unwatched(renewed_ttl));
        BOOST_TEST(a.releases(l));
    }
    [[nodiscard]] bool grants_again() {
        return a.until(
            [&] {
                auto [e, l] = a.try_acquire(key, unwatched(renewed_ttl));
                return !e && a.releases(l);
            },
            failover_limit);
    }
    /// The replica is missing. Acquires may fail with `quarantined` before.
    void wait_until_refused() {
        error e;
        BOOST_TEST(a.until(
            [&] {
                e = a.try_acquire(key, unwatched(renewed_ttl)).first;
                return !e || e == errc::too_few_replicas;
            },
            failover_limit));
        BOOST_TEST((e == errc::too_few_replicas), e.what());
    }
    /// No lock of this node is granted, and the client says why.
    void check_unreplicated(std::size_t node) {
        auto const e = a.acquire(key, unwatched(renewed_ttl)).first;
        BOOST_TEST((e == errc::too_few_replicas), e.what());
        BOOST_TEST(contains(e.what(), "0 of 1 replica"), e.what());
        auto const nodes = a.status(0).nodes;
        auto const found = std::find_if(nodes.begin(), nodes.end(), [&](auto const& n) {
            return n.address == cluster.node(node).address();
        });
        BOOST_REQUIRE((found != nodes.end()));
        BOOST_TEST((found->state == instance_state::unreplicated), to_string(found->state));
        check_beside();
    }
    void check_needs(std::size_t at_replica, std::size_t primary) {
        cluster.cut_replication(at_replica, primary);
        wait_until_refused();
        check_unreplicated(primary);
        cluster.restore_replication(at_replica, primary);
        BOOST_TEST(grants_again());
    }

    cluster_group& cluster;
    test_client a; ///< its quarantines are short
    test_client b; ///< for a lease that outlasts a fail-over
    std::string const key, beside;
    std::size_t const replica; ///< of node 0
};

} // namespace

BOOST_AUTO_TEST_SUITE(cluster_replicas)

BOOST_AUTO_TEST_CASE(a_lock_needs_the_replica_of_its_node) {
    on_clusters([](cluster_group& cluster) {
        scene s(cluster);
        s.check_locks(s.replica);
        s.check_needs(s.replica, 0);
        check_no_locks(cluster);
    });
}

// The old primary becomes the replica.
BOOST_AUTO_TEST_CASE(a_planned_failover_keeps_the_number_of_replicas) {
    on_clusters([](cluster_group& cluster) {
        scene s(cluster);
        s.check_locks(s.replica);
        auto kept = s.b.hold(cluster.key_on(0, "kept"), unwatched(60s));
        fail_over(cluster);
        BOOST_REQUIRE(s.grants_again());
        s.check_locks(0);
        BOOST_TEST(s.b.until([&] { return !s.b.extend(kept); }));
        BOOST_TEST(kept.held());
        s.check_needs(0, s.replica);
        BOOST_TEST(s.b.releases(kept));
        check_no_locks(cluster);
    });
}

BOOST_AUTO_TEST_CASE(after_a_kill_nothing_counts_until_the_old_primary_is_a_replica) {
    on_clusters([](cluster_group& cluster) {
        scene s(cluster);
        auto kept = s.b.hold(cluster.key_on(0, "kept"), unwatched(60s));
        auto const slot = cluster.slot_of(s.key);
        cluster.node(0).kill();
        cluster.wait_for_owner(slot, s.replica);
        s.wait_until_refused();
        s.check_unreplicated(s.replica);
        // The key has outlived the fail-over. Its extensions do not count.
        BOOST_TEST(
            s.b.until([&] { return s.b.extend(kept) == errc::too_few_replicas; }, failover_limit));
        BOOST_TEST(kept.held());
        cluster.node(0).restart();
        BOOST_REQUIRE(s.grants_again());
        s.check_locks(0);
        BOOST_TEST(s.b.until([&] { return !s.b.extend(kept); }));
        BOOST_TEST(kept.held());
        BOOST_TEST(s.b.releases(kept));
        check_no_locks(cluster);
    });
}

BOOST_AUTO_TEST_SUITE_END()
