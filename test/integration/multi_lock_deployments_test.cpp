// Locks on several keys behind Sentinel, in a Cluster, and on mixes.
#include "integration/cluster_load.hpp"
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

BOOST_AUTO_TEST_SUITE_END()
