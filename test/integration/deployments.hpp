// The common parts of the tests of each kind of lock in a Cluster, and on a mix of deployments.
#ifndef HOLDFAST_TEST_INTEGRATION_DEPLOYMENTS_HPP
#define HOLDFAST_TEST_INTEGRATION_DEPLOYMENTS_HPP

#include "integration/client_group.hpp"
#include "integration/cluster_load.hpp"
#include "integration/test_client.hpp"
#include "support/cluster_group.hpp"
#include "support/fleet.hpp"
#include "support/sentinel_group.hpp"
#include "support/text.hpp"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace holdfast::test {

/// One instance is a server, one is behind Sentinel, and one is a Cluster.
struct mixed_deployments {
    sentinel_group sentinels;
    cluster_group cluster;
    fleet servers{1};

    std::vector<address> addresses() const {
        auto all = addresses_of(servers);
        all.push_back(address(sentinels.url()));
        all.push_back(address_of(cluster).front());
        return all;
    }
};

/// The slot of the key "k", the node that has it, and one that has not.
struct slot_of_k {
    explicit slot_of_k(cluster_group& c)
        : cluster(c) {}

    void moves() { cluster.migrate(slot, from, to); }
    void returns() { cluster.migrate(slot, to, from); }

    cluster_group& cluster;
    slot_range const slot{cluster.slot_of("k"), cluster.slot_of("k")};
    std::size_t const from = cluster.owner_of("k");
    std::size_t const to = from == 0 ? 1 : 0;
};

/// Moves the slot of "k" to another node and back, and again. Calls `meanwhile` until that is done.
template <class Function>
void while_slot_moves(cluster_group& cluster, Function meanwhile) {
    slot_of_k k(cluster);
    std::atomic<bool> moved{false};
    std::jthread const mover([&] {
        for (auto i = 0; i < 4; ++i) {
            k.moves();
            k.returns();
        }
        moved = true;
    });
    while (!moved) meanwhile();
}

/// No key of a lock is left but those with this part in their name. The clients run meanwhile: one
/// may have to send a release again.
inline void check_only_left(client_group& clients, cluster_group& cluster, std::string_view part) {
    std::vector<std::string> left;
    auto const none = [&] {
        left = locks_on(cluster);
        std::erase_if(left, [&](std::string const& name) { return contains(name, part); });
        return left.empty();
    };
    auto const gone = clients.until(none, std::chrono::seconds(4)); // less than the ttl
    std::string names;
    for (auto const& each : left) names += each + ' ';
    BOOST_TEST(gone, names);
}

/// The instance that answers last has the releases of both, too.
inline void end_both(test_client& one, test_client& two) {
    BOOST_TEST(one.idle());
    BOOST_TEST(two.idle());
    auto down = 0;
    for (auto* const c : {&one, &two}) c->locks.shutdown([&](error) { ++down; });
    BOOST_TEST(one.until([&] { return down == 2; }));
}

} // namespace holdfast::test

#endif
