// Slots of a Cluster migrate while clients work.
#include "protocol/cluster/hash_slot.hpp"

#include "integration/attempt.hpp"
#include "integration/cluster_load.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

constexpr slot_range moved{0, 59};

/// Keys in the slots that migrate.
std::vector<std::string> moving_keys(std::size_t count, std::string const& prefix = "k") {
    std::vector<std::string> keys;
    for (unsigned i = 0; keys.size() < count; ++i) {
        auto key = prefix + std::to_string(i);
        if (protocol::hash_slot(key) <= moved.last) keys.push_back(std::move(key));
    }
    return keys;
}

using migrate = std::function<void(cluster_group&, std::size_t from, std::size_t to)>;

/// Each way of resharding that the servers have.
void with_each_migration(std::function<void(cluster_group&, migrate const&)> const& test,
                         cluster_group_options const& options = {}) {
    on_clusters(
        [&](cluster_group& cluster) {
            BOOST_TEST_CONTEXT("classic") {
                test(cluster, [](cluster_group& c, std::size_t from, std::size_t to) {
                    c.migrate(moved, from, to);
                });
            }
            if (cluster.options().kind.name != "valkey-9.1") return;
            BOOST_TEST_CONTEXT("atomic") {
                test(cluster, [](cluster_group& c, std::size_t from, std::size_t to) {
                    c.migrate_atomically(moved, from, to);
                });
            }
        },
        options);
}

cluster_group_options three_primaries() {
    cluster_group_options options;
    options.replicas = 0;
    options.node_timeout = 10s; // no node is down, however slow the machine is
    return options;
}

} // namespace

BOOST_AUTO_TEST_SUITE(cluster_moves)

BOOST_AUTO_TEST_CASE(leases_go_along_with_their_slots) {
    with_each_migration(
        [](cluster_group& cluster, migrate const& move) {
            test_client client(address_of(cluster));
            test_client other(address_of(cluster));
            std::vector<lease> held;
            auto const keys = moving_keys(5);
            for (auto const& key : keys) {
                held.push_back(client.hold(key, {.ttl = 30s, .fencing = true}));
            }
            for (auto const& [from, to] : {std::pair(0U, 1U), std::pair(1U, 0U)}) {
                move(cluster, from, to);
                for (std::size_t i = 0; i < keys.size(); ++i) {
                    BOOST_TEST(!client.extend(held[i]));
                    BOOST_TEST(held[i].held());
                    auto const [e, none] = other.try_acquire(keys[i]);
                    BOOST_TEST((e == errc::contended), e.what());
                }
            }
            for (std::size_t i = 0; i < keys.size(); ++i) {
                auto const fence = held[i].fence();
                BOOST_TEST(client.releases(held[i]));
                auto l = other.hold(keys[i], {.ttl = 30s, .fencing = true});
                BOOST_TEST(l.fence() > fence);
                BOOST_TEST(other.releases(l));
            }
            check_no_locks(cluster);
        },
        three_primaries());
}

BOOST_AUTO_TEST_CASE(a_half_moved_slot_serves_its_keys_by_both_nodes) {
    on_clusters(
        [](cluster_group& cluster) {
            test_client client(address_of(cluster));
            test_client other(address_of(cluster));
            auto const key = moving_keys(1).front();
            auto const slot = cluster.slot_of(key);
            auto l = client.hold(key, {.ttl = 30s});
            slot_migration moving(cluster, {slot, slot}, 0, 1);
            moving.begin();
            BOOST_TEST(!client.extend(l)); // at the source
            BOOST_TEST(moving.move_keys() == 1U);
            BOOST_TEST(!client.extend(l)); // at the target, by ASK
            auto const [e, none] = other.try_acquire(key);
            BOOST_TEST((e == errc::contended), e.what());
            BOOST_TEST(client.releases(l));
            auto const keys_there = [&] {
                return cluster.cli(1)
                    .command({"CLUSTER", "COUNTKEYSINSLOT", std::to_string(slot)})
                    .integer();
            };
            BOOST_TEST(keys_there() == 0);
            // A new lock is made at the target.
            auto again = client.hold(key, {.ttl = 30s});
            BOOST_TEST(keys_there() == 1);
            moving.end();
            BOOST_TEST(!client.extend(again));
            BOOST_TEST(client.releases(again));
            check_no_locks(cluster);
        },
        three_primaries());
}

BOOST_AUTO_TEST_CASE(a_fenced_acquire_waits_while_its_slot_migrates) {
    on_clusters(
        [](cluster_group& cluster) {
            test_client client(address_of(cluster), brisk());
            auto const key = moving_keys(1).front();
            auto const slot = cluster.slot_of(key);
            auto first = client.hold(key, {.ttl = 30s, .fencing = true});
            auto const fence = first.fence();
            BOOST_TEST(client.releases(first)); // the counter stays
            slot_migration moving(cluster, {slot, slot}, 0, 1);
            moving.begin();
            auto done = false;
            error how;
            lease l;
            auto const lock = client.locks.make_lock(key, {.ttl = 30s, .fencing = true});
            lock.acquire([&](error e, lease taken) {
                how = std::move(e);
                l = std::move(taken);
                done = true;
            });
            // Longer than the instance_timeout.
            client.pass(lease_clock::now() + 1500ms);
            BOOST_TEST(!done);
            moving.move_keys();
            moving.end();
            BOOST_TEST(client.until([&] { return done; }));
            BOOST_TEST_REQUIRE(!how, how.what());
            BOOST_TEST(l.fence() > fence);
            BOOST_TEST(client.releases(l));
        },
        three_primaries());
}

BOOST_AUTO_TEST_CASE(a_fenced_acquire_in_a_slot_that_stays_half_moved_fails) {
    on_clusters(
        [](cluster_group& cluster) {
            test_client client(address_of(cluster), hasty());
            auto const key = moving_keys(1).front();
            auto const slot = cluster.slot_of(key);
            auto first = client.hold(key, {.ttl = 1s, .fencing = true});
            BOOST_TEST(client.releases(first));
            slot_migration moving(cluster, {slot, slot}, 0, 1);
            moving.begin();
            auto const [e, none] = client.acquire(key, {.ttl = 1s, .fencing = true});
            BOOST_TEST((e == errc::rejected), e.what());
            BOOST_TEST(e.what().find("migrates") != std::string::npos, e.what());
            moving.abort();
            auto l = client.hold(key, {.ttl = 1s, .fencing = true});
            BOOST_TEST(client.releases(l));
        },
        three_primaries());
}

BOOST_AUTO_TEST_CASE(no_two_holders_while_slots_move_under_load) {
    with_each_migration(
        [](cluster_group& cluster, migrate const& move) {
            referee judge;
            load_options options{.keys = moving_keys(8)};
            options.client = brisk();
            cluster_load first(address_of(cluster), options, judge);
            cluster_load second(address_of(cluster), options, judge);
            load_options fenced{.keys = moving_keys(4, "fenced")};
            fenced.lock.fencing = true;
            fenced.lock.ttl = 30s; // a third of it is longer than a migration
            fenced.client = brisk();
            cluster_load first_fenced(address_of(cluster), fenced, judge);
            cluster_load second_fenced(address_of(cluster), fenced, judge);
            BOOST_TEST(first.gets(100));
            for (int i = 0; i < 3; ++i) {
                move(cluster, 0, 1);
                BOOST_TEST(first.gets(20));
                move(cluster, 1, 2);
                BOOST_TEST(second.gets(20));
                move(cluster, 2, 0);
                BOOST_TEST(first_fenced.gets(20));
            }
            for (auto* const load : {&first, &second, &first_fenced, &second_fenced}) {
                BOOST_TEST(load->stop());
                BOOST_TEST(load->first_failure() == "");
                BOOST_TEST(load->lost() == 0U);
            }
            BOOST_TEST_MESSAGE("grants " << first.grants() + second.grants() << ", fenced "
                                         << first_fenced.grants() + second_fenced.grants()
                                         << ", slowest " << first.slowest().count()
                                         << " ms, fenced " << first_fenced.slowest().count()
                                         << " ms");
            BOOST_TEST(judge.overlaps() == 0U);
            BOOST_TEST(judge.regressions() == 0U);
            check_no_locks(cluster);
        },
        three_primaries());
}

// The ttl is so long that a key which was left behind is found.
BOOST_AUTO_TEST_CASE(no_key_is_left_behind_when_acquires_are_cancelled_while_slots_move) {
    with_each_migration(
        [](cluster_group& cluster, migrate const& move) {
            referee judge;
            load_options options{.keys = moving_keys(30)};
            options.lock = {.ttl = 60s, .handover_limit = 1};
            options.client = brisk();
            options.limit = 1ms;
            options.pause = 0ms;
            options.held = 0ms;
            cluster_load first(address_of(cluster), options, judge);
            cluster_load second(address_of(cluster), options, judge);
            BOOST_TEST(first.gets(100));
            for (int i = 0; i < 4; ++i) {
                move(cluster, 0, 1);
                move(cluster, 1, 0);
            }
            BOOST_TEST(first.stop());
            BOOST_TEST(second.stop());
            BOOST_TEST(first.first_failure() == "");
            BOOST_TEST(judge.overlaps() == 0U);
            BOOST_TEST_MESSAGE("grants " << first.grants() + second.grants());
            check_no_locks(cluster);
        },
        three_primaries());
}

BOOST_AUTO_TEST_CASE(a_waiter_gets_its_lock_after_the_slot_has_moved) {
    with_each_migration(
        [](cluster_group& cluster, migrate const& move) {
            test_client holder(address_of(cluster));
            test_client waiter(address_of(cluster));
            waiter.runs_with(holder);
            auto const key = moving_keys(1).front();
            auto l = holder.hold(key);
            attempt next(waiter, key, long_lived);
            BOOST_TEST(waits(waiter));
            move(cluster, 0, 1);
            BOOST_TEST(holder.releases(l));
            check_gets(waiter, next);
            move(cluster, 1, 0);
        },
        three_primaries());
}

BOOST_AUTO_TEST_CASE(a_migration_quarantines_no_node) {
    with_each_migration(
        [](cluster_group& cluster, migrate const& move) {
            test_client client(address_of(cluster));
            auto const key = moving_keys(1).front();
            for (auto const& [from, to] : {std::pair(0U, 1U), std::pair(1U, 0U)}) {
                auto before = client.hold(key);
                BOOST_TEST(client.releases(before));
                move(cluster, from, to);
                auto after = client.hold(key);
                BOOST_TEST(client.releases(after));
                for (auto const& n : client.status(0).nodes) {
                    BOOST_TEST((n.state == instance_state::up), n.message);
                }
            }
        },
        three_primaries());
}

BOOST_AUTO_TEST_SUITE_END()
