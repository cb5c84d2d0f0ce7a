#include "protocol/cluster/map_refresh.hpp"

#include <boost/test/unit_test.hpp>

using namespace holdfast::protocol;
using namespace std::chrono_literals;

namespace {
constexpr time_point begin(1h);
}

BOOST_AUTO_TEST_SUITE(map_refresh)

BOOST_AUTO_TEST_CASE(the_first_question_is_due_at_once) {
    holdfast::protocol::map_refresh r(500ms);
    BOOST_TEST(r.due(begin));
}

BOOST_AUTO_TEST_CASE(one_question_at_a_time) {
    holdfast::protocol::map_refresh r(500ms);
    r.asked(begin, 0);
    r.want_urgently(begin);
    BOOST_TEST(!r.due(begin + 1h));
    r.ended();
    BOOST_TEST(r.due(begin + 1h));
}

BOOST_AUTO_TEST_CASE(a_sign_of_a_change_asks_once_a_second) {
    holdfast::protocol::map_refresh r(500ms);
    r.asked(begin, 0);
    r.ended();
    r.want(begin + 10ms);
    BOOST_TEST(!r.due(begin + 999ms));
    BOOST_TEST(r.due(begin + 1s));
    BOOST_CHECK(r.wake() == begin + 1s);
}

BOOST_AUTO_TEST_CASE(commands_that_wait_ask_sooner) {
    holdfast::protocol::map_refresh r(500ms);
    r.asked(begin, 0);
    r.ended();
    r.want_urgently(begin + 1ms);
    BOOST_TEST(!r.due(begin + 9ms));
    BOOST_TEST(r.due(begin + 10ms));
}

BOOST_AUTO_TEST_CASE(without_a_sign_the_next_question_follows_within_the_period) {
    for (std::uint64_t const random :
         {std::uint64_t{0}, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
        holdfast::protocol::map_refresh r(500ms);
        r.asked(begin, random);
        r.ended();
        BOOST_TEST(!r.due(begin + 26s));
        BOOST_TEST(r.due(begin + 30s));
    }
}

BOOST_AUTO_TEST_CASE(an_answer_that_does_not_come_is_overdue) {
    holdfast::protocol::map_refresh r(500ms);
    r.asked(begin, 0);
    BOOST_CHECK(r.wake() == begin + 500ms);
    BOOST_TEST(!r.overdue(begin + 499ms));
    BOOST_TEST(r.overdue(begin + 500ms));
    r.ended();
    BOOST_TEST(!r.overdue(begin + 1h));
}

BOOST_AUTO_TEST_SUITE_END()
