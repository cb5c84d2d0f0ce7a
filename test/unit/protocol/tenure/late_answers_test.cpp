// A tenure while a minority of instances does not answer and is not suspect yet.
#include "protocol/tenure/tenure.hpp"

#include "unit/protocol/protocol_values.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <initializer_list>
#include <string_view>

using namespace holdfast::protocol;
using namespace std::chrono_literals;

namespace {

using holdfast::test::at;
using holdfast::test::of;

constexpr duration ttl = 10s;

/// Five instances. Instance 4 usually answers after 100 ms, the others after 1 ms.
struct fixture {
    fixture() {
        for (int n = 0; n < 50; ++n) {
            for (unsigned i = 0; i < 4; ++i) usual[i].heard(1ms);
            usual[4].heard(100ms);
        }
        m.set_usual(usual);
        BOOST_REQUIRE((usual[0].patience() == soon));
    }

    tenure_action say(command c, std::string_view instances, verdict v, duration now = 1ms,
                      std::uint64_t number = 0) {
        tenure_action a;
        for (char const digit : instances) {
            a = m.answer(c, m.round_number(), static_cast<unsigned>(digit - '0'), v, at(now),
                         number);
        }
        return a;
    }
    void acquires(std::string_view yes, std::string_view no, duration now = 1ms) {
        m.acquire(at(0ms), of("01234"));
        BOOST_TEST((say(command::acquire, yes, verdict::yes, now).effect == tenure_effect::none));
        BOOST_TEST((say(command::acquire, no, verdict::no, now).effect == tenure_effect::none));
    }
    void holds(std::string_view yes, std::string_view no) {
        m.acquire(at(0ms), of("01234"));
        say(command::acquire, no, verdict::no);
        say(command::acquire, yes, verdict::yes);
        BOOST_REQUIRE((m.phase() == tenure_phase::held));
    }
    /// The tenure ends at `when`, and not a nanosecond earlier.
    tenure_action ends(duration when, tenure_effect how) {
        BOOST_REQUIRE(m.depends_on_late_answers());
        BOOST_TEST((m.wake() == at(when)));
        BOOST_TEST((m.time(at(when - 1ns)).effect == tenure_effect::none));
        auto const a = m.time(at(when));
        BOOST_TEST((a.effect == how));
        BOOST_TEST((m.phase() == tenure_phase::over));
        BOOST_TEST((m.wake() == std::nullopt));
        return a;
    }

    static constexpr duration soon = round_trip::shortest_patience;
    round_trips usual;
    tenure m{5, ttl, true};
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(late_answers, fixture)

BOOST_AUTO_TEST_CASE(two_sides_give_their_votes_back_when_the_last_instance_is_late) {
    acquires("01", "23");
    auto const a = ends(usual[4].patience(), tenure_effect::contended);
    BOOST_TEST((a.release == of("014"))); // instance 4 may grant the key later
}

BOOST_AUTO_TEST_CASE(as_long_as_it_is_not_late_the_last_instance_may_decide) {
    acquires("01", "23");
    BOOST_TEST((m.time(at(90ms)).effect == tenure_effect::none));
    BOOST_TEST((say(command::acquire, "4", verdict::yes, 91ms).effect == tenure_effect::won));
}

BOOST_AUTO_TEST_CASE(the_patience_is_that_of_those_who_are_awaited) {
    acquires("01", "24");
    ends(soon, tenure_effect::contended);
}

BOOST_AUTO_TEST_CASE(of_two_that_are_awaited_the_slower_one_is_waited_for_if_one_is_enough) {
    acquires("01", "2");
    ends(usual[4].patience(), tenure_effect::contended);
}

BOOST_AUTO_TEST_CASE(of_two_that_are_awaited_the_faster_one_decides_if_both_are_needed) {
    acquires("0", "12");
    ends(soon, tenure_effect::contended);
}

BOOST_AUTO_TEST_CASE(an_instance_that_is_late_already_is_not_waited_for_again) {
    BOOST_REQUIRE(!usual[4].becomes_late(at(-1s), at(-2s)));
    BOOST_REQUIRE(usual[4].becomes_late(at(-500ms), at(-2s)));
    acquires("01", "23", 1ms);
    BOOST_TEST((m.time(at(1ms)).effect == tenure_effect::contended));
}

BOOST_AUTO_TEST_CASE(where_nobody_else_has_a_vote_nothing_is_given_up) {
    acquires("01", "");
    BOOST_TEST(!m.depends_on_late_answers());
    BOOST_TEST((m.time(at(5s)).effect == tenure_effect::none));
    BOOST_TEST((say(command::acquire, "2", verdict::yes, 5s).effect == tenure_effect::won));
}

BOOST_AUTO_TEST_CASE(a_round_that_no_quorum_has_answered_is_an_outage_and_no_contention) {
    acquires("0", "1");
    BOOST_TEST(!m.depends_on_late_answers());
    BOOST_TEST((m.time(at(5s)).effect == tenure_effect::none));
}

BOOST_AUTO_TEST_CASE(without_an_idea_of_what_is_usual_nothing_is_late) {
    m = tenure(5, ttl, true);
    acquires("01", "23");
    BOOST_TEST(!m.depends_on_late_answers());
}

BOOST_AUTO_TEST_CASE(a_late_arbiter_is_given_up) {
    m.contend(at(0ms), 2);
    auto const a = ends(soon, tenure_effect::arbiter_failed);
    BOOST_TEST((a.release == of("2")));
}

// The arbiter's earlier answers were late already when it was asked.
BOOST_AUTO_TEST_CASE(an_arbiter_that_was_late_already_is_given_its_usual_time) {
    BOOST_REQUIRE(!usual[4].becomes_late(at(-1s), at(-2s)));
    BOOST_REQUIRE(usual[4].becomes_late(at(-500ms), at(-2s)));
    m.contend(at(0ms), 4);
    ends(usual[4].usual(), tenure_effect::arbiter_failed);
}

BOOST_AUTO_TEST_CASE(the_patience_for_the_others_begins_when_they_are_asked) {
    m.contend(at(0ms), 2);
    BOOST_REQUIRE(
        (say(command::contend, "2", verdict::yes, 1500us).effect == tenure_effect::arbiter_won));
    m.ask_rest(at(1500us), of("01234"));
    say(command::acquire, "0", verdict::yes);
    say(command::acquire, "14", verdict::no);
    ends(1500us + soon, tenure_effect::contended);
}

BOOST_AUTO_TEST_CASE(an_arbiter_without_which_there_is_no_quorum_is_waited_for) {
    for (auto const configured : {1U, 2U}) {
        m = tenure(configured, ttl, true);
        m.set_usual(usual);
        m.contend(at(0ms), 0);
        BOOST_TEST(!m.depends_on_late_answers());
        BOOST_TEST((m.wake() == m.deadline()));
    }
}

BOOST_AUTO_TEST_CASE(a_raise_that_only_a_late_instance_can_save_is_given_up) {
    m.number_from({.hint = 1});
    m.acquire(at(0ms), of("01234"));
    say(command::acquire, "01", verdict::yes, 1ms, 7);
    say(command::acquire, "23", verdict::no);
    auto const a = say(command::acquire, "4", verdict::yes, 90ms, 5);
    BOOST_REQUIRE((a.raise == of("4")));
    ends(90ms + usual[4].patience(), tenure_effect::contended);
}

BOOST_AUTO_TEST_CASE(a_release_is_confirmed_by_those_that_never_had_the_key) {
    holds("014", "23");
    BOOST_TEST((m.release(at(1s), of("01234")).release == of("014")));
    say(command::release, "01", verdict::yes, 1001ms);
    // The last answer could still show that the lease was lost. The release waits for it briefly.
    ends(1s + usual[4].patience(), tenure_effect::released);
    BOOST_TEST((m.maybe_held() == of("4")));
}

BOOST_AUTO_TEST_CASE(a_release_is_confirmed_when_an_instance_that_held_the_key_is_gone) {
    for (auto const how : {verdict::unknown, verdict::unsent, verdict::refused}) {
        m = tenure(5, ttl, true);
        m.set_usual(usual);
        holds("014", "23");
        m.release(at(1s), of("01234"));
        BOOST_TEST((say(command::release, "4", how, 1001ms).effect == tenure_effect::none));
        BOOST_TEST(
            (say(command::release, "0", verdict::yes, 1001ms).effect == tenure_effect::none));
        BOOST_TEST(
            (say(command::release, "1", verdict::yes, 1001ms).effect == tenure_effect::released));
    }
}

BOOST_AUTO_TEST_CASE(a_release_that_a_majority_has_not_confirmed_waits_for_the_late) {
    holds("01234", "");
    m.release(at(1s), of("01234"));
    say(command::release, "01", verdict::yes, 1001ms);
    BOOST_TEST(!m.depends_on_late_answers());
    BOOST_TEST((m.time(at(3s)).effect == tenure_effect::none));
    BOOST_TEST((say(command::release, "23", verdict::unknown, 3s).effect == tenure_effect::none));
    BOOST_TEST((say(command::release, "4", verdict::unknown, 3s).effect ==
                tenure_effect::release_unconfirmed));
}

BOOST_AUTO_TEST_CASE(a_late_release_is_a_loss_after_the_deadline) {
    holds("014", "23");
    m.release(at(ttl), of("01234"));
    say(command::release, "01", verdict::yes, ttl);
    ends(ttl + usual[4].patience(), tenure_effect::lost);
}

BOOST_AUTO_TEST_CASE(an_inspection_does_not_wait_for_the_late) {
    acquires("", "01");
    BOOST_REQUIRE((say(command::acquire, "4", verdict::no).effect == tenure_effect::contended));
    BOOST_TEST((m.inspect(at(2ms), of("014")).inspect == of("014")));
    BOOST_TEST((say(command::inspect, "01", verdict::yes, 3ms).effect == tenure_effect::none));
    ends(2ms + usual[4].patience(), tenure_effect::inspected);
    BOOST_TEST((say(command::inspect, "4", verdict::yes, 1s).effect == tenure_effect::none));
    BOOST_TEST(!m.inspected_all());
}

BOOST_AUTO_TEST_CASE(an_inspection_that_has_found_no_lock_waits_for_the_late) {
    acquires("", "01");
    BOOST_REQUIRE((say(command::acquire, "4", verdict::no).effect == tenure_effect::contended));
    m.inspect(at(2ms), of("014"));
    BOOST_TEST(!m.depends_on_late_answers());
    BOOST_TEST((say(command::inspect, "01", verdict::refused, 3ms).effect == tenure_effect::none));
    BOOST_TEST((m.time(at(1s)).effect == tenure_effect::none));
    BOOST_TEST(
        (say(command::inspect, "4", verdict::refused, 1s).effect == tenure_effect::inspected));
    BOOST_TEST(m.inspected_all());
}

// It may have fallen silent since it refused.
BOOST_AUTO_TEST_CASE(an_inspection_of_a_minority_that_does_not_answer_ends) {
    for (auto const* const asked : {"4", "14"}) {
        m = tenure(5, ttl, true);
        m.set_usual(usual);
        acquires("", "01");
        BOOST_REQUIRE((say(command::acquire, "4", verdict::no).effect == tenure_effect::contended));
        m.inspect(at(2ms), of(asked));
        ends(2ms + usual[4].patience(), tenure_effect::inspected);
        BOOST_TEST(!m.inspected_all());
    }
}

BOOST_AUTO_TEST_CASE(an_inspection_that_is_not_answered_has_not_found_out_all) {
    for (auto const how : {verdict::unknown, verdict::unsent}) {
        m = tenure(5, ttl, true);
        m.set_usual(usual);
        acquires("", "01");
        say(command::acquire, "4", verdict::no);
        m.inspect(at(2ms), of("01"));
        say(command::inspect, "0", verdict::refused, 3ms);
        BOOST_TEST((say(command::inspect, "1", how, 3ms).effect == tenure_effect::inspected));
        BOOST_TEST(!m.inspected_all());
        m.inspect(at(4ms), {});
        BOOST_TEST(!m.inspected_all());
    }
}

BOOST_AUTO_TEST_CASE(an_inspection_ends_with_its_last_answer) {
    acquires("", "01");
    say(command::acquire, "4", verdict::no);
    m.inspect(at(2ms), of("01"));
    BOOST_TEST((say(command::inspect, "0", verdict::yes, 3ms).effect == tenure_effect::none));
    BOOST_TEST(
        (say(command::inspect, "1", verdict::unknown, 3ms).effect == tenure_effect::inspected));
    BOOST_TEST(!m.depends_on_late_answers());
    BOOST_TEST((m.inspect(at(4ms), {}).effect == tenure_effect::inspected));
}

BOOST_AUTO_TEST_SUITE_END()
