// Locks on several keys of a Cluster whose keys are at different nodes.
#include "integration/attempt.hpp"
#include "integration/cluster_load.hpp"
#include "integration/set_crowd.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

constexpr lock_options in_order{.ttl = 5s, .max_retry_delay = 5ms, .patience = 2};
constexpr lock_options fenced{.ttl = 60s, .fencing = true, .patience = 1'000};

/// A key on each node, in byte order.
key_names apart(cluster_group& cluster) {
    key_names keys;
    for (std::size_t i = 0; i < cluster.options().primaries; ++i)
        keys.push_back(cluster.key_on(i, std::to_string(i) + ':'));
    return keys;
}

bool exists(cluster_group& cluster, std::string const& key) {
    return cluster.cli(cluster.owner_of(key)).exists(key);
}

cluster_group_options three_primaries() {
    cluster_group_options options;
    options.replicas = 0;
    return options;
}

/// As check_no_locks(), and the clients go on meanwhile: an instance that lags behind the majority
/// may have releases under way. A key that only its ttl removes is too late.
void leaves_no_locks(set_crowd& c, cluster_group& cluster) {
    constexpr auto limit = 4s;
    static_assert(limit < in_order.ttl);
    std::vector<std::string> left;
    auto const gone = c.group.until([&] { return (left = locks_on(cluster)).empty(); }, limit);
    BOOST_TEST(gone, (left.empty() ? std::string() : left.front()));
}

client_options short_quarantine() {
    auto options = unhurried();
    options.max_ttl = in_order.ttl; // the quarantine of a new primary
    return options;
}

} // namespace

BOOST_AUTO_TEST_SUITE(cluster_multi_locks)

BOOST_AUTO_TEST_CASE(a_lock_has_the_keys_of_all_nodes_or_none) {
    on_clusters(
        [](cluster_group& cluster) {
            auto const keys = apart(cluster);
            test_client client(address_of(cluster)), other(address_of(cluster));
            auto [e, l] = acquire_all(client, keys, fenced);
            BOOST_REQUIRE_MESSAGE(!e, e.what());
            for (auto const& key : keys) {
                BOOST_TEST(exists(cluster, key));
                BOOST_TEST((other.try_acquire(key).first == errc::contended));
            }
            BOOST_TEST(!client.extend(l));
            auto fence = l.fence();
            BOOST_TEST(client.releases(l));
            check_no_locks(cluster);
            for (auto const& held : keys) {
                // One key has a greater counter than the others.
                auto one = other.hold(held, fenced);
                BOOST_TEST(one.fence() > fence);
                fence = one.fence();
                auto const refused = acquire_all(client, keys, fenced, wait_for(200ms)).first;
                BOOST_TEST((refused == errc::wait_timeout), refused.what());
                BOOST_REQUIRE(refused.report() != nullptr);
                BOOST_TEST(refused.report()->instances.at(0).key == held, refused.what());
                // The parts that it undoes do not wake it.
                BOOST_TEST(refused.report()->attempts < 15U, refused.what());
                for (auto const& key : keys) {
                    if (key == held) continue;
                    BOOST_TEST(wait_until([&] { return !exists(cluster, key); }), key);
                }
                BOOST_TEST(other.releases(one));
                auto [again, all] = acquire_all(client, keys, fenced);
                BOOST_REQUIRE_MESSAGE(!again, again.what());
                BOOST_TEST(all.fence() > fence);
                fence = all.fence();
                BOOST_TEST(client.releases(all));
            }
            check_no_locks(cluster);
        },
        three_primaries());
}

// A waiter learns of the end of the lock that stands in the way, whichever node has its key.
BOOST_AUTO_TEST_CASE(a_waiter_gets_all_keys_when_the_last_is_free) {
    on_clusters(
        [](cluster_group& cluster) {
            auto const keys = apart(cluster);
            test_client client(address_of(cluster)), other(address_of(cluster));
            client.runs_with(other);
            for (auto const& held : keys) {
                auto one = other.hold(held, long_lived);
                attempt waiter;
                waiter.start(client.locks.make_multi_lock(keys, {.ttl = 60s, .patience = 1'000}));
                BOOST_TEST(client.until([&] { return client.locks.stats().waiters == 1; }));
                BOOST_TEST(other.releases(one));
                BOOST_REQUIRE(client.until([&] { return waiter.done; }));
                BOOST_TEST(!waiter.how, waiter.how.what());
                BOOST_TEST(client.releases(waiter.held));
            }
            check_no_locks(cluster);
        },
        three_primaries());
}

BOOST_AUTO_TEST_CASE(no_key_has_two_holders) {
    on_clusters(
        [](cluster_group& cluster) {
            set_crowd c(address_of(cluster), in_order, 2, apart(cluster));
            c.goes_on(300);
            c.stops();
            BOOST_TEST(c.lost == 0U);
            leaves_no_locks(c, cluster);
        },
        three_primaries());
}

BOOST_AUTO_TEST_CASE(no_key_has_two_holders_while_a_slot_moves) {
    on_clusters(
        [](cluster_group& cluster) {
            auto const keys = apart(cluster);
            auto const slot = cluster.slot_of(keys[0]);
            set_crowd c(address_of(cluster), in_order, 2, keys);
            c.goes_on(100);
            std::atomic<bool> moved{false};
            std::jthread const mover([&] {
                for (auto i = 0; i < 4; ++i) {
                    cluster.migrate({slot, slot}, 0, 1);
                    cluster.migrate({slot, slot}, 1, 0);
                }
                moved = true;
            });
            while (!moved) c.goes_on(1);
            c.goes_on(100);
            c.stops();
            BOOST_TEST(c.lost == 0U);
            leaves_no_locks(c, cluster);
        },
        three_primaries());
}

BOOST_AUTO_TEST_CASE(a_node_with_one_of_the_keys_is_killed) {
    on_clusters([](cluster_group& cluster) {
        auto const keys = apart(cluster);
        auto const slot = cluster.slot_of(keys[0]);
        set_crowd c(address_of(cluster), in_order, 2, keys, short_quarantine());
        c.goes_on(100);
        cluster.node(0).kill();
        cluster.wait_for_other_owner(slot, 0);
        c.goes_on(100);
        c.stops();
        leaves_no_locks(c, cluster);
    });
}

BOOST_AUTO_TEST_CASE(a_cluster_beside_servers) {
    on_clusters(
        [](cluster_group& cluster) {
            fleet servers(2);
            auto addresses = addresses_of(servers);
            addresses.push_back(address(cluster.url()));
            set_crowd c(addresses, in_order, 2, apart(cluster));
            c.goes_on(300);
            c.stops();
            BOOST_TEST(c.lost == 0U);
            leaves_no_locks(c, cluster);
        },
        three_primaries());
}

BOOST_AUTO_TEST_SUITE_END()
