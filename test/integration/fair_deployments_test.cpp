// Fair locks behind Sentinel, with replicas, and in a Cluster: the line goes where its key goes.
#include "integration/cluster_load.hpp"
#include "integration/fair_line.hpp"
#include "integration/sentinels.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

std::size_t length_at(redis_cli at, std::string const& key) {
    return static_cast<std::size_t>(at.command({"LLEN", line_of(key)}).integer());
}

fair_line line_in(cluster_group& cluster, std::string const& key, std::size_t size,
                  lock_options const& options = fair) {
    return {
        address_of(cluster), key, size,
        [&cluster, key] { return std::vector{length_at(cluster.cli(cluster.owner_of(key)), key)}; },
        options};
}

fair_line line_behind(sentinel_group& group, std::size_t size, lock_options const& lock,
                      client_options const& options) {
    return {{address(group.url())},
            "seat",
            size,
            [&group] { return std::vector{length_at(group.cli(group.primary()), "seat")}; },
            lock,
            options};
}

} // namespace

BOOST_AUTO_TEST_SUITE(fair_deployments)

BOOST_AUTO_TEST_CASE(in_a_cluster_processes_get_the_key_in_order) {
    on_clusters([](cluster_group& cluster) {
        for (auto const& options : {fair, fair_fenced}) {
            for (std::size_t node = 0; node < 3; ++node) {
                BOOST_TEST(
                    in_order([&] { return line_in(cluster, cluster.key_on(node), 4, options); }));
            }
        }
        check_no_locks(cluster);
    });
}

// The list migrates with its key. A process finds its place at the new node when it asks again.
BOOST_AUTO_TEST_CASE(a_line_migrates_with_its_slot) {
    on_clusters([](cluster_group& cluster) {
        auto const key = cluster.key_on(0);
        auto const slot = cluster.slot_of(key);
        auto line = line_in(cluster, key, 3);
        cluster.migrate({slot, slot}, 0, 1);
        BOOST_TEST(cluster.owner_of(key) == 1U);
        BOOST_TEST(line.in_line() == 3U);
        line.renew();
        BOOST_TEST(line.pass() == first_to_last(3));
        cluster.migrate({slot, slot}, 1, 0);
        check_no_locks(cluster);
    });
}

// The key and its line are at two nodes for a moment.
BOOST_AUTO_TEST_CASE(a_fair_release_waits_while_its_slot_migrates) {
    on_clusters([](cluster_group& cluster) {
        test_client client(address_of(cluster));
        auto const key = cluster.key_on(0);
        auto const slot = cluster.slot_of(key);
        auto held = client.hold(key, {.ttl = 30s, .fair = true});
        slot_migration moving(cluster, {slot, slot}, 0, 1);
        moving.begin();
        std::optional<release_result> how;
        held.release([&](release_result r) { how = std::move(r); });
        client.pass(lease_clock::now() + 500ms);
        BOOST_TEST(!how);
        moving.move_keys();
        moving.end();
        BOOST_REQUIRE(client.until([&] { return how.has_value(); }));
        BOOST_TEST(how->confirmed(), how->code().message());
        auto again = client.hold(key, fair);
        BOOST_TEST(client.releases(again));
        cluster.migrate({slot, slot}, 1, 0);
        check_no_locks(cluster);
    });
}

BOOST_AUTO_TEST_CASE(behind_sentinel_processes_get_the_key_in_order) {
    on_failover_kinds([](sentinel_group_options const& options) {
        sentinel_group group(small(options));
        for (auto const replicas : {0U, 1U}) {
            auto client = patient();
            client.replicas = replicas;
            for (auto const& lock : {fair, fair_fenced}) {
                BOOST_TEST(in_order([&] { return line_behind(group, 4, lock, client); }));
            }
        }
        check_no_refusals(group);
    });
}

// Those who wait are told, as always. The next ones stand in line at the new primary.
BOOST_AUTO_TEST_CASE(after_a_failover_the_line_is_at_the_new_primary) {
    on_failover_kinds([](sentinel_group_options const& options) {
        sentinel_group group(options);
        auto lock = impatient(fair);
        lock.ttl = 10s;
        auto before = line_behind(group, 3, lock, alert(10s));
        auto const told = [&] {
            return std::all_of(before.waiting.begin(), before.waiting.end(),
                               [](auto const& w) { return w.done; });
        };
        group.begin_failover();
        BOOST_TEST(before.group.until(told, 60s));
        for (auto const& w : before.waiting)
            BOOST_TEST((w.how == error_condition::unavailable), w.how.what());
        group.wait_until_settled();
        BOOST_TEST(group.primary() != 0U);
        BOOST_TEST(before.group.until([&] { return is_up(*before.group.clients[0]); }, 60s));
        before.holder = {};
        auto after = line_behind(group, 3, lock, alert(10s));
        BOOST_TEST(after.pass() == first_to_last(3));
    });
}

BOOST_AUTO_TEST_SUITE_END()
