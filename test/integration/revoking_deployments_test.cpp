// client::revoke() in a Cluster, behind Sentinel, with replicas, and of a process that hangs.
#include <holdfast/testing/instance.hpp>

#include "integration/child.hpp"
#include "integration/deployments.hpp"
#include "integration/readers_writers.hpp"
#include "integration/revocations.hpp"
#include "integration/sentinels.hpp"
#include "support/sentinel_group.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

constexpr lock_options renewed{.ttl = renewed_ttl};

/// An exclusive lock, a reader and a lock on several keys are revoked, one after the other.
void check_revocations(std::vector<address> const& addresses) {
    test_client holder(addresses), ops(addresses, labelled("ops"));
    holder.runs_with(ops);
    BOOST_REQUIRE(holder.all_up());
    BOOST_REQUIRE(ops.all_up());
    auto plain = holder.hold("plain", renewed);
    auto const r = revoke(ops, inspect(ops, "plain"));
    BOOST_TEST(!r.how, r.how.what());
    BOOST_TEST((r.after.state == key_state::revoked), r.after);
    check_told(holder, plain, "ops");
    auto reader = reads(holder, renewed);
    BOOST_TEST(!holder.extend(reader));
    auto const of_reader = revoke(ops, inspect(ops, "k"));
    BOOST_TEST(!of_reader.how, of_reader.how.what());
    BOOST_TEST((of_reader.after.state == key_state::revoked), of_reader.after);
    check_told(holder, reader, "ops");
    attempt both;
    both.start(holder.locks.make_multi_lock({"one", "two", "three"}, renewed));
    auto set = wait_for_lease(holder, both);
    BOOST_TEST(!holder.extend(set));
    auto const of_set = revoke(ops, inspect(ops, "two"));
    BOOST_TEST(!of_set.how, of_set.how.what());
    check_told(holder, set, "ops");
    for (auto const* const key : {"one", "three"}) {
        auto const freed = [&] { return inspect(ops, key).state == key_state::free; };
        BOOST_TEST(wait_until(freed));
    }
    // Each goes with its ttl.
    attempt next;
    next.start(ops.locks.make_lock("plain"));
    check_gets(ops, next);
}

} // namespace

BOOST_AUTO_TEST_SUITE(revoking_deployments)

BOOST_AUTO_TEST_CASE(in_the_instance_for_tests) {
    testing::instance embedded;
    check_revocations({embedded.address()});
}

BOOST_AUTO_TEST_CASE(in_a_cluster) {
    on_clusters([](cluster_group& cluster) { check_revocations(address_of(cluster)); });
}

BOOST_AUTO_TEST_CASE(on_a_mix_of_deployments) {
    mixed_deployments mix;
    check_revocations(mix.addresses());
}

// The tombstone goes with its slot.
BOOST_AUTO_TEST_CASE(a_slot_moves_with_a_tombstone) {
    on_clusters([](cluster_group& cluster) {
        slot_of_k k(cluster);
        test_client holder(address_of(cluster)), ops(address_of(cluster), labelled("ops"));
        holder.runs_with(ops);
        BOOST_REQUIRE(holder.all_up());
        BOOST_REQUIRE(ops.all_up());
        auto held = holder.hold("k");
        BOOST_TEST(!revoke(ops, inspect(ops, "k")).how);
        k.moves();
        BOOST_TEST((holder.extend(held) == errc::lease_lost));
        BOOST_TEST((held.ended_by() == lease_end::revoked), held.ended_by());
        BOOST_TEST((inspect(ops, "k").state == key_state::revoked));
        BOOST_TEST(ops.until([&] { return cluster.cli(k.to).exists("k"); }));
    });
}

// While the slot is half moved, the instance answers no inspection, so nobody is revoked there. The
// call says so, and one that follows succeeds.
BOOST_AUTO_TEST_CASE(a_slot_that_is_half_moved_is_told) {
    on_clusters([](cluster_group& cluster) {
        slot_of_k k(cluster);
        test_client holder(address_of(cluster)), ops(address_of(cluster), labelled("ops"));
        holder.runs_with(ops);
        BOOST_REQUIRE(holder.all_up());
        BOOST_REQUIRE(ops.all_up());
        auto held = holder.hold("k");
        auto const seen = inspect(ops, "k");
        slot_migration moving(cluster, k.slot, k.from, k.to);
        moving.begin();
        auto const r = revoke(ops, seen);
        BOOST_TEST((r.how == error_condition::unavailable), r.how.what());
        BOOST_TEST(!holder.extend(held));
        moving.move_keys();
        moving.claim();
        moving.end();
        BOOST_TEST(ops.until([&] { return inspect(ops, "k").state == key_state::held; }));
        auto const again = revoke(ops, seen);
        BOOST_TEST(!again.how, again.how.what());
        BOOST_TEST((holder.extend(held) == errc::lease_lost));
        BOOST_TEST((held.ended_by() == lease_end::revoked), held.ended_by());
    });
}

// A tombstone that only the primary had would be lost, and the holder would go on.
BOOST_AUTO_TEST_CASE(a_tombstone_counts_when_the_replicas_have_it) {
    sentinel_group group(small());
    auto options = labelled("ops", unhurried());
    options.replicas = 1;
    options.max_ttl = 5s;
    auto of_holder = options;
    of_holder.holder_label = "web-7";
    test_client holder({address(group.url())}, of_holder), ops({address(group.url())}, options);
    holder.runs_with(ops);
    BOOST_REQUIRE(holder.all_up());
    BOOST_REQUIRE(ops.all_up());
    auto held = holder.hold("k", {.ttl = 5s});
    auto const r = revoke(ops, inspect(ops, "k"));
    BOOST_TEST(!r.how, r.how.what());
    auto const before = group.majority().value();
    group.begin_failover();
    (void)group.wait_for_switch(before);
    check_told(holder, held, "ops");
}

// The page of incidents: a process hangs with the lock.
BOOST_AUTO_TEST_CASE(a_process_that_hangs_is_revoked) {
    fleet servers(3);
    test_client ops(servers, labelled("ops")), next(servers);
    ops.runs_with(next);
    BOOST_REQUIRE(ops.all_up());
    BOOST_REQUIRE(next.all_up());
    child c("HOLDFAST_SLEEPER",
            {"--instances", servers.url_list(), "--keys", "1", "--ttl", "4000", "--loop", "busy"});
    BOOST_REQUIRE(c.line() == "held");
    c.stop();
    auto const seen = inspect(ops, "sleeper:0");
    BOOST_REQUIRE((seen.state == key_state::held));
    auto const r = revoke(ops, seen);
    BOOST_TEST(!r.how, r.how.what());
    BOOST_REQUIRE(r.after.ttl_left.has_value());
    attempt waiter(next, "sleeper:0", long_lived);
    BOOST_REQUIRE(ops.until([&] { return waiter.done; }, 20s));
    BOOST_TEST(waiter.won(), waiter.how.what());
    // Its lease had ended before the other began.
    c.go_on();
    BOOST_TEST(c.line() == "held=0 told=1 lost=1 wrong=0");
    BOOST_TEST(c.status() == 0);
    BOOST_TEST(waiter.held.held());
    BOOST_TEST(next.releases(waiter.held));
}

BOOST_AUTO_TEST_SUITE_END()
