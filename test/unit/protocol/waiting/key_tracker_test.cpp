// Where a waiter is told of its key, beside the arbiter.
#include "protocol/waiting/key_tracker.hpp"

#include "unit/protocol/protocol_values.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <optional>

using namespace holdfast::protocol;
using namespace std::chrono_literals;

namespace {

using holdfast::test::at;

using state = sighting::state;

auto const all = instance_set::first(5);
constexpr unsigned arbiter = 3;

instance_set these(auto... i) {
    return (instance_set::only(static_cast<unsigned>(i)) | ...);
}

/// Of five instances, of which number 3 is the arbiter.
struct fixture {
    fixture() { w.waits(at(0ms), at(0ms), arbiter, 1h); }

    tracking_action next(duration now, instance_set reachable = all) {
        return w.next(at(now), reachable);
    }
    void says(duration now, unsigned i, state is, std::optional<duration> left = std::nullopt,
              bool tracked = true) {
        w.answered(at(now), i, w.round(), {.is = is, .left = left, .tracked = tracked}, 0);
    }
    /// At the arbiter, 4 and 0.
    void tracking(std::optional<duration> left = std::nullopt) {
        BOOST_REQUIRE((next(100ms) == tracking_action::ask));
        BOOST_REQUIRE((w.to_ask() == these(4, 0)));
        says(101ms, 4, state::held, left);
        says(101ms, 0, state::held, left);
        BOOST_REQUIRE((next(101ms) == tracking_action::none));
    }

    /// After tracking(), 4 pushes, and is free, as are 1 and 2 in its place.
    void three_are_free(duration now) {
        w.push(at(now), 4, 0);
        for (auto const i : {4U, 1U, 2U}) {
            BOOST_REQUIRE((next(now + 50ms) == tracking_action::ask));
            BOOST_REQUIRE((w.to_ask() == these(i)));
            says(now + 50ms, i, state::gone);
        }
    }

    basic_key_tracker<tracking_rules> w{5};
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(key_tracker, fixture)

BOOST_AUTO_TEST_CASE(a_short_wait_asks_nobody) {
    BOOST_TEST((w.wake() == at(tracking_rules::settled_after)));
    BOOST_TEST((next(99ms) == tracking_action::none));
    BOOST_TEST(w.idle());
}

BOOST_AUTO_TEST_CASE(each_answer_of_the_arbiter_puts_it_off) {
    w.waits(at(90ms), at(90ms), arbiter, 1h);
    BOOST_TEST((next(100ms) == tracking_action::none));
    BOOST_TEST((next(190ms) == tracking_action::ask));
}

BOOST_AUTO_TEST_CASE(so_many_are_asked_that_every_quorum_has_one_of_them) {
    tracking();
    BOOST_TEST(!w.idle());
    BOOST_TEST((w.wake() == time_point::max()));
}

BOOST_AUTO_TEST_CASE(fewer_are_asked_where_fewer_can_be) {
    BOOST_TEST(
        (next(100ms, these(1, 3, 4)) == tracking_action::none)); // any quorum has the arbiter
    w.check_soon(at(100ms), 0);
    BOOST_TEST((next(200ms, these(0, 1, 3, 4)) == tracking_action::ask));
    BOOST_TEST(w.to_ask().size() == 1U);
    w.check_soon(at(200ms), 0);
    BOOST_TEST((next(300ms, these(0, 1)) == tracking_action::none)); // no quorum
}

BOOST_AUTO_TEST_CASE(a_push_is_followed_by_a_question_after_a_pause) {
    tracking();
    BOOST_TEST(!w.push(at(1s), 1, 7));
    BOOST_TEST(w.push(at(1s), 4, 7));
    BOOST_TEST(!w.push(at(1s), 4, 7)); // it was the one that was to come
    BOOST_TEST((w.wake() >= at(1s) + tracking_rules::least_pause));
    BOOST_TEST((w.wake() <= at(1s) + 2 * tracking_rules::least_pause));
    BOOST_TEST((w.next(w.wake(), all) == tracking_action::ask));
    BOOST_TEST((w.to_ask() == these(4)));
}

BOOST_AUTO_TEST_CASE(one_that_is_free_is_replaced_and_a_free_quorum_is_tried_for) {
    tracking();
    three_are_free(1s);
    BOOST_TEST((next(1051ms) == tracking_action::try_again));
}

BOOST_AUTO_TEST_CASE(who_stands_in_line_waits_until_a_free_quorum_is_nobodys_turn) {
    w.stands_in_line(500ms);
    tracking();
    three_are_free(1s);
    BOOST_TEST((next(1053ms) == tracking_action::none));
    BOOST_TEST((w.wake() == at(1553ms)));
    // One is taken and freed meanwhile: the time begins anew.
    BOOST_TEST(!w.push(at(1400ms), 2, 0));
    w.check_soon(at(1400ms), 0);
    BOOST_REQUIRE((next(1450ms) == tracking_action::ask));
    says(1451ms, 2, state::gone);
    BOOST_TEST((next(1552ms) == tracking_action::none));
    BOOST_TEST((next(2051ms) == tracking_action::none));
    BOOST_TEST((next(2052ms) == tracking_action::try_again));
}

BOOST_AUTO_TEST_CASE(one_that_does_not_answer_is_asked_again_after_the_others) {
    BOOST_REQUIRE((next(100ms) == tracking_action::ask));
    says(101ms, 4, state::unknown);
    says(101ms, 0, state::held);
    BOOST_REQUIRE((next(300ms) == tracking_action::ask));
    BOOST_TEST((w.to_ask() == these(1)));
    says(301ms, 1, state::unknown);
    BOOST_REQUIRE((next(500ms) == tracking_action::ask));
    BOOST_TEST((w.to_ask() == these(2)));
    says(501ms, 2, state::unknown);
    BOOST_REQUIRE((next(700ms) == tracking_action::ask));
    BOOST_TEST((w.to_ask() == these(4)));
    says(701ms, 4, state::held);
    BOOST_TEST((next(701ms) == tracking_action::none));
}

BOOST_AUTO_TEST_CASE(what_is_free_and_is_taken_again_counts_as_free_no_longer) {
    tracking();
    w.push(at(1s), 4, 0);
    BOOST_REQUIRE((next(1050ms) == tracking_action::ask));
    says(1051ms, 4, state::gone);
    BOOST_REQUIRE((next(1051ms) == tracking_action::ask));
    says(1052ms, 1, state::gone);
    BOOST_TEST(!w.push(at(1052ms), 4, 0));
    BOOST_REQUIRE((next(1052ms) == tracking_action::ask));
    BOOST_TEST((w.to_ask() == these(4)));
    says(1053ms, 4, state::held);
    BOOST_TEST((next(1053ms) == tracking_action::none));
}

BOOST_AUTO_TEST_CASE(an_instance_that_comes_back_may_complete_a_quorum) {
    auto const without_1 = all - these(1);
    BOOST_REQUIRE((next(100ms, without_1) == tracking_action::ask));
    BOOST_REQUIRE((w.to_ask() == these(4)));
    says(101ms, 4, state::gone);
    BOOST_REQUIRE((next(101ms, without_1) == tracking_action::ask));
    BOOST_REQUIRE((w.to_ask() == these(0)));
    says(102ms, 0, state::gone);
    BOOST_REQUIRE((next(102ms, without_1) == tracking_action::ask));
    BOOST_REQUIRE((w.to_ask() == these(2)));
    says(103ms, 2, state::held);
    BOOST_REQUIRE((next(103ms, without_1) == tracking_action::none));
    w.check_soon(at(1s), 0);
    BOOST_TEST((next(1025ms) == tracking_action::ask));
    BOOST_TEST((w.to_ask() == these(1)));
    says(1026ms, 1, state::gone);
    BOOST_TEST((next(1026ms) == tracking_action::try_again));
}

BOOST_AUTO_TEST_CASE(a_lost_connection_is_replaced) {
    tracking();
    w.lost(4);
    w.check_soon(at(1s), 0);
    BOOST_TEST(
        (next(1025ms, all - these(4)) == tracking_action::none)); // the arbiter and 0 will do
    w.check_soon(at(2s), 0);
    BOOST_TEST((next(2025ms) == tracking_action::ask)); // it is back
    BOOST_TEST((w.to_ask() == these(4)));
}

BOOST_AUTO_TEST_CASE(what_expires_is_asked_for_again) {
    tracking(500ms);
    BOOST_TEST((w.wake() >= at(601ms)));
    BOOST_TEST((w.next(w.wake(), all) == tracking_action::ask));
    BOOST_TEST((w.to_ask() == these(4, 0)));
}

BOOST_AUTO_TEST_CASE(one_that_cannot_push_is_asked_again_and_again) {
    BOOST_REQUIRE((next(100ms) == tracking_action::ask));
    says(101ms, 4, state::held, std::nullopt, false);
    BOOST_TEST(
        (w.wake() <= at(101ms) + tracking_rules::poll_interval + tracking_rules::least_pause));
}

BOOST_AUTO_TEST_CASE(an_answer_to_a_question_from_before_it_was_forgotten_means_nothing) {
    BOOST_REQUIRE((next(100ms) == tracking_action::ask));
    auto const before = w.round();
    w.forget();
    BOOST_TEST(w.idle());
    w.waits(at(200ms), at(200ms), arbiter, 1h);
    BOOST_REQUIRE((next(300ms) == tracking_action::ask));
    w.answered(at(301ms), 4, before, {.is = state::gone}, 0);
    BOOST_TEST((next(301ms) == tracking_action::none));
    says(302ms, 4, state::held);
    BOOST_TEST(w.push(at(303ms), 4, 0));
}

BOOST_AUTO_TEST_CASE(a_new_arbiter_is_not_tracked_twice) {
    tracking();
    w.waits(at(1s), at(1s), 4, 1h);
    BOOST_TEST(!w.push(at(1s), 4, 0)); // which is the arbiter's
    BOOST_TEST((next(1100ms) == tracking_action::ask));
    BOOST_TEST(w.to_ask().size() == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
