// Semaphores with TLS, in the instance for tests, behind Sentinel, in a Cluster, and on mixes.
#include <holdfast/testing/instance.hpp>

#include "integration/deployments.hpp"
#include "integration/permit_crowd.hpp"
#include "integration/sections.hpp"
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

constexpr lock_options quick{.ttl = 5s, .fencing = true, .max_retry_delay = 5ms};
constexpr permit_crowd_size two_clients{.clients = 2};

/// Two permits of one client, a third client that waits, an extension, a release.
void check_cycle(std::vector<address> const& addresses) {
    test_client one(addresses), two(addresses);
    one.runs_with(two);
    BOOST_REQUIRE(one.all_up());
    BOOST_REQUIRE(two.all_up());
    lock_options const fenced{.ttl = 60s, .fencing = true};
    attempt a, b, waiter;
    a.start(workers(one, 2, fenced));
    b.start(workers(one, 2, fenced));
    auto first = wait_for_lease(one, a);
    auto second = wait_for_lease(one, b);
    BOOST_TEST((first.slot() != second.slot()));
    waiter.start(workers(two, 2, fenced));
    BOOST_REQUIRE(waits(two));
    BOOST_TEST(!one.extend(first));
    BOOST_TEST(!one.extend(second));
    BOOST_TEST(!waiter.done);
    auto const slot = second.slot();
    auto const fence = second.fence();
    BOOST_TEST(one.releases(second));
    auto third = wait_for_lease(two, waiter);
    BOOST_TEST((third.slot() == slot));
    BOOST_TEST(third.fence() > fence);
    BOOST_TEST(two.releases(third));
    BOOST_TEST(one.releases(first));
    end_both(one, two);
}

} // namespace

BOOST_AUTO_TEST_SUITE(semaphore_deployments)

BOOST_AUTO_TEST_CASE(with_tls) {
    tls_fleet tls(3);
    check_cycle(tls.addresses());
    permit_crowd c(tls.addresses(), {3}, quick, unhurried(), two_clients);
    c.goes_on(100);
    c.stops();
    BOOST_TEST(c.lost == 0U);
    check_nothing_left(c.group, *tls.servers);
}

BOOST_AUTO_TEST_CASE(in_the_instance_for_tests) {
    testing::instance embedded;
    check_cycle({embedded.address()});
    permit_crowd c({embedded.address()}, {3}, quick);
    c.goes_on(300);
    c.stops();
    BOOST_TEST(c.lost == 0U);
}

BOOST_AUTO_TEST_CASE(behind_sentinels_and_over_a_failover) {
    sentinel_group group;
    auto options = unhurried();
    options.max_ttl = quick.ttl; // the quarantine of a new primary
    check_cycle({address(group.url())});
    auto without_fences = quick;
    without_fences.fencing = false;
    permit_crowd c({address(group.url())}, {3}, without_fences, options, two_clients);
    c.goes_on(200);
    auto const before = group.majority().value();
    group.begin_failover();
    (void)group.wait_for_switch(before);
    c.goes_on(200);
    c.stops();
}

BOOST_AUTO_TEST_CASE(in_a_cluster) {
    on_clusters([](cluster_group& cluster) {
        check_cycle(address_of(cluster));
        for (auto const* const key : {"k", "{s}k"}) {
            permit_crowd c(address_of(cluster), {3}, quick, unhurried(), two_clients, key);
            c.goes_on(100);
            c.stops();
            BOOST_TEST(c.lost == 0U);
            check_only_left(c.group, cluster, ":fences");
        }
    });
}

BOOST_AUTO_TEST_CASE(in_a_cluster_while_the_slot_moves) {
    on_clusters([](cluster_group& cluster) {
        permit_crowd c(address_of(cluster), {3}, quick, unhurried(), two_clients);
        c.goes_on(50);
        while_slot_moves(cluster, [&] { c.goes_on(1); });
        c.goes_on(50);
        c.stops();
        BOOST_TEST(c.lost == 0U);
        check_only_left(c.group, cluster, ":fences");
    });
}

// The keys beside the semaphore's go with it.
BOOST_AUTO_TEST_CASE(a_slot_moves_while_permits_are_held_and_one_waits) {
    on_clusters([](cluster_group& cluster) {
        slot_of_k k(cluster);
        test_client one(address_of(cluster)), two(address_of(cluster));
        one.runs_with(two);
        attempt a, b, waiter;
        a.start(workers(one, 2));
        b.start(workers(one, 2));
        auto first = wait_for_lease(one, a);
        auto second = wait_for_lease(one, b);
        waiter.start(workers(two, 2));
        BOOST_REQUIRE(waits(two));
        k.moves();
        BOOST_TEST(cluster.cli(k.to).command({"ZCARD", "k"}).integer() == 2);
        BOOST_TEST(!one.extend(first));
        BOOST_TEST(!one.extend(second));
        BOOST_TEST(!waiter.done);
        BOOST_TEST(one.releases(first));
        check_gets(two, waiter);
        BOOST_TEST(one.releases(second));
        for (auto* const c : {&one, &two}) BOOST_TEST(c->idle());
        BOOST_TEST(one.until([&] { return !cluster.cli(k.to).exists("k"); }));
    });
}

// A grant counts when the replica has it, with the slot that it had.
BOOST_AUTO_TEST_CASE(with_replicas_that_must_have_the_permits) {
    cluster_group cluster;
    auto options = unhurried();
    options.replicas = 1;
    permit_crowd c(address_of(cluster), {3}, quick, options, two_clients);
    c.goes_on(100);
    c.stops();
    BOOST_TEST(c.all.most() == 3U);
    BOOST_TEST(c.lost == 0U);
    check_only_left(c.group, cluster, ":fences");
}

BOOST_AUTO_TEST_CASE(on_a_mix_of_deployments) {
    mixed_deployments mix;
    auto const all = mix.addresses();
    check_cycle(all);
    permit_crowd c(all, {3}, quick, unhurried(), two_clients);
    c.goes_on(100);
    c.stops();
    BOOST_TEST(c.lost == 0U);
    check_nothing_left(c.group, mix.servers);
}

BOOST_AUTO_TEST_SUITE_END()
