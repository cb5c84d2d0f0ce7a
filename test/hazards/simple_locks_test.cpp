// Locks on one server whose commands alone are at fault, and holdfast in the same schedules.
#include "hazards/story.hpp"

#include <cstdlib>
#include <string>

using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(simple_locks)

BOOST_AUTO_TEST_CASE(a_crash_between_setnx_and_expire_leaves_the_key_for_ever) {
    check_story(tour::show_setnx_then_expire, 1, 1);
}

BOOST_AUTO_TEST_CASE(a_late_del_removes_the_lock_of_another) {
    check_story(tour::show_set_then_del, 1, 2);
}

BOOST_AUTO_TEST_CASE(the_key_changes_its_owner_between_get_and_del) {
    check_story(tour::show_compare_in_client, 1, 1);
}

BOOST_AUTO_TEST_CASE(deadlines_as_values_need_equal_clocks_and_are_overwritten_by_losers) {
    auto const* const program = std::getenv("HOLDFAST_TOUR");
    BOOST_REQUIRE_MESSAGE(program != nullptr, "HOLDFAST_TOUR is not set; ctest sets it");
    check_story(tour::show_deadline_as_value, 3, 3, program);
}

BOOST_AUTO_TEST_CASE(a_script_that_acquires_does_not_fix_the_late_del) {
    check_story(tour::show_acquire_script, 1, 2);
}

BOOST_AUTO_TEST_SUITE_END()
