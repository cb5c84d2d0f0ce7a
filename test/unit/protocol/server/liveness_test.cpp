// The liveness of an instance: each transition at its limit, and one tick before it.
#include "protocol/server/liveness.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>

using namespace holdfast::protocol;
using namespace std::chrono_literals;

namespace {

using state = holdfast::protocol::liveness::state;
using action = holdfast::protocol::liveness::action;

constexpr duration limit = 80ms;
constexpr duration interval = 1'250ms; // between checks of an instance without outstanding answers
constexpr duration reading = 1ms;
constexpr duration tick{1};
constexpr time_point t0{1h};

/// An instance that was probed at t0, and has answered every command.
holdfast::protocol::liveness up() {
    holdfast::protocol::liveness l(limit);
    l.start(t0);
    l.probing(t0);
    l.probed(t0);
    l.finished(t0, false);
    BOOST_REQUIRE((l.check(l.next_check()) == action::none));
    return l;
}

/// A suspect instance that was sent a batch at t0.
holdfast::protocol::liveness suspect() {
    auto l = up();
    l.sent(t0);
    BOOST_REQUIRE((l.check(t0 + limit) == action::none));
    BOOST_REQUIRE((l.check(t0 + limit + reading) == action::suspect));
    return l;
}

} // namespace

BOOST_AUTO_TEST_SUITE(liveness)

BOOST_AUTO_TEST_CASE(it_begins_as_connecting_and_can_be_asked) {
    holdfast::protocol::liveness l(limit);
    BOOST_TEST((l.current() == state::connecting));
    BOOST_TEST(l.available());
    BOOST_TEST(!l.is_probed());
    BOOST_TEST((l.up_for(t0) == 0ns));
    l.start(t0);
    BOOST_TEST((l.next_check() == t0 + limit));
    holdfast::protocol::liveness patient(10s);
    patient.start(t0);
    BOOST_TEST((patient.next_check() == t0 + interval));
}

BOOST_AUTO_TEST_CASE(an_answered_probe_makes_it_up) {
    holdfast::protocol::liveness l(limit);
    l.start(t0);
    l.probing(t0);
    BOOST_TEST((l.current() == state::connecting));
    l.probed(t0 + 5ms);
    BOOST_TEST((l.current() == state::up));
    BOOST_TEST(l.available());
    BOOST_TEST(l.is_probed());
    BOOST_TEST((l.up_for(t0 + 7ms) == 2ms));
}

BOOST_AUTO_TEST_CASE(a_lost_connection_makes_it_down_until_the_next_is_probed) {
    auto l = up();
    l.sent(t0);
    l.lost();
    BOOST_TEST((l.current() == state::down));
    BOOST_TEST(!l.available());
    BOOST_TEST(!l.is_probed());
    BOOST_TEST((l.up_for(t0 + 1s) == 0ns));
    // No answer is outstanding any more.
    BOOST_TEST((l.check(t0 + 10s) == action::none));
    BOOST_TEST((l.check(t0 + 20s) == action::none));
    l.probing(t0 + 21s);
    BOOST_TEST((l.current() == state::down));
    l.probed(t0 + 21s);
    BOOST_TEST((l.current() == state::up));
}

BOOST_AUTO_TEST_CASE(a_first_connection_that_fails_makes_it_down) {
    holdfast::protocol::liveness l(limit);
    l.start(t0);
    l.lost();
    BOOST_TEST((l.current() == state::down));
}

BOOST_AUTO_TEST_CASE(a_suspect_whose_connection_is_lost_is_down) {
    auto l = suspect();
    l.lost();
    BOOST_TEST((l.current() == state::down));
    BOOST_TEST(!l.answered(t0 + limit));
    BOOST_TEST(!l.finished(t0 + limit, false));
    BOOST_TEST((l.current() == state::down));
}

BOOST_AUTO_TEST_CASE(
    an_answer_that_is_overdue_is_looked_for_a_second_time_before_it_makes_suspect) {
    auto l = up();
    l.sent(t0);
    BOOST_TEST(l.needs_earlier_check());
    BOOST_TEST((l.next_check() == t0 + limit));
    BOOST_TEST(!l.needs_earlier_check());
    BOOST_TEST((l.check(t0 + limit) == action::none));
    BOOST_TEST((l.next_check() == t0 + limit + reading));
    BOOST_TEST((l.current() == state::up));
    // No event brings the second check forward.
    BOOST_TEST(!l.needs_earlier_check());
    l.check_by(t0 + limit);
    BOOST_TEST((l.next_check() == t0 + limit + reading));
    BOOST_TEST((l.check(t0 + limit + reading) == action::suspect));
    BOOST_TEST((l.current() == state::suspect));
    BOOST_TEST(!l.available());
    BOOST_TEST(l.is_probed());
}

BOOST_AUTO_TEST_CASE(a_tick_before_the_limit_nothing_is_overdue) {
    auto l = up();
    l.sent(t0);
    BOOST_TEST((l.check(t0 + limit - tick) == action::none));
    BOOST_TEST((l.next_check() == t0 + limit));
    // The early check did not count as the first one.
    BOOST_TEST((l.check(t0 + limit) == action::none));
    BOOST_TEST((l.current() == state::up));
}

BOOST_AUTO_TEST_CASE(a_batch_that_follows_another_is_waited_for_from_when_it_is_the_first) {
    auto l = up();
    l.sent(t0);
    l.sent(t0 + 50ms); // the first batch decides when the check is due
    BOOST_TEST((l.check(t0 + limit) == action::none));
    BOOST_TEST((l.next_check() == t0 + limit + reading));
    BOOST_TEST(!l.finished(t0 + limit, true));
    BOOST_TEST((l.check(t0 + limit + reading) == action::none));
    BOOST_TEST((l.next_check() == t0 + 2 * limit));
    BOOST_TEST((l.check(t0 + 2 * limit) == action::none));
    BOOST_TEST((l.check(t0 + 2 * limit + reading) == action::suspect));
}

BOOST_AUTO_TEST_CASE(what_comes_before_the_second_check_is_no_silence) {
    auto l = up();
    l.sent(t0);
    BOOST_TEST((l.check(t0 + limit) == action::none));
    BOOST_TEST(!l.answered(t0 + limit));
    BOOST_TEST((l.check(t0 + limit + reading) == action::none));
    BOOST_TEST((l.current() == state::up));
    // The silence is counted from the check that saw the answer. But the age limit of the batch,
    // two limits, comes first.
    BOOST_TEST((l.next_check() == t0 + 2 * limit));
}

BOOST_AUTO_TEST_CASE(what_is_sent_between_the_looks_gets_a_second_check_of_its_own) {
    auto l = up();
    l.sent(t0);
    // The process was stopped, so the second check is due later than a limit after the first.
    auto const first = t0 + 10 * limit;
    BOOST_TEST(l.needs_earlier_check());
    BOOST_TEST((l.check(first) == action::none));
    auto const second = first + limit + reading;
    BOOST_TEST((l.next_check() == second));
    BOOST_TEST(!l.finished(first, false));
    l.sent(first);
    BOOST_TEST(l.needs_earlier_check());
    BOOST_TEST((l.next_check() == first + limit));
    BOOST_TEST((l.check(second) == action::none));
    BOOST_TEST((l.current() == state::up));
    BOOST_TEST((l.check(l.next_check()) == action::suspect));
}

BOOST_AUTO_TEST_CASE(a_look_that_comes_late_gives_more_time) {
    struct {
        duration late, grace;
    } const table[] = {
        {0ns, reading},
        {reading, reading},
        {reading + tick, limit / 8 + reading},
        {limit / 8 + reading, limit / 8 + reading},
        {limit / 8 + reading + tick, limit / 8 + reading + tick},
        {limit + reading - tick, limit + reading - tick},
        {limit + reading, limit + reading},
        {limit + reading + tick, limit + reading},
        {limit * 3 / 2, limit + reading},
    };
    for (auto const& row : table) {
        BOOST_TEST_CONTEXT("late by " << row.late.count() << " ns") {
            auto l = up();
            l.sent(t0);
            BOOST_TEST(l.needs_earlier_check());
            auto const now = t0 + limit + row.late;
            BOOST_TEST((l.check(now) == action::none));
            BOOST_TEST((l.next_check() == now + row.grace));
            BOOST_TEST((l.check(now + row.grace) == action::suspect));
        }
    }
}

BOOST_AUTO_TEST_CASE(after_four_limits_in_which_nothing_was_read_it_is_given_up_at_once) {
    auto l = up();
    l.sent(t0);
    BOOST_TEST(l.needs_earlier_check());
    BOOST_TEST((l.check(t0 + 1h) == action::none));
    BOOST_TEST((l.next_check() == t0 + 1h + limit + reading));
    BOOST_TEST((l.check(t0 + 1h + limit + reading) == action::give_up));
}

BOOST_AUTO_TEST_CASE(replies_show_that_it_works_on_a_long_batch) {
    auto l = up();
    l.sent(t0);
    BOOST_TEST(!l.answered(t0 + 1ms));
    BOOST_TEST((l.check(t0 + limit) == action::none));
    BOOST_TEST((l.next_check() == t0 + 2 * limit));
    BOOST_TEST(!l.answered(t0 + limit + 1ms));
    BOOST_TEST((l.check(t0 + 2 * limit - tick) == action::none));
    BOOST_TEST((l.next_check() == t0 + 2 * limit));
    BOOST_TEST((l.current() == state::up));
}

BOOST_AUTO_TEST_CASE(a_batch_that_takes_two_limits_trickles_and_makes_suspect) {
    auto l = up();
    l.sent(t0);
    BOOST_TEST(!l.answered(t0 + limit));
    BOOST_TEST((l.check(t0 + limit) == action::none));
    BOOST_TEST(!l.answered(t0 + 2 * limit));
    BOOST_TEST((l.check(t0 + 2 * limit) == action::none));
    BOOST_TEST((l.next_check() == t0 + 2 * limit + reading));
    BOOST_TEST(!l.answered(t0 + 2 * limit + reading));
    BOOST_TEST((l.check(t0 + 2 * limit + reading) == action::suspect));
    // More replies of the same batch do not end the suspicion. The end of the batch does.
    BOOST_TEST(!l.answered(t0 + 2 * limit + reading));
    BOOST_TEST(l.finished(t0 + 3 * limit, true));
    BOOST_TEST((l.current() == state::up));
}

BOOST_AUTO_TEST_CASE(time_in_which_nobody_looked_is_no_trickling) {
    auto l = up();
    l.sent(t0);
    BOOST_TEST(l.needs_earlier_check());
    BOOST_TEST((l.next_check() == t0 + limit));
    // The process is stopped for eight limits. Then one reply is there, and the others follow.
    auto const awake = t0 + 9 * limit;
    BOOST_TEST((l.check(awake) == action::none));
    BOOST_TEST(!l.answered(awake));
    auto const second = l.next_check();
    BOOST_TEST(
        (l.check(second) == action::suspect)); // one limit before the stop, and another after it
    BOOST_TEST(l.finished(second, false));
    BOOST_TEST((l.current() == state::up));
    // Only the missed time is forgiven.
    l.sent(second);
    BOOST_TEST(!l.answered(second + 2 * limit));
    BOOST_TEST((l.check(second + 2 * limit) == action::none));
    BOOST_TEST(!l.answered(second + 2 * limit));
    BOOST_TEST((l.check(l.next_check()) == action::suspect));
}

BOOST_AUTO_TEST_CASE(a_suspect_that_answers_within_two_limits_comes_back) {
    auto l = suspect();
    BOOST_TEST(l.answered(t0 + 2 * limit - tick));
    BOOST_TEST((l.current() == state::up));
    BOOST_TEST(!l.answered(t0 + 2 * limit - tick)); // the instance is up already
    l = suspect();
    BOOST_TEST(!l.answered(t0 + 2 * limit));
    BOOST_TEST((l.current() == state::suspect));
    BOOST_TEST(l.finished(t0 + 3 * limit, false));
    BOOST_TEST((l.current() == state::up));
    BOOST_TEST(!l.finished(t0 + 3 * limit, false));
}

BOOST_AUTO_TEST_CASE(one_that_came_back_is_watched_as_before) {
    auto l = suspect();
    BOOST_TEST(l.answered(t0 + 2 * limit - 10ms));
    BOOST_TEST(l.needs_earlier_check());
    // Its batch then reaches the age limit. This check is not late, so there is no extra time.
    BOOST_TEST((l.next_check() == t0 + 2 * limit));
    l = suspect();
    BOOST_TEST(l.answered(t0 + limit + 5ms));
    BOOST_TEST(l.needs_earlier_check());
    BOOST_TEST((l.next_check() == t0 + 2 * limit));
    BOOST_TEST((l.check(t0 + 2 * limit) == action::none));
    BOOST_TEST((l.check(t0 + 2 * limit + reading) == action::suspect));
}

BOOST_AUTO_TEST_CASE(a_suspect_is_given_up_after_four_limits) {
    auto l = suspect();
    BOOST_TEST((l.next_check() == t0 + 4 * limit));
    BOOST_TEST((l.check(t0 + 4 * limit) == action::none));
    BOOST_TEST((l.next_check() == t0 + 4 * limit + reading));
    BOOST_TEST((l.check(t0 + 4 * limit + reading) == action::give_up));
    // The instance stays suspect until a tick before four limits have passed at the second check.
    l = suspect();
    BOOST_TEST((l.check(t0 + 4 * limit - reading) == action::none));
    BOOST_TEST((l.check(t0 + 4 * limit) == action::give_up));
    l = suspect();
    BOOST_TEST((l.check(t0 + 4 * limit - reading - tick) == action::none));
    BOOST_TEST((l.check(t0 + 4 * limit - tick) == action::none));
    BOOST_TEST((l.current() == state::suspect));
    BOOST_TEST((l.next_check() == t0 + 4 * limit));
}

BOOST_AUTO_TEST_CASE(a_suspect_that_trickles_is_given_up_after_five_limits) {
    auto l = suspect();
    for (auto n = 20; n <= 49; ++n) {
        auto const now = t0 + n * limit / 10;
        BOOST_TEST(!l.answered(now));
        if (now >= l.next_check()) BOOST_TEST((l.check(now) == action::none));
    }
    BOOST_TEST((l.next_check() == t0 + 5 * limit));
    BOOST_TEST((l.check(t0 + 5 * limit) == action::none));
    BOOST_TEST(!l.answered(t0 + 5 * limit));
    BOOST_TEST((l.check(t0 + 5 * limit + reading) == action::give_up));
}

// The turns of other instances check this one too.
BOOST_AUTO_TEST_CASE(a_suspect_is_not_looked_at_earlier_for_what_made_it_one) {
    auto l = suspect();
    BOOST_TEST(!l.needs_earlier_check());
    BOOST_TEST((l.next_check() == t0 + 4 * limit));
}

BOOST_AUTO_TEST_CASE(a_probe_that_is_not_answered_in_time_gives_the_connection_up) {
    for (auto const first : {true, false}) {
        holdfast::protocol::liveness l(limit);
        l.start(t0);
        if (!first) l.lost();
        l.probing(t0);
        l.needs_earlier_check();
        BOOST_TEST((l.check(t0 + limit - tick) == action::none));
        BOOST_TEST((l.check(t0 + limit) == action::none));
        BOOST_TEST((l.check(t0 + limit + reading) == action::give_up));
    }
}

BOOST_AUTO_TEST_CASE(a_probe_whose_answers_trickle_is_given_up_after_two_limits) {
    holdfast::protocol::liveness l(limit);
    l.start(t0);
    l.probing(t0);
    BOOST_TEST(!l.answered(t0 + limit));
    BOOST_TEST((l.check(t0 + limit) == action::none));
    BOOST_TEST(!l.answered(t0 + 2 * limit));
    BOOST_TEST((l.check(t0 + 2 * limit) == action::none));
    BOOST_TEST((l.check(t0 + 2 * limit + reading) == action::give_up));
}

BOOST_AUTO_TEST_CASE(what_waits_for_the_first_connection_is_failed_after_the_limit) {
    holdfast::protocol::liveness l(limit);
    l.start(t0);
    l.unsent(t0 + 10ms);
    BOOST_TEST(!l.needs_earlier_check());
    BOOST_TEST((l.check(t0 + limit) == action::none));
    BOOST_TEST((l.next_check() == t0 + 10ms + limit));
    l.unsent(t0 + 50ms); // the first command decides when the check is due
    BOOST_TEST((l.check(t0 + 10ms + limit - tick) == action::none));
    BOOST_TEST((l.check(t0 + 10ms + limit) == action::fail_unsent));
    BOOST_TEST((l.current() == state::connecting));
    BOOST_TEST((l.check(t0 + 10ms + 2 * limit) == action::none));
    // Later commands have a time limit of their own.
    l.unsent(t0 + 1s);
    BOOST_TEST(l.needs_earlier_check());
    BOOST_TEST((l.next_check() == t0 + 1s + limit));
    BOOST_TEST((l.check(t0 + 1s + limit) == action::fail_unsent));
}

BOOST_AUTO_TEST_CASE(nothing_is_failed_that_waits_no_more) {
    holdfast::protocol::liveness l(limit);
    l.start(t0);
    l.unsent(t0);
    l.none_unsent();
    BOOST_TEST((l.check(t0 + limit) == action::none));
    l.unsent(t0);
    l.lost(); // the driver fails the commands that wait
    BOOST_TEST(!l.needs_earlier_check());
    BOOST_TEST((l.check(t0 + limit) == action::none));
    BOOST_TEST((l.check(t0 + 10 * limit) == action::none));
}

BOOST_AUTO_TEST_CASE(what_waits_and_the_probe_have_limits_of_their_own) {
    holdfast::protocol::liveness l(limit);
    l.start(t0);
    l.unsent(t0);
    l.probing(t0 + 30ms);
    BOOST_TEST((l.check(t0 + limit) == action::fail_unsent));
    BOOST_TEST((l.next_check() == t0 + 30ms + limit));
    BOOST_TEST((l.check(t0 + 30ms + limit) == action::none));
    BOOST_TEST((l.check(t0 + 30ms + limit + reading) == action::give_up));
}

BOOST_AUTO_TEST_CASE(what_waits_does_not_shorten_the_grace_of_a_late_look) {
    holdfast::protocol::liveness l(limit);
    l.start(t0);
    l.probing(t0);
    // The process was stopped. A command is queued after that.
    auto const first = t0 + limit + 40ms;
    BOOST_TEST((l.check(first) == action::none));
    auto const second = first + 40ms;
    BOOST_TEST((l.next_check() == second));
    l.unsent(t0 + 50ms);
    BOOST_TEST(l.needs_earlier_check());
    BOOST_TEST((l.next_check() == t0 + 50ms + limit));
    BOOST_TEST((l.check(t0 + 50ms + limit) == action::fail_unsent));
    BOOST_TEST((l.next_check() == second));
    BOOST_TEST((l.check(second - tick) == action::none));
    BOOST_TEST((l.next_check() == second));
    BOOST_TEST((l.check(second) == action::give_up));
}

BOOST_AUTO_TEST_CASE(an_idle_instance_is_asked_for_something_after_a_whole_interval) {
    auto l = up(); // checked once
    auto at = l.next_check();
    BOOST_TEST((at == t0 + limit + interval));
    BOOST_TEST((l.check(at) == action::ask));
    // The request repeats each interval until a command is sent.
    BOOST_TEST((l.next_check() == at + interval));
    BOOST_TEST((l.check(at + interval) == action::ask));
    l.sent(at + interval);
    l.finished(at + interval, false);
    BOOST_TEST((l.check(at + 2 * interval) == action::none));
    BOOST_TEST((l.check(at + 3 * interval) == action::ask));
}

BOOST_AUTO_TEST_CASE(one_that_is_not_probed_is_asked_for_nothing) {
    holdfast::protocol::liveness l(limit);
    l.start(t0);
    for (auto n = 0; n < 4; ++n) BOOST_TEST((l.check(l.next_check()) == action::none));
}

BOOST_AUTO_TEST_CASE(a_new_connection_is_not_idle_for_what_the_last_one_was) {
    auto l = up();
    BOOST_TEST((l.check(l.next_check()) == action::ask));
    l.lost();
    auto const now = l.next_check() - 1ms;
    l.probing(now);
    l.probed(now);
    l.finished(now, false);
    BOOST_TEST((l.check(l.next_check()) == action::none));
    BOOST_TEST((l.check(l.next_check()) == action::ask));
}

BOOST_AUTO_TEST_CASE(it_looks_by_when_it_is_told_to) {
    auto l = up();
    auto const at = l.next_check();
    l.check_by(at + tick);
    BOOST_TEST((l.next_check() == at));
    l.check_by(at - tick);
    BOOST_TEST((l.next_check() == at - tick));
}

BOOST_AUTO_TEST_SUITE_END()
