// Locks on several keys behind Sentinel, in a Cluster, and on mixes.
#include "integration/deployments.hpp"
#include "integration/sentinels.hpp"
#include "integration/set_crowd.hpp"
#include "support/sentinel_group.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <string>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

constexpr lock_options in_order{.ttl = 5s, .max_retry_delay = 5ms, .patience = 2};

} // namespace

BOOST_AUTO_TEST_SUITE(multi_lock_deployments)

BOOST_AUTO_TEST_CASE(behind_sentinels_and_over_a_failover) {
    sentinel_group group;
    auto options = unhurried();
    options.max_ttl = in_order.ttl; // the quarantine of a new primary
    set_crowd c({address(group.url())}, in_order, 2, {"a", "b", "c"}, options);
    c.goes_on(300);
    auto const before = group.majority().value();
    group.begin_failover();
    (void)group.wait_for_switch(before);
    c.goes_on(300);
    c.stops();
}

BOOST_AUTO_TEST_CASE(in_a_cluster_with_keys_of_one_slot) {
    cluster_group cluster;
    set_crowd c({address_of(cluster)}, in_order, 2, {"{s}a", "{s}b", "{s}c"});
    c.goes_on(300);
    c.stops();
    BOOST_TEST(c.lost == 0U);
}

BOOST_AUTO_TEST_CASE(in_a_cluster_with_keys_of_different_slots) {
    cluster_group cluster;
    key_names const keys{cluster.key_on(0, "x"), cluster.key_on(1, "y"), cluster.key_on(2, "z")};
    set_crowd c({address_of(cluster)}, in_order, 2, keys);
    c.goes_on(300);
    c.stops();
    BOOST_TEST(c.lost == 0U);
    for (std::size_t i = 0; i < keys.size(); ++i) BOOST_TEST(!cluster.cli(i).exists(keys[i]));
}

BOOST_AUTO_TEST_CASE(a_refused_set_leaves_nothing_in_any_slot) {
    cluster_group cluster;
    test_client one(address_of(cluster)), two(address_of(cluster));
    one.runs_with(two);
    key_names const keys{cluster.key_on(0, "x"), cluster.key_on(1, "y"), cluster.key_on(2, "z")};
    BOOST_REQUIRE(one.all_up());
    BOOST_REQUIRE(two.all_up());
    auto held = one.hold(keys[1], long_lived);
    auto const [e, none] = acquire_all(two, keys, long_lived, try_now);
    BOOST_TEST((e == errc::contended), e.what());
    BOOST_TEST(contains(e.what(), keys[1] + "\" held"), e.what());
    for (auto const i : {0U, 2U})
        BOOST_TEST(two.until([&] { return !cluster.cli(i).exists(keys[i]); }));
    BOOST_TEST(one.releases(held));
    auto [f, all] = acquire_all(two, keys, {.ttl = 60s, .fencing = true});
    BOOST_REQUIRE_MESSAGE(!f, f.what());
    auto const fence = all.fence();
    BOOST_TEST(fence > 0U);
    BOOST_TEST(!two.extend(all));
    BOOST_TEST(two.releases(all));
    // One fence, which counts for each key.
    for (auto const& key : keys) {
        auto single = one.hold(key, {.ttl = 60s, .fencing = true});
        BOOST_TEST(single.fence() > fence);
        BOOST_TEST(one.releases(single));
    }
}

// A grant counts when the replica of each slot's primary has it.
BOOST_AUTO_TEST_CASE(with_replicas_that_must_have_the_keys) {
    cluster_group cluster;
    key_names const keys{cluster.key_on(0, "x"), cluster.key_on(1, "y"), cluster.key_on(2, "z")};
    auto options = unhurried();
    options.replicas = 1;
    set_crowd c({address_of(cluster)}, in_order, 2, keys, options);
    c.goes_on(200);
    c.stops();
    BOOST_TEST(c.lost == 0U);
    // Without its replica one of the slots grants nothing, so the set cannot be had.
    test_client one(address_of(cluster), options);
    BOOST_REQUIRE(one.all_up());
    cluster.node(3).freeze();
    auto const [e, none] = acquire_all(one, keys, impatient());
    BOOST_TEST((e == errc::too_few_replicas), e.what());
    cluster.node(3).thaw();
    for (std::size_t i = 0; i < keys.size(); ++i)
        BOOST_TEST(one.until([&] { return !cluster.cli(i).exists(keys[i]); }));
}

BOOST_AUTO_TEST_CASE(on_a_mix_of_deployments) {
    mixed_deployments mix;
    set_crowd c(mix.addresses(), in_order, 2);
    c.goes_on(300);
    c.stops();
    BOOST_TEST(c.lost == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
