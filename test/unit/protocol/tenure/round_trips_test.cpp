// The time at which an answer is late.
#include "protocol/tenure/round_trips.hpp"

#include "unit/protocol/protocol_values.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>

using namespace holdfast::protocol;
using namespace std::chrono_literals;

namespace {

using holdfast::test::at;

round_trip used_to(duration took, int times = 50) {
    round_trip r;
    for (int i = 0; i < times; ++i) r.heard(took);
    return r;
}

} // namespace

BOOST_AUTO_TEST_SUITE(round_trips)

BOOST_AUTO_TEST_CASE(patience_is_a_few_of_the_usual_round_trips) {
    BOOST_TEST((round_trip().patience() == round_trip::first_patience));
    BOOST_TEST((used_to(100us).patience() == round_trip::shortest_patience));
    BOOST_TEST((used_to(30ms).patience() >= 55ms && used_to(30ms).patience() <= 65ms));
    BOOST_TEST((used_to(5s).patience() == round_trip::longest_patience));
}

BOOST_AUTO_TEST_CASE(patience_grows_with_how_much_answers_differ) {
    round_trip r;
    for (int i = 0; i < 100; ++i) r.heard(i % 2 == 0 ? 1ms : 9ms);
    BOOST_TEST((r.patience() >= 15ms && r.patience() <= 30ms));
}

BOOST_AUTO_TEST_CASE(an_instance_that_was_stopped_for_once_is_not_thought_slow) {
    auto r = used_to(1ms);
    r.heard(10s);
    BOOST_TEST((r.patience() <= 10ms));
}

BOOST_AUTO_TEST_CASE(an_instance_that_becomes_slower_is_known_so_after_some_answers) {
    auto r = used_to(1ms);
    for (int i = 0; i < 40; ++i) r.heard(40ms);
    BOOST_TEST((r.patience() > 40ms));
}

BOOST_AUTO_TEST_CASE(it_is_late_when_it_still_is_after_what_had_come_was_read) {
    auto r = used_to(1ms);
    BOOST_TEST(!r.becomes_late(at(round_trip::soonest_late - 1ns), at(0ms)));
    // A process that was stopped makes its first check long after that time.
    BOOST_TEST(!r.becomes_late(at(1s), at(0ms)));
    BOOST_TEST(!r.late());
    BOOST_TEST(r.becomes_late(at(1s + round_trip::reading_time), at(0ms)));
    BOOST_TEST(r.late());
    BOOST_TEST((r.patience() == 0ms));
    BOOST_TEST(!r.becomes_late(at(2s), at(0ms))); // reported once
    r.heard(2s);
    BOOST_TEST(!r.late());
    BOOST_TEST((r.patience() > 0ms));
}

BOOST_AUTO_TEST_CASE(the_next_question_is_doubted_anew) {
    auto r = used_to(1ms);
    BOOST_TEST(!r.becomes_late(at(20ms), at(0ms)));
    r.heard(20ms);
    BOOST_TEST(!r.becomes_late(at(60ms), at(40ms)));
    BOOST_TEST(!r.becomes_late(at(60ms + round_trip::reading_time - 1ns), at(40ms)));
    BOOST_TEST(r.becomes_late(at(60ms + round_trip::reading_time), at(40ms)));
}

BOOST_AUTO_TEST_CASE(fewer_than_are_needed_are_in_time_when_the_slower_ones_are_late) {
    holdfast::protocol::round_trips usual;
    usual[1] = used_to(10ms);
    usual[2] = used_to(30ms);
    usual[4] = used_to(50ms);
    instance_set all;
    for (auto const i : {1U, 2U, 4U}) all.insert(i);
    BOOST_TEST((patience(usual, all, 1) == usual[4].patience()));
    BOOST_TEST((patience(usual, all, 2) == usual[2].patience()));
    BOOST_TEST((patience(usual, all, 3) == usual[1].patience()));
}

BOOST_AUTO_TEST_SUITE_END()
