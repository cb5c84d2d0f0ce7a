// Tenures of permits driven by hand: instances give slots, and the tenure needs a quorum on one.
#include "protocol/tenure/tenure.hpp"

#include "unit/protocol/tenure/tenures.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <string>

using namespace tenures;

namespace {

constexpr auto other = verdict::other;

/// An instance has given this slot.
std::string gives(machine& m, unsigned instance, unsigned slot, std::uint64_t number = 0,
                  protocol::duration when = 1s) {
    return text(m.answer(command::acquire, 0, instance, yes, at(when), number, slot));
}

machine asking() {
    machine m(3, ttl, true);
    m.search_from(5);
    BOOST_TEST(text(m.acquire(at(0s), of("012"))) == "acquire 012");
    return m;
}

/// The instances have given three different slots, and two are asked for the first.
machine in_second_round() {
    auto m = asking();
    BOOST_TEST(gives(m, 0, 5) == "nothing");
    BOOST_TEST(gives(m, 1, 6) == "nothing");
    BOOST_TEST(gives(m, 2, 7) == "acquire 12");
    BOOST_TEST(m.slot().value() == 5U);
    return m;
}

/// Slot 5 is held at 0 and 1, and instance 2 has not answered.
machine holding() {
    auto m = asking();
    BOOST_TEST(gives(m, 0, 5) == "nothing");
    BOOST_TEST(gives(m, 1, 5) == "won");
    return m;
}

protocol::round_trips usual_times() {
    protocol::round_trips usual;
    for (unsigned i = 0; i < 3; ++i) {
        for (int n = 0; n < 50; ++n) usual[i].heard(1ms);
    }
    return usual;
}

} // namespace

BOOST_AUTO_TEST_SUITE(tenure_permits)

//
// Acquiring
//

BOOST_AUTO_TEST_CASE(a_second_round_makes_a_quorum) {
    auto m = in_second_round();
    BOOST_TEST(gives(m, 2, 5) == "won"); // instance 1 is still asked
    BOOST_TEST(m.slot().value() == 5U);
    BOOST_TEST(text(m.maybe_held()) == "012");
    BOOST_TEST(gives(m, 1, 5) == "nothing");
}

// Whoever refuses in the second round has taken its slot back. The others get a release.
BOOST_AUTO_TEST_CASE(a_second_round_that_is_refused_is_the_last) {
    auto m = in_second_round();
    BOOST_TEST(answer(m, command::acquire, 1, no) == "nothing");
    BOOST_TEST(answer(m, command::acquire, 2, no) == "release 0 contended");
    BOOST_TEST(m.phase() == phase::over);
}

// A second round that never left, or met an error, leaves the slot of the first there.
BOOST_AUTO_TEST_CASE(a_second_round_that_fails_leaves_a_slot_to_be_released) {
    for (auto const failure : {verdict::unsent, verdict::refused}) {
        auto m = in_second_round();
        BOOST_TEST(answer(m, command::acquire, 1, failure) == "nothing");
        BOOST_TEST(answer(m, command::acquire, 2, no) == "release 01 contended");
        m = in_second_round();
        BOOST_TEST(gives(m, 2, 5) == "won");
        BOOST_TEST(answer(m, command::acquire, 1, failure) == "nothing");
        BOOST_TEST(text(m.maybe_held()) == "012");
    }
}

BOOST_AUTO_TEST_CASE(an_instance_that_keeps_the_other_slot_does_not_vote) {
    auto m = in_second_round();
    BOOST_TEST(answer(m, command::acquire, 1, other) == "nothing");
    BOOST_TEST(answer(m, command::acquire, 2, unknown) == "release 012 contended");
}

BOOST_AUTO_TEST_CASE(slots_that_are_no_quorum_lead_to_no_second_round) {
    machine m(5, ttl, true);
    m.acquire(at(0s), of("01234"));
    BOOST_TEST(gives(m, 0, 5) == "nothing");
    BOOST_TEST(gives(m, 1, 6) == "nothing");
    BOOST_TEST(answer(m, command::acquire, 2, no) == "nothing");
    BOOST_TEST(answer(m, command::acquire, 3, no) == "nothing"); // the last one may grant, too
    BOOST_TEST(answer(m, command::acquire, 4, no) == "release 01 contended");
}

// Slots have been given, so the instances are there: that is no outage.
BOOST_AUTO_TEST_CASE(an_instance_with_another_slot_has_answered) {
    machine m(5, ttl, true);
    m.acquire(at(0s), of("01234"));
    BOOST_TEST(gives(m, 0, 5) == "nothing");
    BOOST_TEST(gives(m, 1, 6) == "nothing");
    BOOST_TEST(answer(m, command::acquire, 2, no) == "nothing");
    BOOST_TEST(answer(m, command::acquire, 3, refused) == "nothing");
    BOOST_TEST(answer(m, command::acquire, 4, refused) == "release 01 contended");
}

BOOST_AUTO_TEST_CASE(instances_that_cannot_be_reached_do_not_keep_two_slots_apart) {
    machine m(3, ttl, true);
    BOOST_TEST(text(m.acquire(at(0s), of("01"))) == "acquire 01");
    BOOST_TEST(gives(m, 0, 5) == "nothing");
    BOOST_TEST(gives(m, 1, 6) == "acquire 1");
    BOOST_TEST(gives(m, 1, 5) == "won");
}

// One instance is frozen, and the other two have given different slots.
BOOST_AUTO_TEST_CASE(a_second_round_does_not_wait_for_late_answers) {
    auto const usual = usual_times();
    machine m(3, ttl, true);
    m.set_usual(usual);
    m.acquire(at(0s), of("012"));
    BOOST_TEST(gives(m, 0, 5, 0, 1ms) == "nothing");
    BOOST_TEST(gives(m, 1, 6, 0, 1ms) == "nothing");
    auto const late = m.wake();
    BOOST_REQUIRE(late);
    BOOST_TEST((*late < at(valid)));
    BOOST_TEST(text(m.time(*late)) == "acquire 1");
    BOOST_TEST(m.slot().value() == 5U);
    BOOST_TEST(gives(m, 1, 5, 0, 100ms) == "won");
}

BOOST_AUTO_TEST_CASE(a_second_round_that_is_refused_does_not_wait_for_late_answers) {
    auto const usual = usual_times();
    machine m(3, ttl, true);
    m.set_usual(usual);
    m.acquire(at(0s), of("012"));
    gives(m, 0, 5, 0, 1ms);
    gives(m, 1, 6, 0, 1ms);
    auto const late = *m.wake();
    BOOST_TEST(text(m.time(late)) == "acquire 1");
    BOOST_TEST(answer(m, command::acquire, 1, no, 50ms) == "nothing");
    auto const end = m.wake();
    BOOST_REQUIRE(end);
    BOOST_TEST((*end < at(valid)));
    BOOST_TEST(text(m.time(std::max(*end, at(50ms)))) == "release 02 contended");
}

BOOST_AUTO_TEST_CASE(both_rounds_count_from_the_first) {
    auto m = in_second_round();
    BOOST_TEST(gives(m, 1, 5, 0, 9s) == "won");
    BOOST_TEST((m.deadline() == at(valid)));
    auto late = in_second_round();
    BOOST_TEST(text(late.answer(command::acquire, 0, 1, yes, at(valid), 0, 5)) ==
               "release 012 expired");
}

BOOST_AUTO_TEST_CASE(the_others_search_from_the_slot_of_the_arbiter) {
    machine m(3, ttl, true);
    m.search_from(5);
    BOOST_TEST(text(m.contend(at(0s), 1)) == "contend 1");
    BOOST_TEST(text(m.answer(command::contend, 0, 1, yes, at(1ms), 0, 8)) == "arbiter_won");
    BOOST_TEST(m.slot().value() == 8U);
    BOOST_TEST(!m.slot().fixed());
    BOOST_TEST(text(m.ask_rest(at(1ms), of("012"))) == "acquire 02");
    BOOST_TEST(gives(m, 0, 9) == "nothing");
    BOOST_TEST(gives(m, 2, 9) == "heal 1 won");
    BOOST_TEST(m.slot().value() == 9U);
}

//
// Fences
//

BOOST_AUTO_TEST_CASE(instances_with_another_slot_do_not_hold_the_number) {
    machine m(3, ttl, true);
    m.number_from({.hint = 0});
    m.acquire(at(0s), of("012"));
    BOOST_TEST(gives(m, 0, 5, 40) == "nothing");
    BOOST_TEST(gives(m, 1, 6, 40) == "nothing");
    // The first instance has the number too, but for another slot.
    BOOST_TEST(gives(m, 2, 6, 40) == "raise 12");
    BOOST_TEST(m.slot().value() == 6U);
    BOOST_TEST(answer(m, command::raise, 1, yes) == "nothing");
    BOOST_TEST(answer(m, command::raise, 2, yes) == "heal 0 won");
    BOOST_TEST(m.number() == 40U);
}

BOOST_AUTO_TEST_CASE(the_number_is_no_less_than_the_counters_of_the_slot_that_is_won) {
    machine m(3, ttl, true);
    m.number_from({.hint = 0});
    m.acquire(at(0s), of("012"));
    gives(m, 0, 5, 10);
    gives(m, 1, 6, 50);
    BOOST_TEST(gives(m, 2, 6, 20) == "raise 12");
    BOOST_TEST(m.number() == 50U);
    BOOST_TEST(m.numbering().for_command(command::raise) == 50U);
    BOOST_TEST(answer(m, command::raise, 1, yes) == "nothing");
    BOOST_TEST(answer(m, command::raise, 2, yes) == "heal 0 won");
}

BOOST_AUTO_TEST_CASE(a_raise_that_finds_another_slot_counts_no_more) {
    machine m(3, ttl, true);
    m.number_from({.hint = 0});
    m.acquire(at(0s), of("012"));
    gives(m, 0, 5, 10);
    BOOST_TEST(gives(m, 1, 5, 20) == "raise 0");
    BOOST_TEST(answer(m, command::raise, 0, other) == "nothing");
    BOOST_TEST(gives(m, 2, 5, 20) == "heal 0 won");
}

//
// Holding
//

BOOST_AUTO_TEST_CASE(an_instance_with_another_slot_is_healed_after_the_win) {
    auto m = asking();
    gives(m, 0, 5);
    gives(m, 1, 6);
    BOOST_TEST(gives(m, 2, 5) == "heal 1 won");
    BOOST_TEST(text(m.maybe_held()) == "012");
}

BOOST_AUTO_TEST_CASE(a_late_grant_of_another_slot_is_healed_while_the_permit_is_held) {
    auto m = holding();
    BOOST_TEST(gives(m, 2, 8) == "heal 2");
    BOOST_TEST(text(m.maybe_held()) == "012");
    auto same = holding();
    BOOST_TEST(gives(same, 2, 5) == "nothing");
    auto released = holding();
    BOOST_TEST(text(released.release(at(1s), of("012"))) == "release 012");
    BOOST_TEST(gives(released, 2, 8) == "nothing");
    auto lost = asking();
    BOOST_TEST(text(lost.cancel()) == "release 012 cancelled");
    BOOST_TEST(gives(lost, 2, 8) == "nothing");
    // The arbiter may be the one that is late.
    machine late(3, ttl, true);
    late.contend(at(0s), 1);
    BOOST_TEST(text(late.cancel()) == "release 1 cancelled");
    BOOST_TEST(text(late.answer(command::contend, 0, 1, yes, at(1s), 0, 8)) == "nothing");
}

BOOST_AUTO_TEST_CASE(an_extension_that_finds_another_slot_does_not_count_and_heals_after_the_win) {
    auto m = holding();
    BOOST_TEST(text(m.extend(at(3s), of("012"))) == "extend 012");
    BOOST_TEST(answer(m, command::extend, 0, yes, 3s) == "nothing");
    BOOST_TEST(answer(m, command::extend, 1, other, 3s) == "nothing");
    BOOST_TEST(text(m.maybe_held()) == "012"); // it may have our token
    BOOST_TEST(answer(m, command::extend, 2, yes, 3s) == "heal 1 extended");

    auto again = holding();
    again.extend(at(3s), of("012"));
    answer(again, command::extend, 0, yes, 3s);
    BOOST_TEST(answer(again, command::extend, 1, yes, 3s) == "extended");
    BOOST_TEST(answer(again, command::extend, 2, other, 3s) == "heal 2");
}

BOOST_AUTO_TEST_CASE(a_permit_is_lost_where_a_majority_has_another_slot_or_none) {
    auto m = holding();
    m.extend(at(3s), of("012"));
    BOOST_TEST(answer(m, command::extend, 0, other, 3s) == "nothing");
    BOOST_TEST(answer(m, command::extend, 1, no, 3s) == "release 02 lost");
}

//
// Adoption
//

BOOST_AUTO_TEST_CASE(a_permit_that_is_adopted_has_its_slot_from_the_start) {
    machine m(3, ttl, true);
    m.adopt_slot(7);
    BOOST_TEST(m.slot().fixed());
    m.acquire(at(0s), of("012"));
    BOOST_TEST(gives(m, 0, 7) == "nothing");
    BOOST_TEST(answer(m, command::acquire, 1, other) == "nothing");
    BOOST_TEST(gives(m, 2, 7) == "heal 1 won");
}

BOOST_AUTO_TEST_CASE(an_adoption_has_no_second_round) {
    machine m(3, ttl, true);
    m.adopt_slot(7);
    m.acquire(at(0s), of("012"));
    BOOST_TEST(gives(m, 0, 7) == "nothing");
    BOOST_TEST(answer(m, command::acquire, 1, other) == "nothing");
    BOOST_TEST(answer(m, command::acquire, 2, other) == "release 012 contended");
}

BOOST_AUTO_TEST_SUITE_END()
