// A unique token, which is right while its server keeps its data: crashes and fail-overs, and
// holdfast in the same schedules.
#include "hazards/story.hpp"

using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(fallible_servers)

BOOST_AUTO_TEST_CASE(a_server_that_restarts_empty_gives_the_lock_twice) {
    check_story(tour::show_unique_token, 1, 3);
}

BOOST_AUTO_TEST_CASE(a_failover_of_sentinel_to_a_replica_without_the_key_gives_the_lock_twice) {
    check_story(tour::show_behind_sentinel, 1, 2);
}

BOOST_AUTO_TEST_CASE(a_failover_of_a_cluster_and_a_retry_in_another_slot_give_the_lock_twice) {
    check_story(tour::show_in_cluster, 2, 3);
}

BOOST_AUTO_TEST_SUITE_END()
