// A Cluster as an instance: plain use.
#include "protocol/cluster/hash_slot.hpp"
#include "redis/cluster/cluster_identity.hpp"
#include "redis/wire/kinds/slot_fence_key.hpp"

#include "integration/attempt.hpp"
#include "integration/cluster_load.hpp"
#include "support/access.hpp"
#include "support/fake_cluster.hpp"
#include "support/lock_monitor.hpp"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

std::vector<std::string> keys_on_each(cluster_group& cluster, std::string const& prefix = "k") {
    std::vector<std::string> keys;
    for (std::size_t i = 0; i < cluster.options().primaries; ++i) {
        keys.push_back(cluster.key_on(i, prefix));
    }
    return keys;
}

/// For the user with the documented rights.
address seeds(std::string const& hosts) {
    auto const plain = access::url(hosts);
    return {"redis+cluster" + plain.substr(plain.find(':'))};
}

} // namespace

BOOST_AUTO_TEST_SUITE(cluster_use)

BOOST_AUTO_TEST_CASE(keys_of_all_primaries_are_locked_and_released) {
    on_clusters([](cluster_group& cluster) {
        test_client client(address_of(cluster));
        std::set<std::size_t> owners;
        for (int i = 0; i < 60; ++i) {
            auto const key = "seat:" + std::to_string(i);
            auto l = client.hold(key, {.ttl = 10s});
            auto const owner = cluster.owner_of(key);
            owners.insert(owner);
            BOOST_TEST(cluster.cli(owner).exists(key));
            BOOST_TEST(!client.extend(l));
            auto const [e, none] = client.try_acquire(key);
            BOOST_TEST((e == errc::contended), e.what());
            BOOST_TEST(client.releases(l));
            BOOST_TEST(!cluster.cli(owner).exists(key));
        }
        BOOST_TEST(owners.size() == 3U);
        auto const s = client.status(0);
        BOOST_TEST((s.state == instance_state::up), s.message);
        BOOST_TEST(s.message == "");
        BOOST_TEST(s.nodes.size() == 3U);
        unsigned slots = 0;
        for (auto const& n : s.nodes) {
            slots += n.slots;
            BOOST_TEST((n.state == instance_state::up), n.message);
        }
        BOOST_TEST(slots == 16'384U);
        check_no_locks(cluster);
    });
}

BOOST_AUTO_TEST_CASE(another_client_is_refused_and_told_the_holder) {
    on_clusters([](cluster_group& cluster) {
        auto options = patient();
        options.holder_label = "worker-7";
        test_client holder(address_of(cluster), options);
        test_client other(address_of(cluster));
        for (auto const& key : keys_on_each(cluster)) {
            auto l = holder.hold(key, {.ttl = 10s});
            auto const [e, none] = other.try_acquire(key);
            BOOST_TEST((e == errc::contended), e.what());
            BOOST_TEST_REQUIRE(e.report());
            BOOST_TEST(e.report()->holder == "worker-7");
            BOOST_TEST(holder.releases(l));
        }
    });
}

BOOST_AUTO_TEST_CASE(a_waiter_is_woken_by_a_push) {
    on_clusters([](cluster_group& cluster) {
        test_client holder(address_of(cluster));
        test_client waiter(address_of(cluster));
        waiter.runs_with(holder);
        for (auto const& key : keys_on_each(cluster)) {
            auto l = holder.hold(key, {.ttl = 60s});
            attempt next(waiter, key, long_lived);
            auto const before = waiter.locks.stats().pushes;
            BOOST_TEST(waits(waiter));
            // The server knows of the waiter before the release.
            BOOST_TEST(waiter.until([&] {
                return cluster.cli(cluster.owner_of(key)).info("tracking_total_keys") != "0";
            }));
            BOOST_TEST(holder.releases(l));
            check_gets(waiter, next);
            BOOST_TEST(waiter.locks.stats().pushes > before);
        }
    });
}

BOOST_AUTO_TEST_CASE(fences_grow_and_their_counters_are_in_the_slots_of_their_keys) {
    on_clusters([](cluster_group& cluster) {
        test_client client(address_of(cluster));
        for (std::string const key : {"seat:12", "a}b", "{}x", "a{b}c", "}", "{}{x}"}) {
            std::uint64_t last = 0;
            for (int i = 0; i < 3; ++i) {
                auto l = client.hold(key, {.ttl = 10s, .fencing = true});
                BOOST_TEST(l.fence() > last);
                last = l.fence();
                std::string counter;
                redis::name_cluster_fence_key(counter, key);
                BOOST_TEST(cluster.slot_of(counter) == cluster.slot_of(key));
                BOOST_TEST(cluster.cli(cluster.owner_of(key)).exists(counter));
                BOOST_TEST(client.releases(l));
            }
        }
    });
}

BOOST_AUTO_TEST_CASE(many_clients_contend) {
    on_clusters([](cluster_group& cluster) {
        referee judge;
        load_options options{.keys = keys_on_each(cluster)};
        options.lock.fencing = true;
        cluster_load first(address_of(cluster), options, judge);
        cluster_load second(address_of(cluster), options, judge);
        BOOST_TEST(first.gets(200));
        BOOST_TEST(second.gets(200));
        BOOST_TEST(first.stop());
        BOOST_TEST(second.stop());
        BOOST_TEST(first.first_failure() == "");
        BOOST_TEST(second.first_failure() == "");
        BOOST_TEST(judge.overlaps() == 0U);
        BOOST_TEST(judge.regressions() == 0U);
        check_no_locks(cluster);
    });
}

BOOST_AUTO_TEST_CASE(any_node_is_a_seed_also_a_replica_and_some_may_be_dead) {
    on_clusters([](cluster_group& cluster) {
        for (std::size_t i = 0; i < cluster.size(); ++i) {
            test_client client({address(cluster.url({i}))});
            auto l = client.hold("k");
            BOOST_TEST(client.releases(l));
        }
        net::reserved_port const nobody;
        test_client client({seeds(nobody.address() + "," + cluster.node(4).address())});
        auto l = client.hold("k");
        BOOST_TEST(client.releases(l));
    });
}

BOOST_AUTO_TEST_CASE(without_a_seed_that_answers_the_instance_is_down) {
    net::reserved_port const nobody;
    test_client client({address("redis+cluster://" + nobody.address())}, hasty());
    auto const [e, none] = client.acquire("k");
    BOOST_TEST((e == errc::unreachable), e.what());
    BOOST_TEST(client.goes_down(0, errc::unreachable));
    BOOST_TEST(client.status(0).message != "");
}

BOOST_AUTO_TEST_CASE(a_server_that_is_no_cluster_is_told) {
    server plain;
    test_client client({address("redis+cluster://" + plain.address())}, hasty());
    auto const [e, none] = client.acquire("k");
    BOOST_TEST((e == errc::rejected), e.what());
    BOOST_TEST(client.goes_down(0, errc::rejected));
    auto const said = client.status(0).message;
    BOOST_TEST(contains(said, "This instance has cluster support di"), said);
}

BOOST_AUTO_TEST_CASE(two_addresses_of_one_cluster_are_refused) {
    on_clusters([](cluster_group& cluster) {
        test_client client(
            {address(cluster.url({0})), address(cluster.url({1})), address("127.0.0.1:1")},
            hasty());
        BOOST_TEST(client.until([&] {
            return (client.status(0).reason == errc::duplicate_instance) !=
                   (client.status(1).reason == errc::duplicate_instance);
        }));
    });
}

// Whichever seed is asked first.
BOOST_AUTO_TEST_CASE(a_seed_that_is_no_cluster_delays_no_acquire) {
    server plain;
    BOOST_REQUIRE(
        redis_cli(plain)
            .command(access::set_user(access::user, documented_cluster_rules(plain.kind())))
            .is_ok());
    cluster_group_options options;
    options.replicas = 0;
    cluster_group cluster(options);
    auto const good = "127.0.0.1:" + std::to_string(cluster.port(0));
    for (int i = 0; i < 10; ++i) {
        test_client client({seeds(plain.address() + "," + good)}, brisk());
        auto l = client.hold("k");
        BOOST_TEST(client.releases(l));
    }
}

BOOST_AUTO_TEST_CASE(a_seed_of_another_cluster_is_told_and_not_used) {
    cluster_group_options options;
    options.replicas = 0;
    cluster_group a(options), b(options);
    test_client client({seeds(a.node(0).address() + "," + b.node(0).address())}, brisk());
    auto l = client.hold("k");
    BOOST_TEST(client.releases(l));
    BOOST_TEST(client.until(
        [&] { return contains(client.status(0).message, "belongs to another Cluster"); }));
    BOOST_TEST((client.status(0).state == instance_state::up));
    auto const address_of_first = "127.0.0.1:" + std::to_string(a.port(0));
    auto const uses_a = !contains(client.status(0).message, address_of_first + " belongs");
    auto& used = uses_a ? a : b;
    auto& other = uses_a ? b : a;
    for (std::size_t i = 0; i < used.size(); ++i) used.node(i).kill();
    BOOST_TEST(client.until([&] { return client.status(0).state == instance_state::down; }));
    // Each node of the Cluster was tried again since.
    for (int i = 0; i < 5; ++i) {
        auto const [e, none] = client.acquire("k");
        BOOST_TEST((e == errc::unreachable), e.what());
    }
    for (std::size_t i = 0; i < other.size(); ++i) {
        BOOST_TEST(other.cli(i).info("cmdstat_set") == "");
    }
    BOOST_TEST(contains(client.status(0).message, "belongs to another Cluster"),
               client.status(0).message);
}

// The new Cluster has the addresses of the old one.
BOOST_AUTO_TEST_CASE(a_cluster_that_was_made_anew_needs_a_new_client) {
    std::atomic<bool> anew{false};
    fake_cluster cluster(2, [&](std::size_t, command_line const& words) {
        std::optional<std::string> told;
        if (anew && is_command(words, "CLUSTER", "NODES")) {
            told = resp::bulk(std::string(40, 'b') + " 127.0.0.1:1@2 master - 0 0 1 connected\n");
        }
        return told;
    });
    test_client client({address(cluster.url())}, hasty());
    auto l = client.hold("k");
    BOOST_TEST(client.releases(l));
    anew = true;
    for (std::size_t i = 0; i < cluster.size(); ++i) cluster.node(i).cut();
    BOOST_TEST(client.until([&] {
        auto const [e, none] = client.acquire("k");
        return e == errc::rejected && contains(e.what(), "belongs to another Cluster");
    }));
    BOOST_TEST(client.goes_down(0, errc::rejected));
    BOOST_TEST(contains(client.status(0).message, "belongs to another Cluster"));
    test_client later({address(cluster.url())}, hasty());
    auto again = later.hold("k");
    BOOST_TEST(later.releases(again));
}

BOOST_AUTO_TEST_CASE(the_identity_is_the_same_from_every_seed) {
    on_clusters([](cluster_group& cluster) {
        std::set<std::string> ids;
        for (std::size_t i = 0; i < cluster.size(); ++i) ids.insert(cluster.id(i));
        for (std::size_t i = 0; i < cluster.size(); ++i) {
            auto const nodes = cluster.cli(i).command({"CLUSTER", "NODES"}).string();
            BOOST_TEST(redis::cluster_identity(nodes) == *ids.begin());
        }
    });
}

BOOST_AUTO_TEST_CASE(a_cluster_is_an_instance_among_others) {
    on_clusters([](cluster_group& cluster) {
        fleet servers(2);
        auto addresses = addresses_of(servers);
        addresses.insert(addresses.begin(), address(cluster.url()));
        test_client client(addresses);
        BOOST_TEST(client.all_up());
        for (auto const& key : keys_on_each(cluster)) {
            auto l = client.hold(key, {.ttl = 10s, .fencing = true});
            auto const there = client.until([&] {
                return cluster.cli(cluster.owner_of(key)).exists(key) && copies(servers, key) == 2U;
            });
            BOOST_TEST(there);
            BOOST_TEST(client.releases(l));
        }
        BOOST_TEST(client.idle());
        check_nothing_left(client, servers);
        // Within less than the ttl.
        BOOST_TEST(client.until([&] { return locks_on(cluster).empty(); }, 5s));
    });
}

BOOST_AUTO_TEST_CASE(with_tls_and_a_user_with_the_documented_rights) {
    on_oldest_and_newest([](server_kind const& kind) {
        cluster_group_options options;
        options.kind = kind;
        options.tls = make_certificates("IP:127.0.0.1");
        options.user = login{.user = std::string(access::user),
                             .password = std::string(access::password),
                             .rules = documented_cluster_rules(kind, "app:")};
        cluster_group cluster(options);
        auto of_client = patient();
        of_client.key_prefix = "app:";
        test_client client(address_of(cluster), of_client);
        test_client other(address_of(cluster), of_client);
        other.runs_with(client);
        for (std::size_t i = 0; i < options.primaries; ++i) {
            auto const key = cluster.key_on(i, "app:key").substr(4);
            auto l = client.hold(key, {.ttl = 10s, .fencing = true});
            BOOST_TEST(!client.extend(l));
            attempt next(other, key, long_lived);
            BOOST_TEST(waits(other));
            BOOST_TEST(client.releases(l));
            check_gets(other, next);
        }
        auto braced = client.hold("a}b", {.ttl = 10s, .fencing = true});
        BOOST_TEST(client.releases(braced));
        BOOST_TEST(client.status(0).tls.starts_with("TLS 1."));
        for (auto const& d : client.status(0).degradations) BOOST_ERROR(d.message);
        check_no_refusals(cluster);
    });
}

BOOST_AUTO_TEST_CASE(a_node_that_lacks_replicas_says_so) {
    cluster_group_options options;
    options.replicas = 0;
    on_clusters(
        [](cluster_group& cluster) {
            auto of_client = hasty();
            of_client.replicas = 1;
            test_client client(address_of(cluster), of_client);
            BOOST_REQUIRE(client.until(
                [&] { return client.status(0).state == instance_state::unreplicated; }));
            auto const [e, none] = client.acquire(cluster.key_on(0));
            BOOST_TEST((e == errc::too_few_replicas), e.what());
            BOOST_TEST((client.status(0).reason == errc::too_few_replicas));
            BOOST_TEST(contains(e.what(), "0 of 1 replica online (replicas)"), e.what());
        },
        options);
}

// The voter for a key is a node in each Cluster.
BOOST_AUTO_TEST_CASE(three_clusters_make_a_redlock) {
    cluster_group_options options;
    options.replicas = 0;
    options.arguments = {"--cluster-require-full-coverage", "no"}; // other slots live on
    std::vector<std::unique_ptr<cluster_group>> clusters;
    std::vector<address> addresses;
    for (int i = 0; i < 3; ++i) {
        clusters.push_back(std::make_unique<cluster_group>(options));
        addresses.emplace_back(clusters.back()->url());
    }
    test_client client(addresses, trusting(brisk()));
    BOOST_REQUIRE(client.all_up());
    auto const key = clusters[0]->key_on(0), other = clusters[0]->key_on(1);
    auto const holds = [&](std::size_t i) { return clusters[i]->cli(0).exists(key); };
    auto l = client.hold(key);
    // A node that no other one had named yet was not asked. An extension puts the key there.
    BOOST_REQUIRE(
        client.until([&] { return !client.extend(l) && holds(0) && holds(1) && holds(2); }));
    clusters[0]->node(0).kill();
    BOOST_TEST(!client.extend(l));
    BOOST_TEST(client.releases(l));
    BOOST_TEST(client.until([&] { return !holds(1) && !holds(2); }));
    auto again = client.hold(key);
    BOOST_TEST(client.releases(again));
    clusters[1]->node(0).kill();
    auto const [e, none] = client.acquire(key);
    BOOST_TEST((e == errc::no_quorum || e == errc::unreachable), e.what());
    BOOST_TEST(!none.held());
    auto elsewhere = client.hold(other);
    BOOST_TEST(client.releases(elsewhere));
}

BOOST_AUTO_TEST_SUITE_END()
