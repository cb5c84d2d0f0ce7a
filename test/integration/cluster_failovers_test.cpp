// Nodes of a Cluster die, hang, restart and fail over while clients work: no two holders, and
// fences grow.
#include "integration/attempt.hpp"
#include "integration/cluster_load.hpp"
#include "support/wait.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

/// A short quarantine: max_ttl and the node timeout of 2 s.
client_options with_short_ttls(std::chrono::milliseconds max_ttl = 1s) {
    auto options = brisk();
    options.max_ttl = max_ttl;
    options.instance_timeout = 500ms;
    return options;
}

std::vector<std::string> keys_on(cluster_group& cluster, std::size_t node, std::size_t count,
                                 std::string const& prefix) {
    std::vector<std::string> keys;
    for (std::size_t i = 0; i < count; ++i) {
        keys.push_back(cluster.key_on(node, prefix + std::to_string(i) + "-"));
    }
    return keys;
}

using event = std::function<void(cluster_group&)>;

struct history_options {
    std::chrono::milliseconds max_ttl = 1s;
    /// Another client holds a lease on a key of each kind over the event, and does not renew it.
    bool holds = false;
};

/// Four clients work on keys of node 0, and one on keys of node 1. Then `happens`, and grants go
/// on.
void check_history(cluster_group& cluster, event const& happens, history_options o = {}) {
    cluster.wait_until_older_than(o.max_ttl);
    auto const plain_keys = keys_on(cluster, 0, 4, "plain");
    auto const fenced_keys = keys_on(cluster, 0, 4, "fenced");
    referee judge;
    test_client holder(address_of(cluster), with_short_ttls(o.max_ttl));
    lease plain, fenced;
    auto const with_keys = [&](std::vector<std::string> keys, bool of_fences) {
        load_options options{.keys = std::move(keys)};
        options.lock = {.ttl = 800ms, .fencing = of_fences, .handover_limit = 3};
        options.client = with_short_ttls(o.max_ttl);
        options.pause = 10ms;
        return options;
    };
    cluster_load first(address_of(cluster), with_keys(plain_keys, false), judge);
    cluster_load second(address_of(cluster), with_keys(plain_keys, false), judge);
    cluster_load first_fenced(address_of(cluster), with_keys(fenced_keys, true), judge);
    cluster_load second_fenced(address_of(cluster), with_keys(fenced_keys, true), judge);
    cluster_load beside(address_of(cluster), with_keys(keys_on(cluster, 1, 4, "beside"), false),
                        judge);
    for (auto* const load : {&first, &second, &first_fenced, &second_fenced, &beside})
        BOOST_TEST(load->gets(20));
    auto const before = beside.failures();
    if (o.holds) {
        plain = holder.hold(plain_keys[0], unwatched(o.max_ttl));
        judge.begins(plain_keys[0], plain);
        fenced =
            holder.hold(fenced_keys[0], {.ttl = o.max_ttl, .watchdog = false, .fencing = true});
        judge.begins(fenced_keys[0], fenced, true);
    }
    happens(cluster);
    if (o.holds) {
        BOOST_REQUIRE(holder.until([&] { return !plain.held() && !fenced.held(); }, 60s));
        judge.ends(plain_keys[0], plain);
        judge.ends(fenced_keys[0], fenced);
    }
    for (auto* const load : {&first, &second, &first_fenced, &second_fenced})
        BOOST_TEST(load->gets(50, 60s));
    BOOST_TEST(beside.gets(20));
    BOOST_TEST_MESSAGE("failures " << first.failures() << ", beside " << beside.failures() - before
                                   << ", lost " << first.lost()
                                   << "; first: " << first.first_failure());
    for (auto* const load : {&first, &second, &first_fenced, &second_fenced, &beside})
        BOOST_TEST(load->stop());
    BOOST_TEST(judge.overlaps() == 0U);
    BOOST_TEST(judge.regressions() == 0U);
}

} // namespace

BOOST_AUTO_TEST_SUITE(cluster_failovers)

BOOST_AUTO_TEST_CASE(a_primary_is_killed) {
    on_clusters([](cluster_group& cluster) {
        check_history(cluster, [](cluster_group& c) {
            auto const slot = c.slot_of(c.key_on(0));
            c.node(0).kill();
            c.wait_for_other_owner(slot, 0);
        });
    });
}

BOOST_AUTO_TEST_CASE(a_primary_freezes_until_it_has_been_replaced) {
    on_clusters([](cluster_group& cluster) {
        check_history(cluster, [](cluster_group& c) {
            auto const slot = c.slot_of(c.key_on(0));
            c.node(0).freeze();
            c.wait_for_other_owner(slot, 0);
            c.node(0).thaw();
        });
    });
}

// Its clients still reach it, until it notices.
BOOST_AUTO_TEST_CASE(a_primary_is_isolated_until_it_has_been_replaced) {
    cluster_group_options options;
    options.isolable = true;
    on_clusters(
        [](cluster_group& cluster) {
            check_history(cluster, [](cluster_group& c) {
                auto const slot = c.slot_of(c.key_on(0));
                c.isolate(0);
                c.wait_for_other_owner(slot, 0);
                c.rejoin();
                c.wait_until_agreed();
            });
        },
        options);
}

// It compares and deletes by a command of its own, DELEX.
BOOST_AUTO_TEST_CASE(a_primary_of_redis_8_6_is_killed) {
    auto const kind = find_server("redis-8.6");
    if (!kind) return;
    cluster_group_options options;
    options.kind = *kind;
    cluster_group cluster(options);
    check_history(cluster, [](cluster_group& c) {
        auto const slot = c.slot_of(c.key_on(0));
        c.node(0).kill();
        c.wait_for_other_owner(slot, 0);
    });
}

BOOST_AUTO_TEST_CASE(a_planned_failover) {
    on_clusters([](cluster_group& cluster) {
        check_history(cluster,
                      [](cluster_group& c) { fail_over(c, cluster_group::takeover::planned); });
    });
}

BOOST_AUTO_TEST_CASE(a_forced_failover) {
    on_clusters([](cluster_group& cluster) {
        check_history(cluster,
                      [](cluster_group& c) { fail_over(c, cluster_group::takeover::force); });
    });
}

BOOST_AUTO_TEST_CASE(a_takeover) {
    on_clusters([](cluster_group& cluster) {
        check_history(cluster,
                      [](cluster_group& c) { fail_over(c, cluster_group::takeover::takeover); });
    });
}

BOOST_AUTO_TEST_CASE(a_failover_and_back) {
    on_clusters([](cluster_group& cluster) {
        check_history(cluster, [](cluster_group& c) {
            fail_over(c, cluster_group::takeover::planned);
            auto const slot = c.slot_of(c.key_on(3));
            c.wait_until_agreed();
            begin_failover(c, 0, cluster_group::takeover::planned);
            c.wait_for_owner(slot, 0);
        });
    });
}

// Keys cross a fail-over with the wall time of their expiry. So they expire early there.
BOOST_AUTO_TEST_CASE(a_replica_with_a_clock_ahead_is_promoted) {
    on_clusters([](cluster_group& cluster) {
        cluster.node(replica_of(cluster, 0)).shift_clock(5s);
        cluster.wait_until_agreed();
        check_history(cluster,
                      [](cluster_group& c) { fail_over(c, cluster_group::takeover::planned); },
                      {.max_ttl = 4s, .holds = true});
    });
}

BOOST_AUTO_TEST_CASE(a_primary_restarts_empty) {
    on_clusters([](cluster_group& cluster) {
        check_history(cluster, [](cluster_group& c) {
            c.restart_empty(0);
            c.wait_until_agreed();
        });
    });
}

BOOST_AUTO_TEST_CASE(all_other_nodes_freeze) {
    on_clusters([](cluster_group& cluster) {
        check_history(cluster, [](cluster_group& c) {
            for (std::size_t i = 1; i < c.size(); ++i) c.node(i).freeze();
            BOOST_TEST(wait_until(
                [&] {
                    auto const r = c.cli(0).command({"CLUSTER", "INFO"}).string();
                    return r.find("cluster_state:fail") != std::string::npos;
                },
                20s));
            for (std::size_t i = 1; i < c.size(); ++i) c.node(i).thaw();
            c.wait_until_agreed();
        });
    });
}

BOOST_AUTO_TEST_CASE(a_promoted_node_is_in_quarantine_and_held_leases_go_on) {
    on_clusters([](cluster_group& cluster) {
        auto options = patient();
        options.max_ttl = 30s;
        test_client client(address_of(cluster), options);
        auto const key = cluster.key_on(0), other = cluster.key_on(0, "other");
        auto const beside = cluster.key_on(1);
        auto l = client.hold(key, {.ttl = 30s});
        fail_over(cluster);
        BOOST_TEST(!client.extend(l));
        auto const [e, none] = client.acquire(other, {.ttl = 30s});
        BOOST_TEST((e == errc::quarantined), e.what());
        auto there = client.hold(beside, {.ttl = 30s});
        BOOST_TEST(client.releases(there));
        BOOST_TEST(client.releases(l));
        auto const s = client.status(0);
        BOOST_TEST((s.state == instance_state::up), s.message);
        std::size_t quarantined = 0;
        for (auto const& n : s.nodes) quarantined += n.state == instance_state::quarantined ? 1 : 0;
        BOOST_TEST(quarantined == 1U);
        check_no_locks(cluster);
    });
}

BOOST_AUTO_TEST_CASE(a_node_that_is_down_fails_only_the_keys_of_its_slots) {
    cluster_group_options options;
    options.replicas = 0;
    options.arguments = {"--cluster-require-full-coverage", "no"};
    on_clusters(
        [](cluster_group& cluster) {
            test_client client(address_of(cluster), brisk());
            auto const there = cluster.key_on(1), gone = cluster.key_on(0);
            auto first = client.hold(gone);
            BOOST_TEST(client.releases(first));
            cluster.node(0).kill();
            auto const [e, none] = client.acquire(gone);
            BOOST_TEST((e == error_condition::unavailable), e.what());
            auto l = client.hold(there);
            BOOST_TEST(client.releases(l));
            BOOST_TEST((client.status(0).state == instance_state::up));
            BOOST_TEST(client.status(0).message != "");
        },
        options);
}

BOOST_AUTO_TEST_CASE(pending_releases_go_to_the_owner_of_their_slot) {
    on_clusters([](cluster_group& cluster) {
        auto options = patient();
        options.instance_timeout = 300ms;
        test_client client(address_of(cluster), options);
        auto const key = cluster.key_on(0);
        auto l = client.hold(key, {.ttl = 60s, .watchdog = false});
        auto const to = replica_of(cluster, 0);
        BOOST_TEST(wait_until([&] { return cluster.cli(to).dbsize() == 1; }));
        auto const slot = cluster.slot_of(key);
        cluster.node(0).kill();
        BOOST_TEST(!client.releases(l));
        BOOST_TEST(client.until([&] { return client.status(0).pending_releases == 1U; }));
        cluster.wait_for_owner(slot, to);
        BOOST_TEST(client.until([&] { return !cluster.cli(to).exists(key); }, 30s));
        BOOST_TEST(client.until([&] { return client.status(0).pending_releases == 0U; }));
    });
}

BOOST_AUTO_TEST_CASE(other_instances_decide_while_a_node_is_down) {
    cluster_group_options options;
    options.replicas = 0;
    options.arguments = {"--cluster-require-full-coverage", "no"};
    on_clusters(
        [](cluster_group& cluster) {
            fleet servers(2);
            auto addresses = addresses_of(servers);
            addresses.insert(addresses.begin(), address(cluster.url()));
            // Long enough to fail the test if a call waits for the node.
            test_client client(addresses, patient());
            BOOST_TEST(client.all_up());
            auto const key = cluster.key_on(0);
            cluster.node(0).kill();
            for (int i = 0; i < 20; ++i) {
                auto l = client.hold(key);
                auto const [e, none] = client.try_acquire(key);
                BOOST_TEST((e == errc::contended), e.what());
                BOOST_TEST(client.releases(l));
            }
        },
        options);
}

// Redis does not tell the replica of the migration (N31 of doc/guarantees.md).
BOOST_AUTO_TEST_CASE(the_source_of_a_migration_fails_over_on_valkey) {
    auto const kind = find_server("valkey-9.1");
    if (!kind) return;
    cluster_group_options options;
    options.kind = *kind;
    cluster_group cluster(options);
    check_history(cluster, [](cluster_group& c) {
        auto const slot = c.slot_of(c.key_on(0));
        slot_migration moving(c, {0, 300}, 0, 1);
        moving.begin();
        moving.move_keys(3);
        c.node(0).kill();
        c.wait_for_other_owner(slot, 0);
    });
}

// The promoted node is in quarantine meanwhile.
BOOST_AUTO_TEST_CASE(a_waiting_acquire_outlasts_a_planned_failover) {
    on_clusters([](cluster_group& cluster) {
        auto options = brisk();
        options.max_ttl = 3s;
        cluster.wait_until_older_than(options.max_ttl);
        test_client holder(address_of(cluster), options);
        test_client waiter(address_of(cluster), options);
        waiter.runs_with(holder);
        auto const key = cluster.key_on(0);
        auto l = holder.hold(key, {.ttl = 3s});
        attempt next(waiter, key, {.ttl = 3s});
        BOOST_TEST(waits(waiter));
        fail_over(cluster, cluster_group::takeover::planned);
        (void)holder.release(l); // it may have been lost: nothing ran during the fail-over
        BOOST_TEST(waiter.until([&] { return next.done; }, 60s));
        BOOST_TEST(next.won(), next.how.what());
    });
}

BOOST_AUTO_TEST_CASE(a_waiter_gets_its_lock_after_a_failover) {
    on_clusters([](cluster_group& cluster) {
        auto options = trusting(brisk());
        test_client holder(address_of(cluster), options);
        test_client waiter(address_of(cluster), options);
        waiter.runs_with(holder);
        auto const key = cluster.key_on(0);
        auto l = holder.hold(key);
        attempt next(waiter, key, long_lived);
        BOOST_TEST(waits(waiter));
        fail_over(cluster);
        BOOST_TEST(holder.releases(l));
        check_gets(waiter, next);
    });
}

BOOST_AUTO_TEST_SUITE_END()
