// Redlock with one server after the other, and holdfast in the same schedules.
#include "hazards/story.hpp"
#include "tour/sequential_redlock.hpp"

#include <chrono>

using namespace holdfast::test;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(sequential_redlock)

BOOST_AUTO_TEST_CASE(its_quorum_its_turns_its_tokens_and_its_ttl_fail) {
    check_story(tour::show_sequential_redlock, 5, 6);
}

BOOST_AUTO_TEST_CASE(a_token_is_the_time_as_of_php) {
    BOOST_TEST(tour::uniqid(1'261'699'942s + 392'870us) == "4b3403665fea6");
}

BOOST_AUTO_TEST_SUITE_END()
