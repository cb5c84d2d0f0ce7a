// Groups of Cluster nodes do as the other tests expect.
#include <holdfast/address.hpp>

#include "integration/kinds.hpp"
#include "support/certificates.hpp"
#include "support/cluster_group.hpp"
#include "support/redis_cli.hpp"
#include "support/text.hpp"
#include "support/wait.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

using namespace holdfast::test;
using namespace std::chrono_literals;
using options_type = cluster_group_options;

namespace {

login const clerk{"clerk", "p@ss:word/%", {"~*", "&*", "+@all", "-@admin"}};

// Each primary takes a write, and its replicas get it.
void check_replication(cluster_group& cluster) {
    for (std::size_t i = 0; i < cluster.options().primaries; ++i) {
        auto const key = cluster.key_on(i);
        redis_cli cli = cluster.cli(i);
        cli.set(key, "v", 60s);
        for (std::size_t const r : cluster.replicas_of(i)) {
            redis_cli replica = cluster.cli(r);
            BOOST_TEST(wait_until([&] { return replica.dbsize() > 0; }));
        }
    }
}

// Some keys of one slot.
std::vector<std::string> keys_of_slot(std::string const& tag, std::size_t count) {
    std::vector<std::string> keys;
    for (std::size_t i = 0; i < count; ++i) keys.push_back("{" + tag + "}" + std::to_string(i));
    return keys;
}

std::string error_of(redis_cli cli, std::string const& key) {
    auto const answer = cli.command({"GET", key});
    return answer.is_error() ? answer.error() : "";
}

// For the user with the documented rights.
std::string url_of(server const& node) {
    auto const plain = access::url(node.address());
    return "redis+cluster" + plain.substr(plain.find(':'));
}

} // namespace

BOOST_AUTO_TEST_SUITE(cluster_groups)

BOOST_AUTO_TEST_CASE(every_kind_starts_and_all_nodes_agree) {
    on_kinds<options_type>(available_servers(), [](options_type const& options) {
        cluster_group cluster(options);
        BOOST_TEST(cluster.size() == 6U);
        BOOST_TEST(cluster.owner(0) == 0U);
        BOOST_TEST(cluster.owner(8'000) == 1U);
        BOOST_TEST(cluster.owner(16'383) == 2U);
        for (std::size_t i = 0; i < cluster.size(); ++i) {
            BOOST_TEST(cluster.role(i) == (i < 3 ? "master" : "slave"));
            BOOST_CHECK(cluster.owner_by(i, 5'461).value() == 1U);
            BOOST_CHECK(cluster.node(i).clock_shift() == 0ms);
            BOOST_TEST(cluster.cli(i).dbsize() == 0);
        }
        for (std::size_t i = 0; i < 3; ++i)
            BOOST_CHECK(cluster.replicas_of(i) == std::vector<std::size_t>{i + 3});
        BOOST_TEST(cluster.slot_of("foo") == 12'182);
        BOOST_TEST(cluster.owner_of("foo") == 2U);
        BOOST_TEST(contains(error_of(cluster.cli(0), "foo"),
                            "MOVED 12182 127.0.0.1:" + std::to_string(cluster.port(2))));
        check_replication(cluster);
    });
}

BOOST_AUTO_TEST_CASE(a_kill_is_followed_by_a_failover) {
    on_kinds<options_type>(oldest_and_newest(), [](options_type const& options) {
        cluster_group cluster(options);
        auto const key = cluster.key_on(0);
        check_replication(cluster);
        cluster.node(0).kill();
        BOOST_TEST(cluster.wait_for_other_owner(0, 0) == 3U);
        BOOST_TEST(cluster.owner_of(key) == 3U);
        BOOST_TEST(cluster.role(3) == "master");
        BOOST_TEST(cluster.cli(3).exists(key));
        cluster.node(0).restart();
        cluster.wait_until_agreed();
        BOOST_TEST(cluster.role(0) == "slave");
        BOOST_CHECK(cluster.replicas_of(3) == std::vector<std::size_t>{0});
    });
}

BOOST_AUTO_TEST_CASE(a_primary_that_was_frozen_becomes_a_replica) {
    on_kinds<options_type>(oldest_and_newest(), [](options_type const& options) {
        cluster_group cluster(options);
        cluster.node(1).freeze();
        BOOST_TEST(cluster.wait_for_other_owner(6'000, 1) == 4U);
        cluster.node(1).thaw();
        cluster.wait_until_agreed();
        BOOST_TEST(wait_until([&] { return cluster.role(1) == "slave"; }, 30s));
    });
}

BOOST_AUTO_TEST_CASE(an_isolated_primary_stops_to_serve_and_becomes_a_replica) {
    on_kinds<options_type>(oldest_and_newest(), [](options_type options) {
        options.isolable = true;
        cluster_group cluster(options);
        check_replication(cluster);
        auto const key = cluster.key_on(1);
        cluster.isolate(1);
        BOOST_TEST(cluster.wait_for_other_owner(6'000, 1) == 4U);
        auto const refuses = [&] {
            return error_of(cluster.cli(1), key).starts_with("CLUSTERDOWN");
        };
        BOOST_TEST(wait_until(refuses, 30s));
        cluster.rejoin();
        cluster.wait_until_agreed();
        BOOST_TEST(wait_until([&] { return cluster.role(1) == "slave"; }, 30s));
    });
}

BOOST_AUTO_TEST_CASE(each_kind_of_takeover_makes_a_replica_the_owner) {
    using takeover = cluster_group::takeover;
    on_kinds<options_type>(oldest_and_newest(), [](options_type const& options) {
        cluster_group cluster(options);
        check_replication(cluster);
        std::size_t primary = 0;
        for (auto const how : {takeover::planned, takeover::force, takeover::takeover}) {
            auto const key = cluster.key_on(primary);
            auto const replica = cluster.replicas_of(primary).at(0);
            cluster.begin_failover(replica, how);
            cluster.wait_for_owner(0, replica);
            cluster.wait_until_agreed();
            BOOST_TEST(cluster.owner_of(key) == replica);
            BOOST_TEST(cluster.role(primary) == "slave");
            primary = replica;
        }
        BOOST_CHECK_THROW(cluster.begin_failover(primary), cli_error);
    });
}

BOOST_AUTO_TEST_CASE(slots_move_step_by_step) {
    on_kinds<options_type>(oldest_and_newest(), [](options_type const& options) {
        cluster_group cluster(options);
        std::string const tag = cluster.key_on(0);
        auto const slot = cluster.slot_of(tag);
        auto const keys = keys_of_slot(tag, 3);
        redis_cli source = cluster.cli(0), target = cluster.cli(1);
        for (auto const& key : keys) source.set(key, "v", 60s);

        slot_migration moving(cluster, {slot, slot}, 0, 1);
        moving.begin();
        BOOST_TEST(
            contains(error_of(cluster.cli(0), "{" + tag + "}none"), "ASK " + std::to_string(slot)));
        BOOST_TEST(moving.move_keys(1) == 1U);
        BOOST_TEST(source.dbsize() == 2);
        BOOST_TEST(target.dbsize() == 1);
        BOOST_TEST(cluster.owner(slot) == 0U); // a stop in the middle
        BOOST_TEST(moving.move_keys() == 2U);
        BOOST_TEST(moving.move_keys() == 0U);
        moving.end();
        cluster.wait_for_owner(slot, 1);
        for (auto const& key : keys) {
            BOOST_CHECK(target.pttl(key) > 30s);
            BOOST_TEST(contains(error_of(cluster.cli(0), key), "MOVED"));
        }
        cluster.migrate({slot, slot}, 1, 0);
        BOOST_TEST(source.dbsize() == 3);
        cluster.wait_until_agreed();
    });
}

BOOST_AUTO_TEST_CASE(a_migration_can_be_given_up) {
    on_kinds<options_type>(oldest_and_newest(), [](options_type const& options) {
        cluster_group cluster(options);
        slot_migration moving(cluster, {0, 9}, 0, 2);
        moving.begin();
        moving.abort();
        auto const nodes = cluster.cli(0).command({"CLUSTER", "NODES"}).string();
        BOOST_TEST(!contains(nodes, "->-"));
        cluster.wait_until_agreed();
        BOOST_TEST(cluster.owner(9) == 0U);
    });
}

BOOST_AUTO_TEST_CASE(slots_move_at_once_where_the_server_can) {
    on_kinds<options_type>(oldest_and_newest(), [](options_type const& options) {
        cluster_group cluster(options);
        std::string const tag = cluster.key_on(0);
        auto const slot = cluster.slot_of(tag);
        if (options.kind.name != "valkey-9.1") {
            BOOST_CHECK_THROW(cluster.migrate_atomically({slot, slot}, 0, 1), cli_error);
            return;
        }
        for (auto const& key : keys_of_slot(tag, 3)) cluster.cli(0).set(key, "v", 60s);
        BOOST_TEST(cluster.atomic_migration_state(0) == "none");
        cluster.migrate_atomically({slot, slot}, 0, 1);
        BOOST_TEST(cluster.atomic_migration_state(0) == "success");
        BOOST_TEST(cluster.owner(slot) == 1U);
        BOOST_TEST(cluster.cli(1).dbsize() == 3);
        cluster.migrate_atomically({slot, slot}, 1, 0);
        BOOST_TEST(cluster.cli(0).dbsize() == 3);
    });
}

BOOST_AUTO_TEST_CASE(a_primary_that_restarts_empty_keeps_its_slots) {
    on_kinds<options_type>(oldest_and_newest(), [](options_type options) {
        options.node_timeout = 5s; // no fail-over comes before
        cluster_group cluster(options);
        check_replication(cluster);
        auto const key = cluster.key_on(0);
        redis_cli cli = cluster.cli(0);
        auto const run_id = cli.info("run_id");
        BOOST_TEST(cli.command({"SAVE"}).is_ok());
        cluster.restart_empty(0);
        BOOST_TEST(cli.info("run_id") != run_id);
        BOOST_TEST(cli.dbsize() == 0);
        BOOST_TEST(cli.command({"CLUSTER", "MYID"}).string() == cluster.id(0));
        BOOST_TEST(cli.command({"SET", key, "v"}).error().starts_with("CLUSTERDOWN"));
        BOOST_TEST(wait_until([&] { return cli.command({"SET", key, "v"}).is_ok(); }, 20s));
        cluster.wait_until_agreed();
        BOOST_TEST(cluster.owner(0) == 0U);
    });
}

BOOST_AUTO_TEST_CASE(a_replica_that_is_cut_off_loses_writes) {
    on_kinds<options_type>(oldest_and_newest(), [](options_type const& options) {
        cluster_group cluster(options);
        auto const key = cluster.key_on(0);
        cluster.cut_replication(3, 0);
        cluster.cli(0).set(key, "v");
        redis_cli replica = cluster.cli(3);
        BOOST_TEST(cluster.cli(0).command({"WAIT", "1", "100"}).integer() == 0);
        BOOST_TEST(replica.dbsize() == 0);
        cluster.restore_replication(3, 0);
        BOOST_TEST(wait_until([&] { return replica.dbsize() == 1; }, 10s));
    });
}

BOOST_AUTO_TEST_CASE(logins_and_tls_hold_between_all_nodes) {
    on_kinds<options_type>(available_servers(), [](options_type options) {
        options.user = clerk;
        options.tls = make_certificates("IP:127.0.0.1");
        cluster_group cluster(options);
        auto const parts = holdfast::address(cluster.url()).parts();
        BOOST_TEST(parts.tls);
        BOOST_TEST(parts.tls_options.ca_file == cluster.ca_file());
        BOOST_TEST(parts.hosts.size() == 3U);
        BOOST_TEST(parts.hosts.at(2).port == cluster.port(2));
        BOOST_TEST(parts.credentials.password == clerk.password);
        BOOST_TEST(cluster.port(0) != cluster.node(0).port());
        check_replication(cluster);

        redis_cli stranger{cluster.node(0)};
        BOOST_TEST(stranger.command({"PING"}).error().starts_with("NOAUTH"));
        BOOST_TEST(stranger.command({"AUTH", clerk.user, clerk.password}).is_ok());
        BOOST_TEST(stranger.command({"SET", cluster.key_on(0), "v"}).is_ok());
        BOOST_TEST(stranger.command({"CONFIG", "GET", "save"}).error().starts_with("NOPERM"));

        auto const key = cluster.key_on(0);
        auto const slot = cluster.slot_of(key);
        cluster.migrate({slot, slot}, 0, 1);
        BOOST_TEST(cluster.cli(1).exists(key));
        if (options.kind.name == "valkey-9.1") cluster.migrate_atomically({slot, slot}, 1, 0);
        cluster.wait_until_agreed();
        cluster.begin_failover(5);
        cluster.wait_for_owner(16'383, 5);
    });
}

BOOST_AUTO_TEST_CASE(a_node_has_a_clock_of_its_own) {
    cluster_group cluster;
    cluster.node(0).shift_clock(5s);
    auto const seconds_of = [&](std::size_t i) {
        return std::stoll(cluster.cli(i).command({"TIME"}).elements().at(0).string());
    };
    auto const before = seconds_of(1);
    auto const shifted = seconds_of(0);
    auto const after = seconds_of(1);
    BOOST_TEST(shifted - before >= 4);
    BOOST_TEST(shifted - after <= 6);
}

BOOST_AUTO_TEST_CASE(other_sizes_start) {
    {
        cluster_group cluster({.primaries = 1, .replicas = 0, .shiftable_clocks = false});
        BOOST_TEST(cluster.owner(16'383) == 0U);
        BOOST_TEST(cluster.url() == url_of(cluster.node(0)));
        BOOST_CHECK_THROW(cluster.node(0).shift_clock(1s), std::logic_error);
    }
    cluster_group cluster({.primaries = 2, .replicas = 3});
    BOOST_TEST(cluster.size() == 5U);
    BOOST_TEST(cluster.owner(8'192) == 1U);
    BOOST_CHECK((cluster.replicas_of(0) == std::vector<std::size_t>{2, 4}));
    BOOST_CHECK(cluster.replicas_of(1) == std::vector<std::size_t>{3});
    check_replication(cluster);
    BOOST_TEST(cluster.url({1}) == url_of(cluster.node(1)));
}

BOOST_AUTO_TEST_CASE(a_wait_in_vain_tells_the_state) {
    cluster_group cluster({.replicas = 0});
    BOOST_CHECK_EXCEPTION(cluster.wait_for_owner(0, 1, 1ms), std::runtime_error, [&](auto& error) {
        return contains(error.what(), "name an owner") && contains(error.what(), cluster.id(2));
    });
}

BOOST_AUTO_TEST_SUITE_END()
