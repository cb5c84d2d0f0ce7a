// The numbers of tenures and the fences of leases: the arithmetic, the raise round, and the tries
// that can serve a waiter with a fence.
#include <holdfast/options.hpp>

#include "protocol/tenure/fence.hpp"
#include "protocol/tenure/tenure.hpp"
#include "protocol/waiting/wait_queue.hpp"

#include "unit/protocol/tenure/tenures.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string>

using namespace tenures;

namespace {

constexpr std::uint64_t hint = 1'000;

std::string granted(machine& m, unsigned instance, std::uint64_t number,
                    protocol::duration when = 1s) {
    return text(m.answer(command::acquire, 0, instance, yes, at(when), number));
}
std::string not_granted(machine& m, unsigned instance, verdict v) {
    return text(m.answer(command::acquire, 0, instance, v, at(1s)));
}
/// Delivers the answer of `instance` to the last raise.
std::string raised(machine& m, unsigned instance, verdict v = yes, protocol::duration when = 1s) {
    return text(m.answer(command::raise, m.round_number(), instance, v, at(when)));
}

/// A machine that has asked `n` instances for a number.
machine asked(unsigned n) {
    machine m(n, ttl, true);
    m.number_from({.hint = hint});
    BOOST_TEST(text(m.acquire(at(0s), instance_set::first(n))) ==
               "acquire " + text(instance_set::first(n)));
    return m;
}

/// Three instances: 0 has granted 5, and 1 has granted 8. Instance 0 is being raised, and 2 has not
/// answered.
machine raising() {
    auto m = asked(3);
    BOOST_TEST(granted(m, 0, 5) == "nothing");
    BOOST_TEST(granted(m, 1, 8) == "raise 0");
    return m;
}

} // namespace

BOOST_AUTO_TEST_SUITE(fence)

//
// Arithmetic
//

BOOST_AUTO_TEST_CASE(a_hint_has_ten_numbers_for_each_millisecond) {
    BOOST_TEST(protocol::fence_hint(1ms) == 10U);
    BOOST_TEST(protocol::fence_hint(2ms) == 20U);
    BOOST_TEST(protocol::fence_hint(2'199us) == 21U);
    BOOST_TEST(protocol::fence_hint(1'700'000'000'000ms) == 17'000'000'000'000U);
}

BOOST_AUTO_TEST_CASE(a_clock_whose_time_has_no_number_gives_no_hint) {
    constexpr std::int64_t end = 9'007'199'254'740'900; // in microseconds, the year 2255
    for (auto const us : {std::int64_t{0}, std::int64_t{99}, std::int64_t{-1},
                          std::numeric_limits<std::int64_t>::min(), end,
                          std::numeric_limits<std::int64_t>::max()}) {
        BOOST_TEST_CONTEXT(us)
        BOOST_TEST(protocol::fence_hint(std::chrono::microseconds(us)) == 0U);
    }
    auto const last = protocol::fence_hint(std::chrono::microseconds(end - 1));
    BOOST_TEST(last == protocol::fence_limit - 1);
    BOOST_TEST(protocol::is_fence_count(last));
}

BOOST_AUTO_TEST_CASE(an_instance_counts_from_one_to_below_the_limit) {
    constexpr auto limit = (std::uint64_t{1} << 53) / 100;
    BOOST_TEST(!protocol::is_fence_count(0));
    BOOST_TEST(protocol::is_fence_count(1));
    BOOST_TEST(protocol::is_fence_count(limit - 1));
    BOOST_TEST(!protocol::is_fence_count(limit));
    BOOST_TEST(!protocol::is_fence_count(std::numeric_limits<std::uint64_t>::max()));
}

BOOST_AUTO_TEST_CASE(fences_grow_with_handovers_and_more_with_tenures) {
    BOOST_TEST(protocol::fence_of(1, 0) == 100U);
    BOOST_TEST(protocol::fence_of(1, 1) == 101U);
    BOOST_TEST(protocol::fence_of(7, 99) + 1 == protocol::fence_of(8, 0));
    static_assert(holdfast::max_handover_limit == protocol::exclusive_leases_per_number);
}

BOOST_AUTO_TEST_CASE(a_floating_point_number_represents_each_fence) {
    auto const greatest = protocol::fence_of(protocol::fence_limit - 1, 99);
    constexpr auto exact = std::uint64_t{1} << std::numeric_limits<double>::digits;
    BOOST_TEST(greatest < exact);
    BOOST_TEST(static_cast<double>(greatest) != static_cast<double>(greatest - 1));
    using namespace std::chrono;
    auto const year_2200 =
        duration_cast<milliseconds>((sys_days(2200y / 1 / 1)).time_since_epoch());
    BOOST_TEST(protocol::fence_hint(year_2200) != 0U);
}

//
// A tenure's number
//

BOOST_AUTO_TEST_CASE(a_tenure_without_a_fence_takes_no_numbers) {
    machine m(3, ttl, true);
    BOOST_TEST(!m.fenced());
    m.acquire(at(0s), instance_set::first(3));
    BOOST_TEST(granted(m, 0, 5) == "nothing");
    BOOST_TEST(granted(m, 1, 8) == "won");
    BOOST_TEST(m.number() == 0U);
}

BOOST_AUTO_TEST_CASE(the_first_are_asked_for_the_hint) {
    auto const m = asked(3);
    BOOST_TEST(m.fenced());
    BOOST_TEST(m.numbering().for_command(command::acquire) == hint);
    BOOST_TEST(m.numbering().for_command(command::contend) == hint);
}

// Otherwise an instance that has forgotten its counter would give the arbiter's number, which may
// be too small.
BOOST_AUTO_TEST_CASE(a_hint_that_the_arbiter_did_not_believe_is_given_to_the_others) {
    machine m(3, ttl, true);
    m.number_from({.hint = hint});
    m.contend(at(0s), 1);
    m.answer(command::contend, 0, 1, yes, at(1s), 5);
    m.ask_rest(at(1s), instance_set::first(3));
    BOOST_TEST(m.number() == 5U);
    BOOST_TEST(m.numbering().for_command(command::acquire) == hint);
    BOOST_TEST(m.numbering().for_command(command::heal) == hint);
    BOOST_TEST(granted(m, 0, hint) == "raise 1");
    BOOST_TEST(m.numbering().for_command(command::raise) == hint);
}

BOOST_AUTO_TEST_CASE(a_quorum_that_gives_one_number_wins_at_once) {
    for (auto const number : {hint, hint + 7, hint - 7}) {
        auto m = asked(3);
        BOOST_TEST(granted(m, 2, number) == "nothing");
        BOOST_TEST(granted(m, 0, number) == "won");
        BOOST_TEST(m.number() == number);
        BOOST_TEST(m.round_number() == 0U);
        // A late grant of another number changes nothing.
        BOOST_TEST(granted(m, 1, number + 1) == "nothing");
        BOOST_TEST(m.number() == number);
    }
}

BOOST_AUTO_TEST_CASE(the_hint_itself_is_no_number_that_anybody_holds) {
    auto m = asked(3);
    BOOST_TEST(granted(m, 0, 5) == "nothing");
    BOOST_TEST(m.number() == 5U);
    BOOST_TEST(granted(m, 1, 5) == "won");
    BOOST_TEST(m.number() == 5U);
}

BOOST_AUTO_TEST_CASE(who_gave_less_is_raised_before_the_win) {
    auto m = raising();
    BOOST_TEST((m.phase() == phase::acquiring));
    BOOST_TEST(m.number() == 8U);
    BOOST_TEST(m.round_number() == 1U);
    BOOST_TEST(raised(m, 0) == "won");
    BOOST_TEST(m.number() == 8U);
}

BOOST_AUTO_TEST_CASE(the_order_of_the_grants_does_not_matter) {
    auto m = asked(3);
    BOOST_TEST(granted(m, 0, 8) == "nothing");
    BOOST_TEST(granted(m, 1, 5) == "raise 1");
    BOOST_TEST(m.number() == 8U);
    BOOST_TEST(raised(m, 1) == "won");
}

BOOST_AUTO_TEST_CASE(only_those_behind_are_raised) {
    auto m = asked(5);
    granted(m, 3, 8);
    granted(m, 1, 5);
    BOOST_TEST(granted(m, 4, 6) == "raise 14");
    BOOST_TEST(raised(m, 4) == "nothing"); // only 3 and 4 have the number, a quorum is three
    BOOST_TEST(raised(m, 1) == "won");
}

BOOST_AUTO_TEST_CASE(a_raise_that_is_answered_twice_counts_once) {
    auto m = asked(5);
    granted(m, 3, 8);
    granted(m, 1, 5);
    granted(m, 4, 6);
    BOOST_TEST(raised(m, 4) == "nothing");
    BOOST_TEST(raised(m, 4) == "nothing");
    BOOST_TEST((m.phase() == phase::acquiring));
}

BOOST_AUTO_TEST_CASE(a_late_grant_of_the_same_number_makes_the_quorum) {
    auto m = raising();
    BOOST_TEST(granted(m, 2, 8) == "won");
    BOOST_TEST(m.number() == 8U);
    // The answer to the earlier raise has no effect.
    BOOST_TEST(raised(m, 0) == "nothing");
    BOOST_TEST((m.phase() == phase::held));
}

BOOST_AUTO_TEST_CASE(a_late_grant_of_a_smaller_number_is_raised_alone) {
    auto m = raising();
    BOOST_TEST(granted(m, 2, 7) == "raise 2");
    BOOST_TEST(m.round_number() == 1U); // the raise of 0 goes on
    BOOST_TEST(m.number() == 8U);
    auto other = m;
    BOOST_TEST(raised(m, 2) == "won");
    BOOST_TEST(raised(other, 0) == "won");
}

BOOST_AUTO_TEST_CASE(a_late_grant_of_a_greater_number_raises_all_others_anew) {
    auto m = raising();
    BOOST_TEST(granted(m, 2, 9) == "raise 01");
    BOOST_TEST(m.number() == 9U);
    BOOST_TEST(m.round_number() == 2U);
    BOOST_TEST(raised(m, 1) == "won");
    BOOST_TEST(m.number() == 9U);
}

BOOST_AUTO_TEST_CASE(an_instance_where_another_has_counted_to_the_number_counts_as_the_others) {
    auto m = raising();
    BOOST_TEST(raised(m, 0, verdict::rival) == "nothing");
    BOOST_TEST(granted(m, 2, 8) == "won"); // 1 and 2 gave the number themselves
    // The key may still be there.
    BOOST_TEST(m.maybe_held().contains(0));
    auto alone = raising();
    BOOST_TEST(not_granted(alone, 2, no) == "nothing");
    BOOST_TEST(raised(alone, 0, verdict::rival) == "release 01 contended");
}

BOOST_AUTO_TEST_CASE(how_an_instance_is_to_count_concerns_an_acquire_alone) {
    machine m(3, ttl, true);
    m.number_from({.hint = 5, .how = protocol::counting::known});
    BOOST_TEST((m.numbering().counting_for(command::acquire) == protocol::counting::known));
    for (auto const c : {command::contend, command::heal, command::raise, command::extend})
        BOOST_TEST((m.numbering().counting_for(c) == protocol::counting::by_script));
    BOOST_TEST((m.numbering().plan().hint == 5U));
    BOOST_TEST((m.numbering().plan().how == protocol::counting::known));
}

BOOST_AUTO_TEST_CASE(a_yes_to_an_earlier_raise_does_not_count) {
    auto m = raising();
    BOOST_TEST(granted(m, 2, 9) == "raise 01");
    BOOST_TEST(text(m.answer(command::raise, 1, 0, yes, at(1s))) == "nothing");
    BOOST_TEST((m.phase() == phase::acquiring));
    BOOST_TEST(text(m.answer(command::raise, 2, 0, yes, at(1s))) == "won");
}

BOOST_AUTO_TEST_CASE(a_no_to_an_earlier_raise_counts) {
    auto m = raising();
    granted(m, 2, 9);
    // Instance 0 has lost the key, so its no counts in every round.
    BOOST_TEST(text(m.answer(command::raise, 1, 0, no, at(1s))) == "nothing");
    BOOST_TEST(text(m.answer(command::raise, 2, 0, yes, at(1s))) == "nothing");
    BOOST_TEST((m.phase() == phase::acquiring));
    BOOST_TEST(raised(m, 1) == "won");
}

BOOST_AUTO_TEST_CASE(each_greater_grant_takes_what_the_others_had_reached) {
    auto m = asked(5);
    granted(m, 0, 5);
    granted(m, 1, 6);
    BOOST_TEST(granted(m, 2, 7) == "raise 01");
    BOOST_TEST(raised(m, 0) == "nothing");
    BOOST_TEST(granted(m, 3, 8) == "raise 012"); // also 0, which was raised to 7 only
    BOOST_TEST(raised(m, 0) == "nothing");
    BOOST_TEST(granted(m, 4, 9) == "raise 0123");
    BOOST_TEST(m.round_number() == 3U);
    BOOST_TEST(raised(m, 0) == "nothing");
    BOOST_TEST(raised(m, 1) == "won");
    BOOST_TEST(m.number() == 9U);
}

BOOST_AUTO_TEST_CASE(a_raise_that_fails_takes_the_grant_back) {
    struct {
        verdict v;
        std::string_view comes_out; ///< the result if instance 2 refused
        std::string_view maybe_held;
    } const rows[] = {{no, "release 1 contended", "1"},
                      {unsent, "release 01 contended", "01"},
                      {unknown, "release 01 contended", "01"},
                      {refused, "release 01 contended", "01"}};
    for (auto const& row : rows) {
        BOOST_TEST_CONTEXT("verdict " << static_cast<int>(row.v)) {
            auto m = raising();
            not_granted(m, 2, no);
            BOOST_TEST(raised(m, 0, row.v) == row.comes_out);
            BOOST_TEST((m.phase() == phase::over));
            BOOST_TEST(text(m.maybe_held()) == row.maybe_held);
            BOOST_TEST(!m.votes().yes().contains(0));
        }
    }
}

BOOST_AUTO_TEST_CASE(too_few_answers_to_raises_and_acquires_are_no_quorum) {
    for (auto const v : {unsent, unknown, refused}) {
        auto m = raising();
        BOOST_TEST(not_granted(m, 2, unknown) == "nothing");
        BOOST_TEST(raised(m, 0, v) == "release 012 no_quorum");
    }
    // A no counts as an answer.
    auto m = raising();
    not_granted(m, 2, unknown);
    BOOST_TEST(raised(m, 0, no) == "release 12 contended");
}

BOOST_AUTO_TEST_CASE(after_a_raise_that_failed_a_late_grant_makes_it_possible_again) {
    for (auto const v : {no, unsent, unknown, refused}) {
        BOOST_TEST_CONTEXT("verdict " << static_cast<int>(v)) {
            auto m = raising();
            BOOST_TEST(raised(m, 0, v) == "nothing"); // instance 2 may still grant the key
            BOOST_TEST((m.phase() == phase::acquiring));
            BOOST_TEST(!m.votes().won());
            auto equal = m;
            BOOST_TEST(granted(equal, 2, 8) == "won");
            auto smaller = m;
            BOOST_TEST(granted(smaller, 2, 7) == "raise 2");
            BOOST_TEST(raised(smaller, 2) == "won");
            auto greater = m;
            BOOST_TEST(granted(greater, 2, 9) == "raise 1"); // instance 0 no longer votes for us
            BOOST_TEST(raised(greater, 1) == "won");
            BOOST_TEST(greater.number() == 9U);
        }
    }
}

BOOST_AUTO_TEST_CASE(who_could_not_be_raised_does_not_count_when_he_says_yes_later) {
    auto m = asked(5);
    granted(m, 0, 5);
    granted(m, 1, 6);
    BOOST_TEST(granted(m, 2, 8) == "raise 01");
    BOOST_TEST(raised(m, 0, unknown) == "nothing");
    BOOST_TEST(raised(m, 1) == "nothing");
    BOOST_TEST(raised(m, 0, yes) == "nothing");
    BOOST_TEST((m.phase() == phase::acquiring));
    BOOST_TEST(granted(m, 3, 8) == "won");
}

BOOST_AUTO_TEST_CASE(who_was_not_asked_cannot_be_raised) {
    machine m(3, ttl, true);
    m.number_from({.hint = hint});
    auto pair = instance_set::first(2);
    BOOST_TEST(text(m.acquire(at(0s), pair)) == "acquire 01");
    granted(m, 0, 5);
    BOOST_TEST(granted(m, 1, 8) == "raise 0");
    BOOST_TEST(raised(m, 2) == "nothing");
    BOOST_TEST((m.phase() == phase::acquiring));
    BOOST_TEST(raised(m, 0) == "won");
}

BOOST_AUTO_TEST_CASE(a_refusal_while_others_are_raised_does_not_end_what_can_still_be_won) {
    auto m = raising();
    BOOST_TEST(not_granted(m, 2, no) == "nothing");
    BOOST_TEST(raised(m, 0) == "won");
}

//
// One, two and four instances
//

BOOST_AUTO_TEST_CASE(a_single_instance_needs_no_raise) {
    auto m = asked(1);
    BOOST_TEST(granted(m, 0, 5) == "won");
    BOOST_TEST(m.number() == 5U);
}

BOOST_AUTO_TEST_CASE(of_two_both_must_hold_the_number) {
    auto m = asked(2);
    BOOST_TEST(granted(m, 0, 5) == "nothing");
    BOOST_TEST(granted(m, 1, 8) == "raise 0");
    auto lost = m;
    BOOST_TEST(raised(m, 0) == "won");
    BOOST_TEST(raised(lost, 0, no) == "release 1 contended");
}

BOOST_AUTO_TEST_CASE(of_four_three_must_hold_the_number) {
    auto m = asked(4);
    BOOST_TEST(granted(m, 0, 8) == "nothing");
    BOOST_TEST(granted(m, 1, 8) == "nothing");
    BOOST_TEST(granted(m, 2, 5) == "raise 2");
    auto lost = m;
    BOOST_TEST(raised(m, 2) == "won");
    BOOST_TEST(not_granted(lost, 3, no) == "nothing");
    BOOST_TEST(raised(lost, 2, no) == "release 01 contended");
}

//
// After the arbiter
//

BOOST_AUTO_TEST_CASE(the_others_are_asked_for_the_arbiters_number) {
    machine m(3, ttl, true);
    m.number_from({.hint = hint});
    BOOST_TEST(text(m.contend(at(0s), 1)) == "contend 1");
    BOOST_TEST(m.numbering().for_command(command::contend) == hint);
    BOOST_TEST(text(m.answer(command::contend, 0, 1, yes, at(1s), hint + 3)) == "arbiter_won");
    BOOST_TEST(m.number() == hint + 3); // later commands carry this number
    BOOST_TEST(text(m.ask_rest(at(1s), instance_set::first(3))) == "acquire 02");
    BOOST_TEST(granted(m, 0, hint + 3) == "won");
}

BOOST_AUTO_TEST_CASE(an_arbiter_that_is_behind_is_raised) {
    machine m(3, ttl, true);
    m.number_from({.hint = hint});
    m.contend(at(0s), 1);
    m.answer(command::contend, 0, 1, yes, at(1s), 5);
    m.ask_rest(at(1s), instance_set::first(3));
    BOOST_TEST(granted(m, 2, 9) == "raise 1");
    BOOST_TEST(raised(m, 1) == "won");
    BOOST_TEST(m.number() == 9U);
}

BOOST_AUTO_TEST_CASE(an_arbiter_that_is_alone_wins_with_its_number) {
    machine m(1, ttl, true);
    m.number_from({.hint = hint});
    m.contend(at(0s), 0);
    BOOST_TEST(text(m.answer(command::contend, 0, 0, yes, at(1s), 5)) == "arbiter_won");
    BOOST_TEST(text(m.ask_rest(at(1s), instance_set::first(1))) == "won");
    BOOST_TEST(m.number() == 5U);
}

BOOST_AUTO_TEST_CASE(an_arbiter_without_a_fence_gives_no_number) {
    machine m(1, ttl, true);
    m.contend(at(0s), 0);
    m.answer(command::contend, 0, 0, yes, at(1s), 5);
    BOOST_TEST(text(m.ask_rest(at(1s), instance_set::first(1))) == "won");
    BOOST_TEST(m.number() == 0U);
}

//
// The end of a raise
//

BOOST_AUTO_TEST_CASE(a_raise_that_takes_too_long_does_not_win) {
    auto m = raising();
    auto in_time = m;
    BOOST_TEST(raised(in_time, 0, yes, valid - 1ns) == "won");
    BOOST_TEST((in_time.deadline() == at(valid))); // counted from the acquire, not from the raise
    BOOST_TEST(raised(m, 0, yes, valid) == "release 012 expired");
    BOOST_TEST((m.phase() == phase::over));
}

BOOST_AUTO_TEST_CASE(a_late_grant_of_the_same_number_that_takes_too_long_does_not_win) {
    auto m = raising();
    BOOST_TEST(granted(m, 2, 8, valid) == "release 012 expired");
}

BOOST_AUTO_TEST_CASE(time_ends_a_raise_at_the_deadline) {
    auto m = raising();
    BOOST_REQUIRE(m.wake().has_value());
    BOOST_TEST((*m.wake() == at(valid)));
    BOOST_TEST(text(m.time(at(valid - 1ns))) == "nothing");
    BOOST_TEST(text(m.time(at(valid))) == "release 012 expired");
}

BOOST_AUTO_TEST_CASE(cancelling_in_a_raise_releases_everywhere) {
    auto m = raising();
    BOOST_TEST(text(m.cancel()) == "release 012 cancelled");
    BOOST_TEST((m.phase() == phase::over));
    // Later answers have no effect.
    BOOST_TEST(raised(m, 0) == "nothing");
    BOOST_TEST(granted(m, 2, 8) == "nothing");
    BOOST_TEST((m.phase() == phase::over));
    BOOST_TEST(text(m.maybe_held()) == "012");
}

BOOST_AUTO_TEST_CASE(an_instance_that_has_lost_the_key_is_owed_no_release) {
    auto m = asked(5);
    granted(m, 0, 5);
    granted(m, 1, 6);
    granted(m, 2, 8);
    BOOST_TEST(raised(m, 0, no) == "nothing");
    BOOST_TEST(text(m.cancel()) == "release 1234 cancelled");
}

BOOST_AUTO_TEST_CASE(answers_to_raises_move_nothing_once_it_is_held) {
    for (auto const v : {yes, no, unsent, unknown, refused}) {
        auto m = raising();
        BOOST_TEST(granted(m, 2, 8) == "won");
        auto const deadline = m.deadline();
        BOOST_TEST(raised(m, 0, v) == "nothing");
        BOOST_TEST((m.phase() == phase::held));
        BOOST_TEST((m.deadline() == deadline));
        BOOST_TEST(m.number() == 8U);
        BOOST_TEST(text(m.maybe_held()) == (v == no ? "12" : "012"));
    }
}

BOOST_AUTO_TEST_CASE(an_answer_to_a_raise_is_none_to_an_extension) {
    auto m = raising();
    granted(m, 2, 8);
    BOOST_TEST(text(m.extend(at(3s), instance_set::first(3))) == "extend 012");
    BOOST_TEST(m.round_number() == 2U); // extensions and raises share the count
    for (unsigned i = 0; i < 3; ++i) BOOST_TEST(raised(m, i) == "nothing");
    BOOST_TEST(m.extending());
    BOOST_TEST(m.votes().yes().empty());
}

BOOST_AUTO_TEST_CASE(healing_asks_for_the_tenures_number_and_leaves_it) {
    auto m = raising();
    BOOST_TEST(raised(m, 0) == "won");
    m.extend(at(3s), instance_set::first(3));
    auto const extended = [&](unsigned i, verdict v) {
        return text(m.answer(command::extend, m.round_number(), i, v, at(3s)));
    };
    BOOST_TEST(extended(0, yes) == "nothing");
    BOOST_TEST(extended(2, no) == "nothing");
    BOOST_TEST(extended(1, yes) == "heal 2 extended");
    BOOST_TEST(m.number() == 8U);
    // The counter of the instance moves on, but the fence of the lease stays.
    BOOST_TEST(text(m.answer(command::heal, 0, 2, yes, at(3s), 9)) == "nothing");
    BOOST_TEST(m.number() == 8U);
    BOOST_TEST((m.phase() == phase::held));
}

BOOST_AUTO_TEST_CASE(the_clock_is_read_only_when_a_raise_decides) {
    auto m = asked(3);
    unsigned reads = 0;
    auto const clock = [&] {
        ++reads;
        return at(1s);
    };
    m.answer(command::acquire, 0, 0, yes, clock, 5);
    m.answer(command::acquire, 0, 1, yes, clock, 8);
    m.answer(command::acquire, 0, 2, yes, clock, 9);
    m.answer(command::raise, 1, 0, yes, clock);
    BOOST_TEST(reads == 0U);
    m.answer(command::raise, 2, 0, yes, clock);
    BOOST_TEST(reads == 1U);
    BOOST_TEST((m.phase() == phase::held));
}

// A raise is answered at once, or after all grants. In every order the tenure wins, and a quorum
// holds its number.
BOOST_AUTO_TEST_CASE(in_every_order_of_grants_it_wins_with_a_number_that_a_quorum_holds) {
    for (unsigned n = 1; n <= 5; ++n) {
        for (unsigned spread = 1; spread <= 4; ++spread) {
            std::array<unsigned, 5> order{0, 1, 2, 3, 4};
            do {
                for (auto const at_once : {true, false}) {
                    auto m = asked(n);
                    std::array<std::uint64_t, 5> counters{};
                    std::array<instance_set, 8> sent{};
                    auto const instances_with_number = [&] {
                        return std::count_if(counters.begin(), counters.begin() + n,
                                             [&](std::uint64_t c) { return c >= m.number(); });
                    };
                    auto const deliver = [&](std::uint32_t round) {
                        sent[round].for_each([&](unsigned i) {
                            if (round == m.round_number())
                                counters[i] = std::max(counters[i], m.number());
                            m.answer(command::raise, round, i, yes, at(1s));
                        });
                        sent[round] = {};
                    };
                    for (auto const i : order) {
                        if (i >= n) continue;
                        counters[i] = 1 + i % spread;
                        auto const a = m.answer(command::acquire, 0, i, yes, at(1s), counters[i]);
                        sent[m.round_number()] = sent[m.round_number()] | a.raise;
                        if (at_once) deliver(m.round_number());
                        if (m.phase() == phase::held) break;
                    }
                    for (std::uint32_t round = 1; round <= m.round_number(); ++round)
                        deliver(round);
                    BOOST_TEST((m.phase() == phase::held));
                    BOOST_TEST(instances_with_number() >= static_cast<long>(n / 2 + 1));
                }
            } while (std::next_permutation(order.begin(), order.end()));
        }
    }
}

//
// Votes that are taken back
//

BOOST_AUTO_TEST_CASE(a_vote_that_is_taken_back_counts_as_if_it_had_been_so_from_the_start) {
    for (auto const v : {no, unsent, unknown, refused}) {
        protocol::tally changed(3, 2, instance_set::first(3));
        protocol::tally straight(3, 2, instance_set::first(3));
        changed.count(0, yes);
        changed.count(1, yes);
        BOOST_TEST(changed.won());
        changed.retract(0, v);
        straight.count(0, v);
        straight.count(1, yes);
        BOOST_TEST(!changed.won());
        BOOST_TEST((changed.yes() == straight.yes()));
        BOOST_TEST((changed.no() == straight.no()));
        BOOST_TEST((changed.failed() == straight.failed()));
        BOOST_TEST((changed.pending() == straight.pending()));
        BOOST_TEST(!changed.impossible());
        BOOST_TEST(!changed.count(0, yes)); // a retracted vote is final
        changed.count(2, no);
        BOOST_TEST(changed.impossible());
        BOOST_TEST(changed.too_few_answered() == false);
        BOOST_TEST(changed.denied() == (v == no));
    }
}

//
// The waiters that a try or a tenure serves
//

namespace {

struct waiters {
    waiters() {
        for (auto* w : {&a, &b}) w->set_ttl(ttl);
    }
    ~waiters() { q.abandon(); }

    protocol::queue_effect next() { return q.next(at(1s), instance_set::first(3)).effect; }

    /// The try or the tenure is for `a`. The next waiter is `b`.
    void trying() {
        BOOST_REQUIRE(q.join(a));
        BOOST_REQUIRE(next() == protocol::queue_effect::try_all);
        q.try_begun(at(0s));
        BOOST_REQUIRE(q.join(b));
    }

    protocol::waiter a, b;
    protocol::wait_queue q{3};
};

} // namespace

BOOST_AUTO_TEST_CASE(a_try_is_inherited_by_who_wants_no_more_than_it_gives) {
    for (auto const made_for_fence : {false, true}) {
        for (auto const wants_fence : {false, true}) {
            waiters w;
            w.a.fenced = made_for_fence;
            w.b.fenced = wants_fence;
            w.trying();
            w.q.leave(w.a);
            if (wants_fence && !made_for_fence) {
                BOOST_TEST((w.next() == protocol::queue_effect::cancel_try));
                BOOST_TEST(
                    (w.next() == protocol::queue_effect::try_all)); // the new try asks for a fence
            } else {
                BOOST_TEST((w.next() == protocol::queue_effect::none));
                BOOST_TEST(&w.q.won(at(1s)) == &w.b);
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(a_tenure_without_a_fence_is_not_handed_to_who_wants_one) {
    for (auto const has_fence : {false, true}) {
        for (auto const wants_fence : {false, true}) {
            waiters w;
            w.a.fenced = has_fence;
            w.b.fenced = wants_fence;
            w.trying();
            w.q.won(at(1s));
            BOOST_TEST(w.q.hands_over(at(1s), ttl, ttl, 64, 50ms) == (has_fence || !wants_fence));
        }
    }
}

BOOST_AUTO_TEST_CASE(a_tenure_counts_its_handovers_from_none) {
    waiters w;
    w.trying();
    w.q.won(at(1s));
    BOOST_TEST(w.q.handovers() == 0U);
    w.q.hand_over();
    BOOST_TEST(w.q.handovers() == 1U);
    BOOST_REQUIRE(w.q.join(w.a));
    w.q.hand_over();
    BOOST_TEST(w.q.handovers() == 2U);
    w.q.released(at(1s));
    BOOST_REQUIRE(w.q.join(w.a));
    BOOST_REQUIRE(
        (w.q.next(at(10s), instance_set::first(3)).effect == protocol::queue_effect::try_all));
    w.q.try_begun(at(10s));
    w.q.won(at(11s));
    BOOST_TEST(w.q.handovers() == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
