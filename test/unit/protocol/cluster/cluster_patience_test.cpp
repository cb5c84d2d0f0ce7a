#include "protocol/cluster/cluster_patience.hpp"

#include <boost/test/unit_test.hpp>

using namespace holdfast::protocol;
using namespace std::chrono_literals;

namespace {

constexpr time_point since(1h), lost = since - 100ms, long_ago = since - 10s;
constexpr holdfast::protocol::cluster_patience sole{.instance_timeout = 500ms, .sole = true};
constexpr holdfast::protocol::cluster_patience beside{.instance_timeout = 500ms};

} // namespace

BOOST_AUTO_TEST_SUITE(cluster_patience)

BOOST_AUTO_TEST_CASE(a_connection_that_is_being_made_is_waited_for) {
    for (auto const& p : {sole, beside}) {
        BOOST_CHECK(p.until(cluster_obstacle::connecting, since, lost, 10s) == since + 500ms);
    }
}

BOOST_AUTO_TEST_CASE(a_node_that_was_just_lost_may_come_back) {
    BOOST_CHECK(sole.until(cluster_obstacle::down, since, lost, 10s) == lost + 500ms);
    BOOST_CHECK(sole.until(cluster_obstacle::down, since, since + 1s, 10s) == since + 500ms);
    BOOST_CHECK(sole.until(cluster_obstacle::down, since, long_ago, 10s) < since);
}

BOOST_AUTO_TEST_CASE(a_fenced_command_waits_for_the_migration_for_a_third_of_its_ttl) {
    BOOST_CHECK(sole.until(cluster_obstacle::migrating, since, lost, 30s) == since + 10s);
    BOOST_CHECK(sole.until(cluster_obstacle::migrating, since, lost, 300ms) == since + 500ms);
}

BOOST_AUTO_TEST_CASE(a_slot_that_no_node_serves_is_waited_for) {
    BOOST_CHECK(sole.until(cluster_obstacle::refused, since, lost, 10s) == since + 500ms);
    BOOST_CHECK(sole.until(cluster_obstacle::target, since, lost, 10s) == since + 500ms);
    BOOST_CHECK(sole.until(cluster_obstacle::no_owner, since, lost, 10s) == since + 500ms);
}

BOOST_AUTO_TEST_CASE(with_other_instances_only_a_connection_is_waited_for) {
    for (auto const o :
         {cluster_obstacle::down, cluster_obstacle::no_owner, cluster_obstacle::refused,
          cluster_obstacle::migrating, cluster_obstacle::quarantine, cluster_obstacle::target}) {
        BOOST_CHECK(beside.until(o, since, since, 30s) <= since);
    }
}

BOOST_AUTO_TEST_CASE(quarantine_is_told_at_once) {
    BOOST_CHECK(sole.until(cluster_obstacle::quarantine, since, lost, 30s) == since);
}

BOOST_AUTO_TEST_CASE(pauses_grow_with_the_time_waited) {
    constexpr auto most = ~std::uint64_t{0};
    BOOST_CHECK(sole.pause(0ms, 0) == 20ms);
    BOOST_CHECK(sole.pause(0ms, most) == 20ms);
    for (std::uint64_t random = 0; random < 1000; ++random) {
        BOOST_CHECK(sole.pause(10s, random) >= 20ms);
        BOOST_CHECK(sole.pause(10s, random) <= 200ms);
        BOOST_CHECK(sole.pause(30ms, random) <= 40ms);
    }
}

BOOST_AUTO_TEST_SUITE_END()
