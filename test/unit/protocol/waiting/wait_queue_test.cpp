// Each event in each phase of a wait queue, and each of the decisions of waiting.
#include "protocol/waiting/wait_queue.hpp"

#include "unit/protocol/protocol_values.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

using namespace holdfast::protocol;
using namespace std::chrono_literals;

namespace {

using holdfast::test::at;

constexpr duration retry = 250ms;
constexpr duration ttl = 10s;
constexpr duration round_trip = 1ms;
auto const all = instance_set::first(3);

tally votes(std::array<verdict, 3> said) {
    tally t(3, 2, all);
    for (unsigned i = 0; i < 3; ++i) t.count(i, said[i]);
    return t;
}
auto const held_elsewhere = votes({verdict::no, verdict::no, verdict::yes});
auto const split = votes({verdict::no, verdict::yes, verdict::unknown});

/// A queue, three that may stand in it, and what brings it into each of its phases.
struct fixture {
    fixture() {
        for (auto* w : {&a, &b, &c}) w->set_ttl(ttl);
    }
    ~fixture() { q.abandon(); }

    // Each instance that is asked to track the key has it.
    queue_effect next(time_point now, instance_set reachable = all) {
        for (;;) {
            auto const action = q.next(now, reachable);
            if (action.track.empty()) return action.effect;
            action.track.for_each([&](unsigned i) {
                q.tracked(now, i, q.tracking_round(),
                          {.is = sighting::state::held, .tracked = true}, 0);
            });
        }
    }
    queue_effect next(duration now = 0ms, instance_set reachable = all) {
        return next(at(now), reachable);
    }

    void trying() {
        BOOST_REQUIRE(q.join(a));
        BOOST_REQUIRE(next() == queue_effect::try_all);
        q.try_begun(at(0ms));
    }
    void held() {
        trying();
        BOOST_REQUIRE(&q.won(at(round_trip)) == &a);
    }
    void asking() {
        trying();
        q.contended(at(round_trip), held_elsewhere, retry, 0);
        BOOST_REQUIRE(next(round_trip) == queue_effect::inspect);
    }
    void contending() {
        asking();
        q.inspected(true);
        BOOST_REQUIRE(next(round_trip) == queue_effect::try_arbiter);
        q.try_begun(at(round_trip), 1);
    }
    /// Waits for a push from instance 1.
    void waiting(std::optional<duration> left = 5s, bool tracked = true) {
        contending();
        q.refused(at(2 * round_trip), left, tracked, retry, 0);
        BOOST_REQUIRE(next(2 * round_trip) == queue_effect::none);
        if (tracked)
            BOOST_REQUIRE(next(2 * round_trip + waiting_rules::settled_after) ==
                          queue_effect::none);
    }
    void standing_back() {
        waiting();
        BOOST_REQUIRE(q.push(at(1s), 1, 0));
        BOOST_REQUIRE(next(1100ms) == queue_effect::try_arbiter);
        q.try_begun(at(1100ms), 1);
        BOOST_REQUIRE(&q.won(at(1101ms)) == &a);
        q.released(at(1200ms));
    }

    waiter a, b, c;
    holdfast::protocol::wait_queue q{3};
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(wait_queue, fixture)

// Another program changes the key thousands of times a second, and the server pushes each change.
BOOST_AUTO_TEST_CASE(many_pushes_in_vain_lead_to_few_tries) {
    waiting(60s);
    auto tries = 0;
    for (duration now = 200ms; now < 1200ms; now += 100us) {
        (void)q.push(at(now), 1, 0);
        if (next(now) != queue_effect::try_arbiter) continue;
        q.try_begun(at(now), 1);
        q.refused(at(now + 50us), 60s, true, retry, 0);
        BOOST_REQUIRE(next(now + 50us) == queue_effect::none);
        ++tries;
    }
    BOOST_TEST(tries > 400);
    BOOST_TEST(tries < 600);
}

// The pushes of instance 1 do not arrive: it has promised one, and the key has changed without.
BOOST_AUTO_TEST_CASE(a_change_that_was_not_told_is_known_at_the_next_try) {
    waiting(3s);
    BOOST_TEST((q.take_breach() == breach::none));
    BOOST_REQUIRE(next(3100ms) == queue_effect::try_arbiter);
    q.try_begun(at(3100ms), 1);
    q.refused(at(3101ms), 3s, true, retry, 0); // extended
    BOOST_TEST((q.take_breach() == breach::certain));
    BOOST_TEST(q.arbiter() == 1U);
    BOOST_TEST((q.take_breach() == breach::none));
    BOOST_REQUIRE(next(6200ms) == queue_effect::try_arbiter);
    q.try_begun(at(6200ms), 1);
    (void)q.won(at(6201ms)); // expired, or released shortly before
    BOOST_TEST((q.take_breach() == breach::possible));
}

BOOST_AUTO_TEST_CASE(a_change_that_was_told_or_could_not_be_is_no_breach) {
    auto const tries_again = [&](duration when) {
        BOOST_REQUIRE(next(when) == queue_effect::try_arbiter);
        q.try_begun(at(when), 1);
        (void)q.won(at(when + round_trip));
        return q.take_breach();
    };
    {
        waiting(5s);
        BOOST_REQUIRE(q.push(at(1s), 1, 0));
        BOOST_TEST((tries_again(1100ms) == breach::none));
        q.lost();
    }
    {
        // The push comes with the answer to the try.
        BOOST_REQUIRE(q.join(b));
        BOOST_REQUIRE(next(2s) == queue_effect::try_arbiter);
        q.try_begun(at(2s), 1);
        q.refused(at(2001ms), 5s, true, retry, 0);
        BOOST_REQUIRE(next(7100ms) == queue_effect::try_arbiter);
        q.try_begun(at(7100ms), 1);
        BOOST_TEST(!q.push(at(7101ms), 1, 0));
        (void)q.won(at(7101ms));
        BOOST_TEST((q.take_breach() == breach::none));
        q.lost();
    }
    for (auto const is_late : {true, false}) {
        BOOST_REQUIRE(q.join(c));
        BOOST_REQUIRE(next(10s) == queue_effect::try_arbiter);
        q.try_begun(at(10s), 1);
        q.refused(at(10001ms), 5s, true, retry, 0);
        if (is_late) {
            q.late(at(11s), 1, 0);
        } else {
            q.disconnected(at(11s), 1, 0);
        }
        BOOST_TEST((tries_again(11100ms) == breach::none));
        q.lost();
    }
}

BOOST_AUTO_TEST_CASE(an_empty_queue_is_forgotten) {
    BOOST_TEST((next() == queue_effect::forget));
}

BOOST_AUTO_TEST_CASE(the_first_try_asks_all_and_is_made_once) {
    trying();
    BOOST_TEST((next() == queue_effect::none));
    BOOST_TEST(q.counts().tries == 1U);
    BOOST_TEST(!q.wake().has_value());
}

BOOST_AUTO_TEST_CASE(waiters_get_the_key_in_the_order_in_which_they_came) {
    trying();
    BOOST_REQUIRE((q.join(b) && q.join(c)));
    BOOST_TEST(&q.won(at(1ms)) == &a);
    BOOST_TEST(&q.hand_over() == &b);
    BOOST_TEST(&q.hand_over() == &c);
    BOOST_TEST(q.empty());
}

BOOST_AUTO_TEST_CASE(who_does_not_wait_joins_only_where_nobody_is_before_it) {
    b.waits = false;
    held();
    BOOST_TEST(!q.join(b));
    q.released(at(5ms));
    BOOST_TEST(q.join(b));
    BOOST_TEST((next(5ms) == queue_effect::try_all)); // and does not stand back
}

BOOST_AUTO_TEST_CASE(who_does_not_wait_is_refused_when_it_is_known_what_is_in_the_way) {
    a.waits = false;
    asking();
    q.inspected(true);
    BOOST_TEST((next(round_trip) == queue_effect::refuse));
    q.leave(a);
    BOOST_TEST((next(round_trip) == queue_effect::forget));
}

BOOST_AUTO_TEST_CASE(a_try_goes_on_for_the_next_when_its_waiter_leaves) {
    trying();
    BOOST_REQUIRE(q.join(b));
    q.leave(a);
    BOOST_TEST((next() == queue_effect::none));
    BOOST_TEST(&q.won(at(1ms)) == &b);
}

BOOST_AUTO_TEST_CASE(a_try_is_given_up_when_nobody_is_left_for_it) {
    trying();
    q.leave(a);
    BOOST_TEST((next() == queue_effect::cancel_try));
    BOOST_TEST((next() == queue_effect::forget));
}

BOOST_AUTO_TEST_CASE(a_try_with_too_short_a_ttl_for_the_next_is_given_up_and_made_anew) {
    trying();
    b.set_ttl(2 * ttl);
    BOOST_REQUIRE(q.join(b));
    q.leave(a);
    BOOST_TEST((next() == queue_effect::cancel_try));
    BOOST_TEST((next() == queue_effect::try_all));
}

BOOST_AUTO_TEST_CASE(it_is_asked_once_what_is_in_the_way) {
    contending();
    q.refused(at(2ms), 5s, true, retry, 0);
    BOOST_TEST((next(2ms) == queue_effect::none));
    BOOST_TEST(q.seen_held());
}

BOOST_AUTO_TEST_CASE(what_not_all_have_said_is_asked_again_after_the_next_round) {
    asking();
    q.inspected(false);
    BOOST_REQUIRE(next(round_trip) == queue_effect::try_arbiter);
    q.try_begun(at(round_trip), 1);
    q.refused(at(2 * round_trip), 5s, true, retry, 0);
    auto const recheck = 2 * round_trip + waiting_rules::first_recheck;
    BOOST_REQUIRE(next(recheck) == queue_effect::try_all);
    q.try_begun(at(recheck));
    q.contended(at(recheck), held_elsewhere, retry, 0);
    BOOST_TEST((next(recheck) == queue_effect::inspect));
    q.inspected(true);
    BOOST_TEST((next(recheck) != queue_effect::inspect));
}

BOOST_AUTO_TEST_CASE(who_leaves_before_the_question_leaves_nothing) {
    trying();
    q.contended(at(1ms), held_elsewhere, retry, 0);
    q.leave(a);
    BOOST_TEST((next(1ms) == queue_effect::forget));
}

BOOST_AUTO_TEST_CASE(who_leaves_during_the_question_leaves_nothing) {
    asking();
    q.leave(a);
    BOOST_TEST((next(1ms) == queue_effect::none));
    q.inspected(true);
    BOOST_TEST((next(1ms) == queue_effect::forget));
}

BOOST_AUTO_TEST_CASE(a_split_vote_is_counted_and_followed_by_a_pause) {
    trying();
    q.contended(at(1ms), split, retry, 12345);
    BOOST_TEST(q.counts().splits == 1U);
    BOOST_TEST((next(1ms) == queue_effect::inspect));
    q.inspected(true);
    BOOST_TEST((next(1ms) == queue_effect::none));
    BOOST_REQUIRE(q.wake().has_value());
    BOOST_TEST((*q.wake() > at(1ms) && *q.wake() <= at(1ms) + waiting_rules::first_backoff));
}

BOOST_AUTO_TEST_CASE(a_push_wakes_from_the_instance_that_was_asked_only) {
    waiting();
    BOOST_TEST(!q.push(at(1s), 0, 7));
    BOOST_TEST((next(1s) == queue_effect::none));
    BOOST_TEST(q.push(at(1s), 1, 7));
    BOOST_REQUIRE(q.wake().has_value());
    BOOST_TEST((*q.wake() > at(1s) && *q.wake() <= at(1s) + waiting_rules::max_wake_delay));
    BOOST_TEST((next(1s) == queue_effect::none));
    BOOST_TEST(!q.push(at(1s), 1, 7)); // it was the one that was to come
    BOOST_TEST((next(*q.wake()) == queue_effect::try_arbiter));
}

BOOST_AUTO_TEST_CASE(a_push_matters_in_no_other_phase) {
    BOOST_TEST(!q.push(at(0ms), 0, 0));
    trying();
    BOOST_TEST(!q.push(at(0ms), 0, 0));
    q.won(at(1ms));
    BOOST_TEST(!q.push(at(1ms), 0, 0));
    q.released(at(2ms));
    BOOST_TEST(!q.push(at(2ms), 0, 0));
}

BOOST_AUTO_TEST_CASE(a_push_is_wasted_when_the_key_is_found_taken) {
    waiting();
    BOOST_REQUIRE(q.push(at(1s), 1, 7));
    BOOST_REQUIRE(next(1100ms) == queue_effect::try_arbiter);
    q.try_begun(at(1100ms), 1);
    BOOST_TEST(q.counts().wasted == 0U);
    q.refused(at(1101ms), 5s, true, retry, 0);
    BOOST_TEST(q.counts().wasted == 1U);
}

BOOST_AUTO_TEST_CASE(the_clock_wakes_when_the_key_expires) {
    waiting(500ms);
    BOOST_REQUIRE(q.wake().has_value());
    BOOST_TEST((*q.wake() > at(2 * round_trip + 500ms)));
    BOOST_TEST((*q.wake() <= at(2 * round_trip + 501ms) + waiting_rules::max_wake_delay));
    BOOST_TEST((next(*q.wake()) == queue_effect::try_arbiter));
}

BOOST_AUTO_TEST_CASE(all_are_looked_at_now_and_then) {
    waiting(std::nullopt);
    BOOST_REQUIRE(q.wake().has_value());
    BOOST_TEST((*q.wake() <= at(2 * round_trip) + waiting_rules::first_recheck));
    BOOST_TEST((next(*q.wake()) == queue_effect::try_all));
}

// The tracking finds a quorum free: instances 0 and 2. The arbiter, 1, has the key.
BOOST_AUTO_TEST_CASE(a_quorum_that_is_free_without_the_arbiter_is_tried_for) {
    contending();
    q.refused(at(2ms), std::nullopt, true, retry, 0);
    BOOST_REQUIRE(q.wake().has_value());
    BOOST_TEST((*q.wake() == at(2ms) + waiting_rules::settled_after));
    auto const gone = [&](time_point now, unsigned i) {
        q.tracked(now, i, q.tracking_round(), {.is = sighting::state::gone}, 0);
    };
    auto const now = *q.wake();
    BOOST_TEST((q.next(now, all).track == instance_set::only(2)));
    BOOST_TEST(q.awaits_instances());
    gone(now, 2);
    BOOST_TEST((q.next(now, all).track == instance_set::only(0)));
    gone(now, 0);
    BOOST_TEST((q.next(now, all).effect == queue_effect::try_all));
    q.try_begun(now);
    BOOST_TEST(&q.won(now + round_trip) == &a);
}

BOOST_AUTO_TEST_CASE(an_instance_that_comes_back_is_looked_at) {
    waiting(std::nullopt);
    q.disconnected(at(1s), 0, 7);
    BOOST_TEST((next(1s) == queue_effect::none));
    q.restored(at(2s), 7);
    BOOST_REQUIRE(q.wake().has_value());
    BOOST_TEST((*q.wake() <= at(2s) + 2 * waiting_rules::least_pause));
}

BOOST_AUTO_TEST_CASE(a_waiter_that_polls_asks_all_now_and_then) {
    contending();
    duration now = 2ms;
    for (unsigned n = 1; n < waiting_rules::polls_between_rechecks; ++n, now += retry) {
        q.refused(at(now), 5s, false, retry, 0);
        BOOST_REQUIRE(next(now + retry) == queue_effect::try_arbiter);
        q.try_begun(at(now + retry), 1);
    }
    q.refused(at(now), 5s, false, retry, 0);
    BOOST_TEST((next(now + retry) == queue_effect::try_all));
}

BOOST_AUTO_TEST_CASE(without_pushes_it_polls) {
    waiting(5s, false);
    BOOST_TEST(!q.waits_at(1));
    BOOST_REQUIRE(q.wake().has_value());
    BOOST_TEST((*q.wake() <= at(2 * round_trip) + waiting_rules::first_backoff));
}

BOOST_AUTO_TEST_CASE(a_key_that_has_just_gone_is_tried_for_at_once_and_then_less_so) {
    contending();
    q.refused(at(2ms), duration(-1), true, retry, 0);
    BOOST_TEST((next(2ms) == queue_effect::try_arbiter));
    q.try_begun(at(2ms), 1);
    q.refused(at(3ms), duration(-1), true, retry, 0);
    BOOST_TEST((next(3ms) == queue_effect::none));
    BOOST_REQUIRE(q.wake().has_value());
    BOOST_TEST((*q.wake() <= at(3ms) + retry));
}

BOOST_AUTO_TEST_CASE(also_after_a_push_a_key_that_has_just_gone_is_tried_for_at_once) {
    waiting();
    BOOST_REQUIRE(q.push(at(1s), 1, 7));
    BOOST_REQUIRE(next(1100ms) == queue_effect::try_arbiter);
    q.try_begun(at(1100ms), 1);
    q.refused(at(1101ms), duration(-1), true, retry, 0);
    BOOST_TEST((next(1101ms) == queue_effect::try_arbiter));
}

BOOST_AUTO_TEST_CASE(a_lost_connection_wakes_who_waited_for_a_push_through_it) {
    waiting();
    q.disconnected(at(1s), 0, 7);
    BOOST_TEST((next(1100ms) == queue_effect::none));
    q.disconnected(at(1s), 1, 7);
    BOOST_TEST((next(1s + waiting_rules::max_wake_delay) == queue_effect::try_arbiter));
}

BOOST_AUTO_TEST_CASE(a_key_that_goes_by_itself_is_left_to_pollers_as_well) {
    q.yields(50ms);
    waiting(200ms);
    BOOST_REQUIRE(q.wake().has_value());
    BOOST_TEST((*q.wake() >= at(2 * round_trip + 100ms))); // when it looks around
    BOOST_TEST((next(2 * round_trip + 250ms) == queue_effect::none));
    BOOST_TEST((next(2 * round_trip + 252ms + waiting_rules::max_wake_delay) ==
                queue_effect::try_arbiter));
    q.try_begun(at(300ms), 1);
    q.refused(at(301ms), duration(-1), false, retry, 0); // between two commands
    BOOST_TEST((next(350ms) == queue_effect::none));
    BOOST_TEST((next(351ms) == queue_effect::try_arbiter));
}

BOOST_AUTO_TEST_CASE(a_late_instance_wakes_who_waited_for_its_push_and_is_tracked_on) {
    waiting();
    q.late(at(1s), 0, 7);
    BOOST_TEST((next(1100ms) == queue_effect::none));
    q.late(at(1s), 1, 7);
    BOOST_TEST((next(1s + waiting_rules::max_wake_delay) == queue_effect::try_arbiter));
}

BOOST_AUTO_TEST_CASE(an_outage_is_told_unless_it_ends_in_time) {
    waiting();
    q.outage(at(1s));
    BOOST_TEST(q.awaits_instances());
    BOOST_TEST((next(999ms, {}) == queue_effect::none));
    BOOST_TEST((next(1s, {}) == queue_effect::try_all)); // which fails at once
    q.try_begun(at(1s));
    q.failed();
    q.leave(a);
    BOOST_TEST((next(1s, {}) == queue_effect::forget));
}

BOOST_AUTO_TEST_CASE(a_try_that_finds_a_holder_ends_an_outage) {
    waiting();
    q.outage(at(1s));
    BOOST_REQUIRE(next(1s, {}) == queue_effect::try_all);
    q.try_begun(at(1s), 1);
    q.outage_pause(0);
    q.failed_in_outage(at(1050ms));
    BOOST_TEST(q.in_outage());
    BOOST_TEST(q.failed_outage_tries() == 1U);
    BOOST_REQUIRE(next(1050ms) != queue_effect::none);
    q.try_begun(at(1050ms), 1);
    q.contended(at(1051ms), held_elsewhere, retry, 0);
    BOOST_TEST(!q.in_outage());
    BOOST_TEST(q.failed_outage_tries() == 0U);
}

BOOST_AUTO_TEST_CASE(an_outage_that_ends_is_followed_by_a_try) {
    waiting();
    q.outage(at(4s));
    q.restored(at(1s), 7);
    BOOST_TEST((next(1s + waiting_rules::max_wake_delay) == queue_effect::try_arbiter));
}

BOOST_AUTO_TEST_CASE(an_arbiter_that_fails_is_no_candidate_until_the_next_round) {
    contending();
    BOOST_TEST((q.candidates(all) == all));
    q.arbiter_failed();
    BOOST_TEST((q.candidates(all) == all - instance_set::only(1)));
    BOOST_TEST((next(2ms) == queue_effect::try_arbiter));
    q.try_begun(at(2ms), 0);
    q.arbiter_failed();
    // There may be no quorum any more: only a round to all can tell.
    BOOST_TEST((next(3ms) == queue_effect::try_all));
    BOOST_TEST((q.candidates(all) == all));
}

BOOST_AUTO_TEST_CASE(who_holds_it_without_the_arbiter_is_met_where_he_has_it) {
    contending();
    auto const without_1 = votes({verdict::no, verdict::yes, verdict::no});
    q.contended(at(2ms), without_1, retry, 0);
    BOOST_TEST((next(2ms) == queue_effect::try_arbiter));
    BOOST_TEST((q.candidates(all) == without_1.no()));
    BOOST_TEST(
        (q.candidates(instance_set::only(1)) == instance_set::only(1))); // rather than nowhere
}

// As seen in simulation: one down, one without the holder's key, and all contenders woke each other
// for ever.
BOOST_AUTO_TEST_CASE(who_may_hold_it_without_the_arbiter_is_looked_for_where_he_may_have_it) {
    contending();
    q.contended(at(2ms), split, retry, 0);
    BOOST_TEST((next(2ms) == queue_effect::try_arbiter));
    BOOST_TEST((q.candidates(all) == split.no()));
}

BOOST_AUTO_TEST_CASE(too_few_instances_for_a_quorum_are_all_asked_at_once) {
    waiting();
    BOOST_TEST((next(10s, instance_set::only(1)) == queue_effect::try_all));
}

BOOST_AUTO_TEST_CASE(a_tenure_is_handed_on_within_its_limits_only) {
    held();
    BOOST_TEST(!q.hands_over(at(2ms), ttl, ttl, 64, 50ms)); // to nobody
    BOOST_REQUIRE(q.join(b));
    struct {
        bool renewed;
        duration now, left, wants;
        unsigned limit;
        bool handed;
    } const cases[] = {
        {true, 2ms, ttl, ttl, 64, true},
        {true, 2ms, ttl, ttl, 1, false},      // has served as many as it may
        {true, 51ms, ttl, ttl, 64, false},    // for as long as it may
        {true, 2ms, ttl, 2 * ttl, 64, false}, // not what it wants
        {true, 2ms, ttl / 2, ttl, 64, true},  // the watchdog will see to it
        {true, 2ms, ttl / 2 - 1ns, ttl, 64, false},
        {false, 2ms, ttl * 95 / 100, ttl, 64, true},
        {false, 2ms, ttl / 2, ttl, 64, false}, // nobody will extend it
    };
    for (auto const& k : cases) {
        b.renewed = k.renewed;
        b.set_ttl(k.wants);
        BOOST_TEST(q.hands_over(at(k.now), k.left, ttl, k.limit, 50ms) == k.handed);
    }
}

// To pass the key to another process would take about as long as the try took, here 1 ms.
BOOST_AUTO_TEST_CASE(a_tenure_serves_for_as_long_as_its_try_took) {
    held();
    for (auto served = 1U; served < 150; ++served) {
        BOOST_REQUIRE(q.join(b));
        BOOST_REQUIRE(q.hands_over(at(2ms - 1ns), ttl, ttl, 2, 50ms));
        BOOST_TEST(q.hands_over(at(2ms), ttl, ttl, 2, 50ms) == (served < 2));
        BOOST_TEST(!q.hands_over(at(2ms - 1ns), ttl, ttl, 1, 50ms)); // switched off
        BOOST_TEST(!q.hands_over(at(2ms - 1ns), ttl, ttl, 2, 500us));
        q.hand_over();
    }
}

// A fence has room for a hundred leases of one tenure, and the last one is the readers'.
BOOST_AUTO_TEST_CASE(a_tenure_with_fences_serves_ninety_nine_leases_at_most) {
    a.fenced = b.fenced = true;
    held();
    for (auto served = 1U; served < 99; ++served) {
        BOOST_REQUIRE(q.join(b));
        BOOST_REQUIRE(q.hands_over(at(2ms - 1ns), ttl, ttl, 2, 50ms));
        q.hand_over();
    }
    BOOST_REQUIRE(q.join(b));
    BOOST_TEST(!q.hands_over(at(2ms - 1ns), ttl, ttl, 2, 50ms));
    BOOST_TEST(q.handovers() == 98U);
}

BOOST_AUTO_TEST_CASE(nobody_stands_back_from_a_key_that_nobody_else_wants) {
    held();
    q.released(at(5ms));
    BOOST_TEST((next(5ms) == queue_effect::forget));
}

BOOST_AUTO_TEST_CASE(who_met_others_stands_back_before_it_tries_again) {
    standing_back();
    BOOST_REQUIRE(q.wake().has_value());
    BOOST_TEST(
        (*q.wake() > at(1200ms) && *q.wake() <= at(1200ms) + 2 * waiting_rules::max_wake_delay));
    BOOST_REQUIRE(q.join(b));
    BOOST_TEST((next(1200ms) == queue_effect::none));
    BOOST_TEST((next(*q.wake()) == queue_effect::try_arbiter));
}

BOOST_AUTO_TEST_CASE(a_process_that_won_against_votes_for_others_stands_back_and_listens) {
    held();
    q.released(at(5ms), true);
    BOOST_TEST((*q.wake() == at(5ms) + waiting_rules::stand_back(round_trip)));
    BOOST_REQUIRE(q.join(a));
    BOOST_TEST((next(5ms) == queue_effect::listen));
    BOOST_TEST(
        (next(*q.wake()) == queue_effect::try_all)); // one instance alone may have an old key
}

BOOST_AUTO_TEST_CASE(who_yields_to_pollers_leaves_the_key_alone_for_so_long) {
    constexpr duration poll = 100ms;
    q.yields(poll);
    held();
    q.released(at(5ms)); // also when it has met nobody, and has no waiters
    BOOST_REQUIRE(q.wake().has_value());
    BOOST_TEST((*q.wake() >= at(5ms) + poll));
    BOOST_REQUIRE(q.join(b));
    BOOST_TEST((next(5ms) == queue_effect::listen));
    BOOST_TEST((next(100ms) == queue_effect::none));
    BOOST_TEST((next(*q.wake()) == queue_effect::try_all));
}

BOOST_AUTO_TEST_CASE(who_yields_to_pollers_waits_after_a_push) {
    constexpr duration poll = 100ms;
    q.yields(poll);
    waiting();
    BOOST_REQUIRE(q.push(at(1s), 1, 0));
    BOOST_TEST((next(1s + poll) == queue_effect::none));
    BOOST_TEST((next(1s + poll + waiting_rules::max_wake_delay) == queue_effect::try_arbiter));
}

// One after the other has the key, and each release leaves it alone for a while. `answer`
// answers the question that is put to instance 2 meanwhile. How often it was left alone.
template <class Answer>
unsigned stand_backs(fixture& f, unsigned releases, Answer answer) {
    unsigned count = 0;
    auto now = at(0ms);
    BOOST_REQUIRE(f.q.join(f.a));
    for (unsigned n = 0; n < releases; ++n) {
        BOOST_REQUIRE(f.next(now) == queue_effect::try_all);
        f.q.try_begun(now);
        auto& winner = f.q.won(now += round_trip);
        BOOST_REQUIRE(f.q.join(winner));
        f.q.released(now);
        if (!f.q.wake()) continue;
        ++count;
        auto const end = *f.q.wake();
        BOOST_TEST((f.next(now) == queue_effect::listen));
        f.q.listening(2);
        BOOST_TEST((f.next(now) == queue_effect::none));
        answer(now + round_trip);
        now = end;
    }
    return count;
}

BOOST_AUTO_TEST_CASE(who_listens_and_hears_nobody_is_alone_and_stands_back_now_and_then) {
    auto const silence = [&](time_point now) {
        q.tracked(now, 2, q.tracking_round(), {.is = sighting::state::gone, .tracked = true}, 0);
    };
    // A tenure takes a round trip of 1 ms, and being alone is believed for less than 5 ms.
    BOOST_TEST(stand_backs(*this, 16 + 60, silence) == 16U + 12U);
}

BOOST_AUTO_TEST_CASE(who_hears_of_another_one_stands_back_each_time) {
    unsigned times = 0;
    auto const taken = [&](time_point now) {
        q.tracked(now, 2, q.tracking_round(), {.is = sighting::state::gone, .tracked = true}, 0);
        if (++times % 16 == 0) q.push(now, 2, 0);
    };
    unsigned count = 0;
    auto now = at(0ms);
    BOOST_REQUIRE(q.join(a));
    for (unsigned n = 0; n < 100; ++n) {
        auto const todo = next(now);
        // A push makes it go to the arbiter the next time.
        BOOST_REQUIRE((todo == queue_effect::try_all || todo == queue_effect::try_arbiter));
        q.try_begun(now, 2);
        BOOST_REQUIRE(q.join(q.won(now += round_trip)));
        q.released(now);
        if (!q.wake()) continue;
        ++count;
        auto const end = *q.wake();
        if (next(now) == queue_effect::listen) {
            q.listening(2);
            taken(now + round_trip);
        }
        now = end;
    }
    BOOST_TEST(count == 100U);
}

BOOST_AUTO_TEST_CASE(who_cannot_listen_is_never_alone) {
    BOOST_TEST(stand_backs(*this, 50, [](time_point) {}) == 50U);
}

BOOST_AUTO_TEST_CASE(who_finds_the_key_taken_when_it_listens_is_not_alone) {
    auto const held_by_another = [&](time_point now) {
        q.tracked(now, 2, q.tracking_round(), {.is = sighting::state::held, .tracked = true}, 0);
    };
    trying();
    q.won(at(1ms));
    BOOST_REQUIRE(q.join(b));
    q.released(at(1ms));
    BOOST_REQUIRE((next(1ms) == queue_effect::listen));
    q.listening(2);
    held_by_another(at(2ms));
    BOOST_REQUIRE(q.wake().has_value());
    auto const end = *q.wake();
    BOOST_TEST((next(end) == queue_effect::try_all));
    q.try_begun(end);
    BOOST_TEST(&q.won(end) == &b);
    BOOST_REQUIRE(q.join(c));
    q.released(end); // others want it: no need to listen
    BOOST_TEST((next(end) == queue_effect::none));
    BOOST_TEST(q.wake().has_value());
}

BOOST_AUTO_TEST_CASE(an_empty_queue_that_stands_back_is_forgotten_after_that) {
    standing_back();
    BOOST_TEST((next(1200ms) == queue_effect::none));
    BOOST_TEST((next(*q.wake()) == queue_effect::forget));
}

BOOST_AUTO_TEST_CASE(a_lost_tenure_is_followed_by_a_try_at_the_arbiter) {
    held();
    BOOST_REQUIRE(q.join(b));
    q.lost();
    BOOST_TEST((next(5ms) == queue_effect::try_arbiter));
}

// A try with a ttl of 10 s, whose deadline is at 9.898 s.
BOOST_AUTO_TEST_CASE(a_deadline_that_is_seen_late_ends_the_try_and_not_the_wait) {
    trying();
    for (auto const now : {20s, 40s, 60s}) {
        BOOST_TEST(q.overslept(at(now), at(now - 10s)));
        BOOST_TEST((next(now) == queue_effect::try_all));
        q.try_begun(at(now));
    }
    BOOST_TEST(&q.won(at(60s + round_trip)) == &a);
}

BOOST_AUTO_TEST_CASE(a_deadline_that_is_seen_in_time_is_the_servers_fault) {
    trying();
    BOOST_TEST(!q.overslept(at(9898ms), at(9898ms)));
    BOOST_TEST(!q.overslept(at(9897ms), at(9898ms))); // what falls due together is looked at early
    BOOST_TEST(!q.overslept(at(9899ms), at(9898ms)));
}

// A machine that is a little late every time must not hide servers that are slow every time.
BOOST_AUTO_TEST_CASE(a_deadline_that_is_seen_a_little_late_is_excused_once) {
    trying();
    BOOST_TEST(q.overslept(at(9998ms), at(9898ms)));
    BOOST_TEST((next(9998ms) == queue_effect::try_all));
    q.try_begun(at(9998ms));
    BOOST_TEST(!q.overslept(at(19'996ms), at(19'896ms)));
}

// However short the ttl is, as else there would be no end of tries.
BOOST_AUTO_TEST_CASE(a_deadline_that_is_seen_late_time_and_again_is_the_servers_fault) {
    for (auto const ttl : {duration(8ms), duration(16ms), duration(80ms)}) {
        BOOST_TEST(waiting_rules::excuses(3ms, ttl, false));
        BOOST_TEST(!waiting_rules::excuses(3ms, ttl, true));
        BOOST_TEST(!waiting_rules::excuses(9ms, ttl, true));
        BOOST_TEST(waiting_rules::excuses(10ms, ttl, true));
        BOOST_TEST(!waiting_rules::excuses(2ms, ttl, false));
    }
    BOOST_TEST(!waiting_rules::excuses(1s, 10s, true));
}

BOOST_AUTO_TEST_CASE(an_answer_between_two_deadlines_that_were_seen_a_little_late_excuses_both) {
    contending();
    BOOST_TEST(q.overslept(at(9998ms), at(9898ms)));
    BOOST_TEST((next(9998ms) == queue_effect::try_arbiter));
    BOOST_TEST((q.candidates(all) == all)); // its arbiter is as good as before
    q.try_begun(at(9998ms), 1);
    q.refused(at(10s), 5s, true, retry, 0);
    BOOST_REQUIRE(q.push(at(11s), 1, 0));
    BOOST_REQUIRE(next(11'900ms) == queue_effect::try_arbiter);
    q.try_begun(at(11'900ms), 1);
    BOOST_TEST(q.overslept(at(21'898ms), at(21'798ms)));
}

BOOST_AUTO_TEST_CASE(who_does_not_wait_gets_one_more_try_after_a_deadline_that_was_seen_late) {
    a.waits = false;
    trying();
    BOOST_TEST(q.overslept(at(20s), at(9898ms)));
    BOOST_TEST((next(20s) == queue_effect::try_all));
    q.try_begun(at(20s));
    BOOST_TEST(!q.overslept(at(40s), at(29'898ms)));
}

BOOST_AUTO_TEST_CASE(all_are_let_go_without_a_word) {
    trying();
    BOOST_REQUIRE(q.join(b));
    q.abandon();
    BOOST_TEST(q.empty());
}

//
// Adoption
//

BOOST_AUTO_TEST_CASE(a_waiter_that_adopts_goes_first) {
    waiting();
    b.waits = false;
    b.adopts = true;
    BOOST_REQUIRE(q.join(b));
    BOOST_TEST((&q.front() == &b));
    BOOST_TEST((next(3ms) == queue_effect::try_all)); // it waits for no push
    q.try_begun(at(3ms));
    c.waits = false;
    c.adopts = true;
    BOOST_REQUIRE(q.join(c)); // behind the one that came before
    BOOST_TEST((next(3ms) == queue_effect::none));
    BOOST_TEST((&q.won(at(4ms)) == &b));
    BOOST_TEST((&q.front() == &c));
}

BOOST_AUTO_TEST_CASE(a_try_that_adopts_serves_no_other_waiter) {
    trying();
    b.waits = false;
    b.adopts = true;
    BOOST_REQUIRE(q.join(b));
    BOOST_TEST((next() == queue_effect::cancel_try));
    BOOST_TEST((next() == queue_effect::try_all));
    q.try_begun(at(1ms));
    q.leave(b);
    BOOST_TEST((next() == queue_effect::cancel_try));
    BOOST_TEST((next() == queue_effect::try_all)); // for the waiter behind
}

BOOST_AUTO_TEST_CASE(a_held_key_is_not_adopted) {
    held();
    b.adopts = true;
    BOOST_TEST(!q.join(b));
}

BOOST_AUTO_TEST_CASE(an_adopted_tenure_counts_the_leases_before) {
    a.adopts = true;
    a.handovers = 7;
    held();
    BOOST_TEST(q.handovers() == 7U);
    BOOST_REQUIRE(q.join(b));
    BOOST_TEST(!q.hands_over(at(2ms), ttl, ttl, 8, 1h));
    BOOST_TEST(q.hands_over(at(2ms), ttl, ttl, 9, 1h));
    BOOST_TEST((&q.hand_over() == &b));
    BOOST_TEST(q.handovers() == 8U);
}

//
// Folding
//

BOOST_AUTO_TEST_CASE(a_holder_alone_needs_no_queue) {
    held();
    BOOST_TEST((next(1s) == queue_effect::fold));
    auto const f = q.folded();
    BOOST_TEST((f.held_since == at(round_trip)));
    BOOST_TEST((f.round_trip == round_trip));
    BOOST_TEST(!f.fenced);
}

BOOST_AUTO_TEST_CASE(a_queue_with_a_waiter_is_not_folded) {
    held();
    BOOST_REQUIRE(q.join(b));
    BOOST_TEST((next(2ms) == queue_effect::none));
    q.leave(b);
    BOOST_TEST((next(3ms) == queue_effect::fold));
}

// Fences and the limit of hand-overs depend on the number of leases.
BOOST_AUTO_TEST_CASE(a_queue_that_has_handed_over_is_not_folded) {
    held();
    BOOST_REQUIRE(q.join(b));
    (void)q.hand_over();
    BOOST_TEST((next(2ms) == queue_effect::none));
}

BOOST_AUTO_TEST_CASE(a_queue_of_a_tenure_that_was_handed_over_elsewhere_is_not_folded) {
    a.adopts = true;
    a.handovers = 3;
    held();
    BOOST_TEST((next(2ms) == queue_effect::none));
    BOOST_TEST(q.handovers() == 3U);
}

BOOST_AUTO_TEST_CASE(a_queue_that_knows_of_others_is_not_folded) {
    contending();
    (void)q.won(at(2ms));
    BOOST_TEST((next(2ms) == queue_effect::none));
}

BOOST_AUTO_TEST_CASE(a_queue_that_yields_to_pollers_is_not_folded) {
    q.yields(20ms);
    held();
    BOOST_TEST((next(2ms) == queue_effect::none));
}

// Whether the process counts as alone depends on how often it has listened.
BOOST_AUTO_TEST_CASE(a_queue_that_has_listened_is_not_folded) {
    held();
    q.released(at(2ms), true);
    BOOST_REQUIRE(next(2ms) == queue_effect::listen);
    q.listening(1);
    q.tracked(at(3ms), 1, q.tracking_round(), {.is = sighting::state::gone, .tracked = true}, 0);
    BOOST_REQUIRE(q.join(b));
    BOOST_REQUIRE(next(8ms) == queue_effect::try_all);
    q.try_begun(at(8ms));
    (void)q.won(at(9ms));
    BOOST_TEST((next(9ms) == queue_effect::none));
}

// The time of its own try bounds a tenure from below. An average of several tries does not tell it.
BOOST_AUTO_TEST_CASE(a_queue_whose_tries_took_different_times_is_not_folded) {
    for (auto const took : {round_trip, 10 * round_trip}) {
        fixture f;
        f.held();
        BOOST_REQUIRE(f.q.join(f.b));
        f.q.released(at(2ms));
        BOOST_REQUIRE(f.next(2ms) == queue_effect::listen);
        f.q.listening(1); // and no answer comes
        BOOST_REQUIRE(f.next(8ms) == queue_effect::try_all);
        f.q.try_begun(at(8ms));
        (void)f.q.won(at(8ms + took));
        auto const folds = took == round_trip;
        BOOST_TEST((f.next(18ms) == (folds ? queue_effect::fold : queue_effect::none)));
    }
}

BOOST_AUTO_TEST_CASE(an_unfolded_queue_is_held) {
    q = basic_wait_queue<waiting_rules>(3, {at(5ms), round_trip, true});
    BOOST_TEST(q.held());
    BOOST_TEST(q.seen_held());
    BOOST_TEST(q.handovers() == 0U);
    BOOST_TEST(q.counts().tenures == 1U);
    BOOST_TEST(q.counts().tries == 1U);
    BOOST_TEST((next(6ms) == queue_effect::fold));
    a.waits = false;
    BOOST_TEST(!q.join(a));
    b.fenced = true;
    BOOST_REQUIRE((q.join(b) && q.join(c)));
    BOOST_TEST((next(6ms) == queue_effect::none));
    BOOST_TEST(q.hands_over(at(24ms), ttl, ttl, 2, 20ms));
    BOOST_TEST(!q.hands_over(at(25ms), ttl, ttl, 2, 20ms)); // since it was won
    BOOST_TEST(&q.hand_over() == &b);
    BOOST_TEST(q.handovers() == 1U);
    BOOST_TEST(!q.hands_over(at(24ms), ttl, ttl, 2, 20ms)); // the limit
    q.released(at(30ms));
    BOOST_REQUIRE(q.wake().has_value());
    BOOST_TEST((*q.wake() == at(30ms) + waiting_rules::stand_back(round_trip)));
}

BOOST_AUTO_TEST_CASE(an_unfolded_queue_of_a_tenure_without_fences_gives_none) {
    q = basic_wait_queue<waiting_rules>(3, {at(5ms), round_trip, false});
    b.fenced = true;
    BOOST_REQUIRE(q.join(b));
    BOOST_TEST(!q.hands_over(at(6ms), ttl, ttl, 64, 1s));
}

BOOST_AUTO_TEST_SUITE_END()
