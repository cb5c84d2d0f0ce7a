// A repair brings a Cluster back to work, with the keys of slots that were half moved.
#include "integration/kinds.hpp"
#include "support/cluster_group.hpp"
#include "support/cluster_repair.hpp"
#include "support/redis_cli.hpp"
#include "support/text.hpp"
#include "support/wait.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

// Some keys of one slot, which belongs to node 0 at first.
struct slot_with_keys {
    explicit slot_with_keys(cluster_group& of)
        : cluster{of} {
        auto const tag = cluster.key_on(0);
        slot = cluster.slot_of(tag);
        redis_cli source = cluster.cli(0);
        for (int i = 0; i < 3; ++i) {
            keys.push_back("{" + tag + "}" + std::to_string(i));
            source.set(keys.back(), "v", 60s);
        }
    }

    [[nodiscard]] slot_migration to(std::size_t target) const {
        return {cluster, {slot, slot}, 0, target};
    }
    // So that the replica has the same keys. It may not show those of slots that move.
    void wait_for_replica(std::size_t replica, std::size_t primary) const {
        auto const offset = [&](std::size_t node) {
            return std::stoll(cluster.cli(node).info("master_repl_offset"));
        };
        auto const sent = offset(primary);
        BOOST_TEST(wait_until([&] { return offset(replica) >= sent; }));
    }
    // The slot is at this node, with all keys, and none is half moved.
    void check_served_by(std::size_t node) const {
        BOOST_TEST(cluster.owner(slot) == node);
        redis_cli cli = cluster.cli(node);
        for (auto const& key : keys) BOOST_CHECK(cli.pttl(key) > 30s);
        auto const open = [&](std::size_t i) {
            auto const nodes = cluster.cli(i).command({"CLUSTER", "NODES"}).string();
            return contains(nodes, "->-") || contains(nodes, "-<-");
        };
        for (std::size_t i = 0; i < cluster.size(); ++i)
            BOOST_TEST(wait_until([&] { return !open(i); })); // a replica hears of it later
        for (std::size_t i = 0; i < cluster_group::slots; i += 1'000) {
            auto const at = cluster.owner(static_cast<std::uint16_t>(i));
            BOOST_TEST(cluster.cli(at).command({"SET", cluster.key_on(at), "v"}).is_ok());
        }
    }

    cluster_group& cluster;
    std::uint16_t slot = 0;
    std::vector<std::string> keys;
};

// With Redis 8.6, which hides keys of slots that a node neither owns nor imports.
void on_clusters(std::function<void(cluster_group&)> const& test) {
    auto kinds = oldest_and_newest();
    if (auto found = find_server("redis-8.6")) kinds.push_back(*found);
    on_kinds<cluster_group_options>(kinds, [&](cluster_group_options const& options) {
        cluster_group cluster(options);
        test(cluster);
    });
}

// Returns the steps as one text.
std::string repaired(cluster_group& cluster, std::size_t lost_keys = 0) {
    repair_log log;
    repair(cluster, log);
    std::string text;
    for (auto const& step : log.steps) text += step + '\n';
    BOOST_TEST(log.lost_keys == lost_keys, text);
    return text;
}

} // namespace

BOOST_AUTO_TEST_SUITE(cluster_repairs)

BOOST_AUTO_TEST_CASE(a_cluster_that_works_is_left_alone) {
    on_clusters([](cluster_group& cluster) { BOOST_TEST(repaired(cluster) == ""); });
}

BOOST_AUTO_TEST_CASE(a_half_moved_slot_goes_to_its_target_with_all_keys) {
    on_clusters([](cluster_group& cluster) {
        slot_with_keys const half(cluster);
        auto moving = half.to(1);
        moving.begin();
        BOOST_TEST(moving.move_keys(1) == 1U);
        cluster.node(1).freeze();
        auto const steps = repaired(cluster);
        BOOST_TEST(contains(steps, "node 1 was frozen"), steps);
        BOOST_TEST(contains(steps, "went from node 0 to node 1, 2 keys moved"), steps);
        half.check_served_by(1);
    });
}

BOOST_AUTO_TEST_CASE(a_migration_that_has_moved_no_key_is_given_up) {
    on_clusters([](cluster_group& cluster) {
        slot_with_keys const half(cluster);
        auto const set_slot = [&](std::size_t node, std::string const& how, std::size_t other) {
            BOOST_TEST(cluster.cli(node)
                           .command({"CLUSTER", "SETSLOT", std::to_string(half.slot), how,
                                     cluster.id(other)})
                           .is_ok());
        };
        for (int end = 0; end < 2; ++end) {
            end == 0 ? set_slot(0, "MIGRATING", 1) : set_slot(1, "IMPORTING", 0);
            auto const steps = repaired(cluster);
            BOOST_TEST(contains(steps, "given up"), steps);
            half.check_served_by(0);
        }
    });
}

BOOST_AUTO_TEST_CASE(a_half_moved_slot_survives_the_crash_of_its_target) {
    on_clusters([](cluster_group& cluster) {
        slot_with_keys const half(cluster);
        auto moving = half.to(1);
        moving.begin();
        BOOST_TEST(moving.move_keys(1) == 1U);
        half.wait_for_replica(4, 1);
        cluster.node(1).kill();
        BOOST_TEST(cluster.wait_for_other_owner(6'000, 1) == 4U);
        auto const steps = repaired(cluster);
        BOOST_TEST(contains(steps, "node 1 was down"), steps);
        // Node 4 does not import the slot. Redis 8.6 hides its key, and the owner gets it back.
        half.check_served_by(cluster.options().kind.name == "redis-8.6" ? 0 : 4);
    });
}

BOOST_AUTO_TEST_CASE(a_half_moved_slot_survives_the_crash_of_its_source) {
    on_clusters([](cluster_group& cluster) {
        slot_with_keys const half(cluster);
        auto moving = half.to(1);
        moving.begin();
        BOOST_TEST(moving.move_keys(1) == 1U);
        half.wait_for_replica(3, 0);
        cluster.node(0).kill();
        auto const other = static_cast<std::uint16_t>(half.slot == 0 ? 1 : 0);
        BOOST_TEST(cluster.wait_for_other_owner(other, 0) == 3U);
        auto const steps = repaired(cluster);
        BOOST_TEST(contains(steps, "node 0 was down"), steps);
        half.check_served_by(1);
    });
}

BOOST_AUTO_TEST_CASE(a_slot_without_an_owner_goes_to_the_node_that_has_its_keys) {
    on_clusters([](cluster_group& cluster) {
        slot_with_keys const lost(cluster);
        for (std::size_t i = 0; i < cluster.size(); ++i)
            (void)cluster.cli(i).command({"CLUSTER", "DELSLOTS", std::to_string(lost.slot)});
        auto const steps = repaired(cluster);
        BOOST_TEST(contains(steps, "to node 0"), steps);
        lost.check_served_by(0);
    });
}

BOOST_AUTO_TEST_CASE(of_a_key_at_both_nodes_one_is_lost_and_never_the_greater_counter) {
    on_clusters([](cluster_group& cluster) {
        slot_with_keys const half(cluster);
        auto moving = half.to(1);
        redis_cli source = cluster.cli(0), target = cluster.cli(1);
        source.set(half.keys[0], "10", 60s);
        source.set(half.keys[1], "9", 60s);
        source.set(half.keys[2], "of the source", 60s);
        moving.begin();
        for (auto const& [i, value] :
             {std::pair(0U, "9"), std::pair(1U, "10"), std::pair(2U, "of the target")}) {
            BOOST_TEST(target.command({"ASKING"}).is_ok());
            target.set(half.keys[i], value, 60s);
        }
        auto const steps = repaired(cluster, 3);
        BOOST_TEST(contains(steps, "LOST"), steps);
        half.check_served_by(1);
        BOOST_TEST(target.get(half.keys[0]).value() == "10");
        BOOST_TEST(target.get(half.keys[1]).value() == "10");
        BOOST_TEST(target.get(half.keys[2]).value() == "of the target");
    });
}

BOOST_AUTO_TEST_SUITE_END()
