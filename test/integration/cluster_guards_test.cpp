// The guards of a Cluster's nodes: promoted nodes that lack locks, old primaries that thaw, and
// clocks that differ. Each test makes the state in which a client without the guard would give one
// lock to two holders.
#include "protocol/cluster/hash_slot.hpp"

#include "integration/attempt.hpp"
#include "integration/cluster_load.hpp"
#include "support/wait.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <string>
#include <string_view>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

/// No answer of a frozen node is overdue, so that its late answers come.
client_options waiting_for_late_answers() {
    auto options = patient();
    options.max_ttl = 60s;
    return options;
}

/// How often the node was asked for INFO, this time included at the next time.
long infos_at(redis_cli& cli) {
    constexpr std::string_view name = "calls=";
    auto const calls = cli.info("cmdstat_info");
    auto const at = calls.find(name);
    return at == calls.npos ? 0 : std::stol(calls.substr(at + name.size()));
}

} // namespace

BOOST_AUTO_TEST_SUITE(cluster_guards)

BOOST_AUTO_TEST_CASE(a_replica_that_lacks_a_lock_is_promoted_and_grants_it_to_no_other) {
    on_clusters([](cluster_group& cluster) {
        test_client holder(address_of(cluster), waiting_for_late_answers());
        test_client other(address_of(cluster), brisk());
        auto const key = cluster.key_on(0);
        auto const slot = cluster.slot_of(key);
        auto first = other.hold(key); // the other client knows the old primary
        BOOST_TEST(other.releases(first));
        auto const replica = cluster.replicas_of(0).front();
        cluster.node(replica).freeze();
        BOOST_TEST(cluster.cli(0).command({"CLIENT", "KILL", "TYPE", "replica"}).integer() == 1);
        auto l = holder.hold(key, {.ttl = 60s, .watchdog = false});
        cluster.node(0).kill();
        cluster.node(replica).thaw();
        cluster.wait_for_owner(slot, replica);
        BOOST_TEST(!cluster.cli(replica).exists(key));
        BOOST_TEST(other.until([&] {
            auto const [e, none] = other.try_acquire(key);
            BOOST_TEST(!none.held());
            return e == errc::quarantined;
        }));
        BOOST_TEST(l.held());
    });
}

BOOST_AUTO_TEST_CASE(a_client_that_starts_after_the_restart_of_a_node_makes_no_second_holder) {
    cluster_group cluster({.replicas = 0});
    for (std::size_t i = 0; i < cluster.size(); ++i) cluster.node(i).shift_clock(120s);
    test_client holder(address_of(cluster), waiting_for_late_answers());
    auto const key = cluster.key_on(0);
    auto l = holder.hold(key, {.ttl = 60s, .watchdog = false});
    cluster.restart_empty(0);
    cluster.wait_until_agreed();
    for (int i = 0; i < 5; ++i) {
        test_client other(address_of(cluster), waiting_for_late_answers());
        auto const [e, none] = other.try_acquire(key);
        BOOST_TEST((e == errc::quarantined), e.what());
        BOOST_TEST(!none);
        auto elsewhere = other.hold(cluster.key_on(1));
        BOOST_TEST(other.releases(elsewhere));
    }
    BOOST_TEST(l.held());
}

// The client has a connection to each configured node from the start, also to the replica.
BOOST_AUTO_TEST_CASE(a_configured_replica_that_is_promoted_grants_no_lock_that_it_lacks) {
    for (auto const checked_between : {false, true}) {
        on_clusters([&](cluster_group& cluster) {
            test_client holder(address_of(cluster), waiting_for_late_answers());
            test_client other({address(cluster.url({0, 1, 2, 3, 4, 5}))},
                              waiting_for_late_answers());
            BOOST_REQUIRE(other.all_up());
            auto const key = cluster.key_on(0);
            auto first = other.hold(key);
            BOOST_TEST(other.releases(first));
            auto const replica = cluster.replicas_of(0).front();
            cluster.cut_replication(replica, 0);
            auto l = holder.hold(key, {.ttl = 60s, .watchdog = false});
            cluster.begin_failover(replica, cluster_group::takeover::takeover);
            BOOST_REQUIRE(wait_until([&] { return cluster.role(replica) == "master"; }));
            if (checked_between) {
                auto cli = cluster.cli(replica);
                auto own = infos_at(cli);
                BOOST_TEST(other.until([&] { return infos_at(cli) > ++own + 1; }));
            }
            error last;
            BOOST_TEST(other.until([&] {
                auto [e, none] = other.try_acquire(key);
                BOOST_REQUIRE(!none.held());
                last = e;
                return e == errc::quarantined;
            }));
            // max_ttl, and the node timeout in which the old primary may still grant.
            BOOST_TEST(contains(last.what(), "do not count for 62000 ms"), last.what());
            BOOST_TEST(!cluster.cli(replica).exists(key));
            BOOST_TEST(l.held());
        });
    }
}

BOOST_AUTO_TEST_CASE(a_grant_of_an_old_primary_that_thaws_does_not_count) {
    on_clusters([](cluster_group& cluster) {
        test_client late(address_of(cluster), waiting_for_late_answers());
        auto const key = cluster.key_on(0);
        auto const slot = cluster.slot_of(key);
        auto first = late.hold(key);
        BOOST_TEST(late.releases(first));
        cluster.node(0).freeze();
        attempt slow(late, key, impatient());
        late.context.poll(); // the command lies in the socket of the frozen node
        cluster.wait_for_other_owner(slot, 0);
        test_client other(address_of(cluster), waiting_for_late_answers());
        auto l = other.hold(key);
        cluster.node(0).thaw();
        BOOST_TEST(late.until([&] { return slow.done; }, 30s));
        BOOST_TEST(l.held());
        BOOST_TEST(!slow.held.held());
        BOOST_TEST((slow.how == errc::instance_timeout), slow.how.what());
        BOOST_TEST(contains(slow.how.what(), "silent for half"), slow.how.what());
        BOOST_TEST(other.releases(l));
    });
}

// A migration at once keeps the wall time of each expiry.
BOOST_AUTO_TEST_CASE(a_slot_that_moves_to_a_clock_ahead_is_in_quarantine) {
    auto const kind = find_server("valkey-9.1");
    if (!kind) return;
    cluster_group_options options;
    options.kind = *kind;
    options.replicas = 0;
    cluster_group cluster(options);
    cluster.node(1).shift_clock(5s);
    test_client holder(address_of(cluster), patient());
    test_client other(address_of(cluster), patient());
    auto const key = cluster.key_on(0);
    auto const slot = cluster.slot_of(key);
    auto first = other.hold(key);
    BOOST_TEST(other.releases(first));
    auto l = holder.hold(key, {.ttl = 6s, .watchdog = false});
    cluster.migrate_atomically({slot, slot}, 0, 1);
    BOOST_TEST(wait_until([&] { return !cluster.cli(1).exists(key); }));
    auto const [e, none] = other.acquire(key);
    BOOST_TEST(!none.held());
    BOOST_TEST((e == errc::quarantined), e.what());
    BOOST_TEST(l.held());
    BOOST_TEST(other.until([&] {
        auto const s = other.status(0);
        return s.degradations.size() == 1U && s.degradations[0].kind == degradation::clocks_apart;
    }));
    BOOST_TEST_MESSAGE(other.status(0).degradations.at(0).message);
}

BOOST_AUTO_TEST_CASE(nodes_with_equal_clocks_have_no_warning) {
    on_clusters([](cluster_group& cluster) {
        test_client client(address_of(cluster), brisk());
        for (int i = 0; i < 20; ++i) {
            auto l = client.hold("k" + std::to_string(i));
            BOOST_TEST(client.releases(l));
        }
        client.pass(lease_clock::now() + 1s);
        BOOST_TEST(client.status(0).degradations.empty());
    });
}

BOOST_AUTO_TEST_CASE(an_idle_client_locks_at_once) {
    on_clusters([](cluster_group& cluster) {
        test_client client(address_of(cluster), brisk());
        auto const key = cluster.key_on(0);
        auto first = client.hold(key);
        BOOST_TEST(client.releases(first));
        // Longer than half of the node timeout.
        client.pass(lease_clock::now() + 2500ms);
        auto const rounds = client.locks.stats().rounds;
        auto l = client.hold(key);
        BOOST_TEST(client.locks.stats().rounds == rounds + 1);
        BOOST_TEST(client.releases(l));
    });
}

// The client does not run for longer than the node timeout. Its own silence is no fault of a node.
BOOST_AUTO_TEST_CASE(a_client_that_stood_still_locks_after_that) {
    on_clusters([](cluster_group& cluster) {
        test_client client(address_of(cluster), patient());
        auto const key = cluster.key_on(0);
        auto l = client.hold(key, {.ttl = 60s});
        stand_still(3s);
        BOOST_TEST(!client.extend(l));
        BOOST_TEST(client.releases(l));
        stand_still(3s);
        auto again = client.hold(key);
        BOOST_TEST(client.releases(again));
    });
}

// The clocks of all nodes jump ahead together: our own clock stood still.
BOOST_AUTO_TEST_CASE(a_standstill_of_our_clock_moves_deadlines_and_quarantines_no_node) {
    cluster_group_options options;
    options.replicas = 0;
    on_clusters(
        [](cluster_group& cluster) {
            test_client client(address_of(cluster), brisk());
            BOOST_REQUIRE(client.all_up());
            auto const key = cluster.key_on(0), other = cluster.key_on(1);
            auto l = client.hold(key, {.ttl = 60s, .watchdog = false});
            auto const deadline = l.deadline();
            for (std::size_t i = 0; i < cluster.size(); ++i) cluster.node(i).shift_clock(20s);
            BOOST_REQUIRE(client.until([&] { return l.deadline() != deadline; }));
            BOOST_TEST((l.deadline() <= deadline - 20s));
            BOOST_TEST((l.deadline() > deadline - 22s));
            BOOST_TEST(client.until([&] {
                for (auto const& n : client.status(0).nodes) {
                    if (n.state != instance_state::up) return false;
                }
                return true;
            }));
            auto there = client.hold(other);
            BOOST_TEST(client.releases(there));
            BOOST_TEST(l.held());
            BOOST_TEST((l.deadline() > deadline - 22s)); // moved once
            BOOST_TEST(client.releases(l));
        },
        options);
}

// The engine hears of the clock of one node. That may be the node that does not answer.
BOOST_AUTO_TEST_CASE(a_standstill_of_our_clock_moves_deadlines_also_while_a_node_is_silent) {
    cluster_group_options options;
    options.replicas = 0;
    on_clusters(
        [](cluster_group& cluster) {
            for (std::size_t silent = 0; silent < cluster.size(); ++silent) {
                BOOST_TEST_CONTEXT("node " << silent) {
                    test_client client(address_of(cluster), brisk());
                    BOOST_REQUIRE(client.all_up());
                    auto const key = cluster.key_on((silent + 1) % cluster.size());
                    auto l = client.hold(key, {.ttl = 60s, .watchdog = false});
                    auto const deadline = l.deadline();
                    cluster.node(silent).freeze();
                    for (std::size_t i = 0; i < cluster.size(); ++i)
                        cluster.node(i).shift_clock(20s);
                    BOOST_TEST(client.until([&] { return l.deadline() <= deadline - 20s; }));
                    cluster.node(silent).thaw();
                    cluster.wait_until_agreed();
                    BOOST_TEST((l.deadline() > deadline - 22s)); // moved once
                    BOOST_TEST(l.held());
                    BOOST_TEST(client.releases(l));
                }
            }
        },
        options);
}

// The Cluster is one of three instances. A node that shows nothing now is not excused for the past.
BOOST_AUTO_TEST_CASE(a_standstill_of_our_clock_excuses_no_earlier_jump_of_a_node) {
    cluster_group_options options;
    options.replicas = 0;
    cluster_group cluster(options);
    fleet servers(2, {.shiftable_clock = true});
    auto addresses = addresses_of(servers);
    // The client hears of the clock of this node first.
    addresses.insert(addresses.begin(), address(cluster.url({1})));
    auto of_client = brisk();
    of_client.max_ttl = 60s;
    test_client client(addresses, of_client);
    BOOST_REQUIRE(client.all_up());
    auto const jumped = cluster.node(1).address();
    auto const quarantined = [&] {
        for (auto const& n : client.status(0).nodes)
            if (n.address == jumped) return n.quarantined_until > lease_clock::now();
        return false;
    };
    cluster.node(1).shift_clock(20s);
    BOOST_REQUIRE(client.until(quarantined));
    auto l = client.hold(cluster.key_on(0), {.ttl = 60s, .watchdog = false});
    auto const deadline = l.deadline();
    cluster.node(1).freeze();
    for (std::size_t i : {0U, 2U}) cluster.node(i).shift_clock(30s);
    for (server& each : servers) each.shift_clock(30s);
    BOOST_REQUIRE(client.until([&] { return l.deadline() <= deadline - 30s; }));
    BOOST_TEST(client.until([&] { // all that have jumped are excused
        for (std::size_t i = 1; i < 3; ++i)
            if (client.status(i).state != instance_state::up) return false;
        return true;
    }));
    BOOST_TEST(quarantined());
    cluster.node(1).thaw();
}

BOOST_AUTO_TEST_SUITE_END()
