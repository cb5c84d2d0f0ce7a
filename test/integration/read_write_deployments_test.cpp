// Readers and writers on each kind of server, behind Sentinel, in a Cluster, and on mixes.
#include <holdfast/testing/instance.hpp>

#include "integration/deployments.hpp"
#include "integration/kinds.hpp"
#include "integration/read_write_crowd.hpp"
#include "integration/restricted.hpp"
#include "integration/sentinels.hpp"
#include "integration/tls_fleet.hpp"
#include "support/sentinel_group.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

constexpr lock_options quick{.ttl = 5s, .max_retry_delay = 5ms};
constexpr crowd_size two_clients{.clients = 2};

/// A writer's lease, its downgrade, two readers, and a writer that waits for them.
void check_cycle(std::vector<address> const& addresses) {
    test_client one(addresses), two(addresses);
    one.runs_with(two);
    BOOST_REQUIRE(one.all_up());
    BOOST_REQUIRE(two.all_up());
    lock_options const fenced{.ttl = 60s, .fencing = true};
    auto first = writes(one, fenced);
    auto const fence = first.fence();
    BOOST_TEST((try_to(two, page(two).read()).first == errc::contended));
    BOOST_TEST(!downgrade(one, first));
    auto second = reads(two, fenced);
    BOOST_TEST(second.fence() > fence);
    attempt writer;
    writer.start(page(one, fenced).write());
    BOOST_REQUIRE(waits(one));
    BOOST_TEST(!one.extend(first));
    BOOST_TEST(one.releases(first));
    BOOST_TEST(!writer.done);
    BOOST_TEST(!two.extend(second));
    BOOST_TEST(two.releases(second));
    auto third = wait_for_lease(one, writer);
    BOOST_TEST(third.fence() > second.fence());
    BOOST_TEST(one.releases(third));
    end_both(one, two);
}

} // namespace

BOOST_AUTO_TEST_SUITE(read_write_deployments)

BOOST_AUTO_TEST_CASE(on_each_kind_of_server) {
    on_every_kind([](fleet& servers) {
        check_cycle(addresses_of(servers));
        read_write_crowd c(addresses_of(servers), quick, unhurried(), two_clients);
        c.goes_on(100, 20);
        c.stops();
        BOOST_TEST(c.lost == 0U);
        check_only_turns_left(c.group, servers);
    });
}

BOOST_AUTO_TEST_CASE(on_any_number_of_servers) {
    with_fleets_of({1, 2, 4, 5}, [](fleet& servers) {
        check_cycle(addresses_of(servers));
        read_write_crowd c(addresses_of(servers), quick);
        c.goes_on(200, 50);
        c.stops();
        BOOST_TEST(c.lost == 0U);
        check_only_turns_left(c.group, servers);
    });
}

BOOST_AUTO_TEST_CASE(with_tls) {
    tls_fleet tls(3);
    check_cycle(tls.addresses());
    read_write_crowd c(tls.addresses(), quick, unhurried(), two_clients);
    c.goes_on(100, 20);
    c.stops();
    BOOST_TEST(c.lost == 0U);
    check_only_turns_left(c.group, *tls.servers);
}

// Exactly what doc/production.md names for readers and writers, with a prefix.
BOOST_AUTO_TEST_CASE(with_the_documented_rights_and_no_others) {
    on_oldest_and_newest([](server_kind const& kind) {
        restricted r(kind);
        auto rules = access::keys("app:");
        for (auto const& more :
             {access::reader_keys("app:"), access::fence_keys("app:"), access::locks,
              access::pushes, access::reports, access::fences, access::guards, access::readers}) {
            rules.insert(rules.end(), more.begin(), more.end());
        }
        if (!r.native_delete.empty()) rules.push_back('+' + r.native_delete);
        r.give(rules);
        auto options = patient();
        options.key_prefix = "app:";
        client_group group({address(r.redis.url())}, 2, options);
        auto const fenced = lock_options{.ttl = 60s, .fencing = true};
        std::vector<read_write_lock> both;
        for (auto& each : group.clients) both.push_back(each->make_read_write_lock("k", fenced));
        attempt first, second, third;
        first.start(both[0].write());
        BOOST_REQUIRE(group.until([&] { return first.done; }));
        BOOST_TEST(first.won(), first.how.what());
        second.start(both[1].read());
        BOOST_REQUIRE(group.until([&] { return group.clients[1]->stats().waiters == 1; }));
        auto downgraded = false;
        first.held.downgrade([&](error e) {
            BOOST_TEST(!e, e.what());
            downgraded = true;
        });
        BOOST_REQUIRE(group.until([&] { return downgraded && second.done; }));
        BOOST_TEST(second.won(), second.how.what());
        third.start(both[0].write());
        BOOST_REQUIRE(group.until([&] { return group.clients[0]->stats().waiters == 1; }));
        second.held = {};
        first.held = {};
        BOOST_REQUIRE(group.until([&] { return third.done; }));
        BOOST_TEST(third.won(), third.how.what());
        third.held = {};
        BOOST_TEST(group.idle());
        BOOST_TEST(group.sees_no_locks(r.redis));
        BOOST_TEST(joined(r.redis.refusals()) == "");
    });
}

BOOST_AUTO_TEST_CASE(in_the_instance_for_tests) {
    testing::instance embedded;
    check_cycle({embedded.address()});
    read_write_crowd c({embedded.address()}, quick);
    c.goes_on(300, 50);
    c.stops();
    BOOST_TEST(c.lost == 0U);
}

BOOST_AUTO_TEST_CASE(behind_sentinels_and_over_a_failover) {
    sentinel_group group;
    auto options = unhurried();
    options.max_ttl = quick.ttl; // the quarantine of a new primary
    check_cycle({address(group.url())});
    read_write_crowd c({address(group.url())}, quick, options, two_clients);
    c.goes_on(200, 50);
    auto const before = group.majority().value();
    group.begin_failover();
    (void)group.wait_for_switch(before);
    c.goes_on(200, 50);
    c.stops();
}

BOOST_AUTO_TEST_CASE(in_a_cluster) {
    on_clusters([](cluster_group& cluster) {
        check_cycle(address_of(cluster));
        for (auto const* const key : {"k", "{s}k"}) {
            read_write_crowd c(address_of(cluster), quick, unhurried(), two_clients, key);
            c.goes_on(100, 20);
            c.stops();
            BOOST_TEST(c.lost == 0U);
            check_only_left(c.group, cluster, ":turn");
        }
    });
}

BOOST_AUTO_TEST_CASE(in_a_cluster_while_the_slot_moves) {
    on_clusters([](cluster_group& cluster) {
        read_write_crowd c(address_of(cluster), quick, unhurried(), two_clients);
        c.goes_on(50, 10);
        while_slot_moves(cluster, [&] { c.goes_on(1, 1); });
        c.goes_on(50, 10);
        c.stops();
        BOOST_TEST(c.lost == 0U);
        check_only_left(c.group, cluster, ":turn");
    });
}

// Of the keys beside the lock's there may be none, and a slot may stay half moved for long.
BOOST_AUTO_TEST_CASE(leases_go_on_in_a_slot_that_stays_half_moved) {
    on_clusters([](cluster_group& cluster) {
        slot_of_k k(cluster);
        test_client one(address_of(cluster));
        auto read = reads(one);
        slot_migration moving(cluster, k.slot, k.from, k.to);
        moving.begin();
        BOOST_TEST(!one.extend(read));
        moving.move_keys();
        BOOST_TEST(!one.extend(read));
        BOOST_TEST(!one.extend(read));
        moving.claim();
        moving.end();
        BOOST_TEST(one.releases(read));
    });
}

// The keys beside the lock's go with it.
BOOST_AUTO_TEST_CASE(a_slot_moves_while_readers_hold_and_a_writer_waits) {
    on_clusters([](cluster_group& cluster) {
        slot_of_k k(cluster);
        test_client one(address_of(cluster)), two(address_of(cluster)), three(address_of(cluster));
        one.runs_with(two);
        one.runs_with(three);
        two.runs_with(three);
        auto a = reads(one);
        auto b = reads(three);
        attempt writer, reader;
        writer.start(page(two).write());
        BOOST_REQUIRE(waits(two));
        BOOST_REQUIRE(two.until([&] { return cluster.cli(k.from).exists(intent_on_k); }));
        reader.start(page(three, {.ttl = 50s, .max_hold = 40s}).read()); // shares with nobody
        BOOST_REQUIRE(waits(three));
        k.moves();
        BOOST_TEST(cluster.cli(k.to).exists(readers_of_k));
        BOOST_TEST(cluster.cli(k.to).exists(intent_on_k));
        BOOST_TEST(!one.extend(a));
        BOOST_TEST(!three.extend(b));
        BOOST_TEST(!writer.done);
        BOOST_TEST(!reader.done);
        BOOST_TEST(one.releases(a));
        BOOST_TEST(!writer.done);
        BOOST_TEST(three.releases(b));
        BOOST_REQUIRE(two.until([&] { return writer.done || reader.done; }));
        BOOST_TEST(!reader.done);
        check_gets(two, writer);
        check_gets(three, reader);
        for (auto* const c : {&one, &two, &three}) BOOST_TEST(c->idle());
        BOOST_TEST(one.until([&] { return !cluster.cli(k.to).exists("k"); }));
    });
}

BOOST_AUTO_TEST_CASE(a_primary_that_is_killed_lets_no_two_meet) {
    on_clusters([](cluster_group& cluster) {
        auto const slot = cluster.slot_of("k");
        auto const owner = cluster.owner_of("k");
        auto options = unhurried();
        options.max_ttl = quick.ttl;
        read_write_crowd c(address_of(cluster), quick, options, two_clients);
        c.goes_on(50, 10);
        cluster.node(owner).kill();
        cluster.wait_for_other_owner(slot, owner);
        c.goes_on(50, 10);
        c.stops();
    });
}

// A grant counts when the replica has it.
BOOST_AUTO_TEST_CASE(with_replicas_that_must_have_the_keys) {
    cluster_group cluster;
    auto options = unhurried();
    options.replicas = 1;
    read_write_crowd c(address_of(cluster), quick, options, two_clients);
    c.goes_on(100, 20);
    c.stops();
    BOOST_TEST(c.lost == 0U);
    check_only_left(c.group, cluster, ":turn");
}

BOOST_AUTO_TEST_CASE(on_a_mix_of_deployments) {
    mixed_deployments mix;
    auto const all = mix.addresses();
    check_cycle(all);
    read_write_crowd c(all, quick, unhurried(), two_clients);
    c.goes_on(100, 20);
    c.stops();
    BOOST_TEST(c.lost == 0U);
    check_only_turns_left(c.group, mix.servers);
}

BOOST_AUTO_TEST_SUITE_END()
