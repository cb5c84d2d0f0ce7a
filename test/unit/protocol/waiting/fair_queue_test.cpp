// A wait queue of a fair key: it joins the line, waits for its turn, and takes the key.
#include "protocol/tenure/tenure.hpp"
#include "protocol/waiting/wait_queue.hpp"
#include "redis/wire/token.hpp"

#include "unit/protocol/protocol_values.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>

using namespace holdfast::protocol;
using namespace std::chrono_literals;

namespace {

using holdfast::test::at;

constexpr duration retry = 250ms;
auto const all = instance_set::first(3);

tally votes(verdict first, verdict second, verdict third) {
    tally t(3, 2, all);
    t.count(0, first);
    t.count(1, second);
    t.count(2, third);
    return t;
}

struct fixture {
    fixture() {
        a.set_ttl(10s);
        b.set_ttl(10s);
        q.is_fair(true);
    }
    ~fixture() { q.abandon(); }

    queue_effect next(duration now) { return q.next(at(now), all).effect; }

    /// Another process has the key. The queue stands in line at instance 1.
    void in_line() {
        BOOST_REQUIRE(q.join(a));
        BOOST_REQUIRE(next(0ms) == queue_effect::try_all);
        BOOST_TEST(q.is_newcomer());
        q.try_begun(at(0ms));
        q.contended(at(1ms), votes(verdict::no, verdict::no, verdict::no), retry, 0);
        BOOST_REQUIRE(next(1ms) == queue_effect::inspect);
        q.inspected(true);
        join_line(1ms);
    }
    void join_line(duration now) {
        BOOST_REQUIRE(next(now) == queue_effect::try_arbiter);
        BOOST_TEST(!q.is_newcomer());
        q.try_begun(at(now), 1);
        q.refused(at(now + 1ms), 5s, true, retry, 0);
        BOOST_REQUIRE(next(now + 1ms) == queue_effect::none);
    }
    void called(duration now) {
        BOOST_REQUIRE(q.called(at(now), 1));
        BOOST_REQUIRE(next(now) == queue_effect::try_reserved);
        BOOST_TEST(!q.is_newcomer());
        q.try_begun(at(now), q.arbiter());
    }

    waiter a, b;
    holdfast::protocol::wait_queue q{3};
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(fair_queue, fixture)

// There is no pause: nobody else was told.
BOOST_AUTO_TEST_CASE(a_process_that_is_called_tries_at_once) {
    in_line();
    BOOST_TEST(!q.called(at(10ms), 0)); // not at that instance
    called(10ms);
    BOOST_TEST(&q.won(at(11ms)) == &a);
    BOOST_TEST(q.held());
}

// The answer is as old as the pause of the process.
BOOST_AUTO_TEST_CASE(a_process_that_stood_still_wakes_at_the_expiry_all_the_same) {
    q.is_fair(false);
    in_line(); // answers take 1 ms
    q.wake_at(at(10ms));
    BOOST_REQUIRE(next(10ms) == queue_effect::try_arbiter);
    q.try_begun(at(10ms), 1);
    q.refused(at(3s), 5s, true, retry, 0);
    BOOST_TEST(!q.next(at(4s), all).track.empty()); // nothing else wakes it then
    BOOST_TEST((*q.wake() - at(10ms) < 5s + 10ms));
}

// A try with its token would ask nobody, and the token would stay in the line.
BOOST_AUTO_TEST_CASE(a_process_that_is_called_in_an_outage_keeps_its_token) {
    in_line();
    BOOST_REQUIRE(q.called(at(10ms), 1));
    BOOST_TEST((q.next(at(10ms), instance_set::only(1)).effect == queue_effect::try_all));
}

BOOST_AUTO_TEST_CASE(only_a_fair_queue_is_called) {
    in_line();
    q.is_fair(false);
    BOOST_TEST(!q.called(at(10ms), 1));
}

BOOST_AUTO_TEST_CASE(a_place_in_line_is_renewed) {
    in_line();
    auto const pause = waiting_rules::renews_place;
    BOOST_TEST((next(pause) == queue_effect::none));
    join_line(pause + 2ms);
    called(pause + 10ms);
}

// The next try is refused, and stands in line behind the other processes.
BOOST_AUTO_TEST_CASE(a_process_that_had_the_key_joins_the_line_at_once) {
    in_line();
    BOOST_REQUIRE(q.join(b));
    called(10ms);
    BOOST_REQUIRE(&q.won(at(11ms)) == &a);
    q.released(at(12ms));
    join_line(12ms);
}

BOOST_AUTO_TEST_CASE(a_process_without_waiters_does_not_stand_back) {
    in_line();
    called(10ms);
    BOOST_REQUIRE(&q.won(at(11ms)) == &a);
    q.released(at(12ms), true);
    BOOST_TEST((next(12ms) == queue_effect::forget));
}

// Contenders kept each other from a quorum.
BOOST_AUTO_TEST_CASE(a_process_that_was_called_in_vain_goes_to_the_front_once) {
    in_line();
    for (auto const front : {true, false}) {
        duration const then = front ? 10ms : 20ms;
        called(then);
        q.contended(at(then + 1ms), votes(verdict::no, verdict::yes, verdict::unknown), retry, 0);
        BOOST_TEST(q.goes_to_front() == front);
        if (front) join_line(then + 1ms);
    }
    BOOST_REQUIRE(next(1s) == queue_effect::try_arbiter);
    q.try_begun(at(1s), 1);
    BOOST_TEST(&q.won(at(1001ms)) == &a);
    BOOST_TEST(!q.goes_to_front());
}

BOOST_AUTO_TEST_CASE(pauses_grow_while_votes_are_split) {
    BOOST_TEST((waiting_rules::longest_pause(50ms, 3) == 50ms));
    BOOST_TEST((waiting_rules::longest_pause(50ms, 4) == 100ms));
    BOOST_TEST((waiting_rules::longest_pause(50ms, 8) == 200ms));
    BOOST_TEST((waiting_rules::longest_pause(50ms, 255) == 1s));
    BOOST_TEST((waiting_rules::longest_pause(5s, 255) == 5s));

    place_in_line line;
    line.missed(false, false);
    BOOST_TEST(line.splits() == 0U); // the key has no line
    line.fair(true);
    for (int n = 0; n < 300; ++n) line.missed(false, false);
    BOOST_TEST(line.splits() == 64U);
    line.missed(true, false);
    BOOST_TEST(line.splits() == 0U);
    line.missed(false, false);
    BOOST_TEST(line.splits() == 1U);
    line.won();
    BOOST_TEST(line.splits() == 0U);
}

// The server's table of tracked keys is full. The process asks the arbiter with the token that
// stands in line, and so keeps its place.
BOOST_AUTO_TEST_CASE(after_a_call_without_a_reservation_calls_are_verified_at_the_arbiter) {
    in_line();
    called(10ms);
    q.contended(at(11ms), votes(verdict::no, verdict::no, verdict::no), retry, 0);
    join_line(20ms);
    for (int n = 1; n <= 3; ++n) {
        auto const now = n * 100ms;
        BOOST_REQUIRE(q.called(at(now), 1));
        join_line(now); // a try at the arbiter
    }
    BOOST_REQUIRE(q.called(at(400ms), 1));
    BOOST_REQUIRE(next(400ms) == queue_effect::try_arbiter);
    q.try_begun(at(400ms), 1);
    BOOST_REQUIRE(&q.won(at(401ms)) == &a);
    // The next calls are believed again.
    BOOST_REQUIRE(q.join(b));
    q.released(at(402ms));
    join_line(402ms);
    called(500ms);
}

// Another program changes the key thousands of times a second.
BOOST_AUTO_TEST_CASE(many_calls_in_vain_lead_to_few_tries) {
    in_line();
    auto now = 10ms + 0us;
    auto tries = 0;
    for (; now < 1010ms; now += 100us) {
        (void)q.called(at(now), 1);
        if (next(now) == queue_effect::none) continue;
        q.try_begun(at(now), 1);
        q.refused(at(now + 50us), 5s, true, retry, 0);
        (void)next(now + 50us);
        ++tries;
    }
    BOOST_TEST(tries > 400);
    BOOST_TEST(tries < 600);
}

// A holder has a quorum, though not the arbiter.
BOOST_AUTO_TEST_CASE(a_process_that_finds_a_holder_waits_elsewhere) {
    in_line();
    called(10ms);
    q.contended(at(11ms), votes(verdict::no, verdict::yes, verdict::no), retry, 0);
    BOOST_TEST(!q.goes_to_front());
    BOOST_REQUIRE(next(11ms) == queue_effect::try_arbiter);
    BOOST_TEST((q.candidates(all) == (instance_set::only(0) | instance_set::only(2))));
}

BOOST_AUTO_TEST_CASE(a_change_that_was_not_told_is_no_breach) {
    in_line();
    BOOST_REQUIRE(next(4s) == queue_effect::try_arbiter);
    q.try_begun(at(4s), 1);
    q.refused(at(4001ms), 60s, true, retry, 0); // another holder
    BOOST_TEST((q.take_breach() == breach::none));
}

BOOST_AUTO_TEST_CASE(instances_that_refuse_a_reserved_key_are_asked_again) {
    basic_tenure<redlock_rules> t(3, 10s, true);
    auto const first = t.acquire(at(0ms), all, 1);
    BOOST_TEST((first.acquire == all));
    auto const answer = [&](unsigned i, verdict v) {
        return t.answer(command::acquire, 0, i, v, at(1ms));
    };
    BOOST_TEST(answer(0, verdict::no).empty());
    auto const again = answer(2, verdict::no);
    BOOST_TEST((again.acquire == (instance_set::only(0) | instance_set::only(2))));
    BOOST_TEST(answer(1, verdict::yes).empty());
    BOOST_TEST((answer(0, verdict::yes).effect == tenure_effect::won));
}

// The grant that decides the votes comes from an instance where we hold the key: others wait there.
BOOST_AUTO_TEST_CASE(after_a_grant_nobody_is_asked_again) {
    basic_tenure<redlock_rules> t(3, 10s, true);
    (void)t.acquire(at(0ms), all, 1);
    auto const answer = [&](unsigned i, verdict v) {
        return t.answer(command::acquire, 0, i, v, at(1ms));
    };
    BOOST_TEST(answer(2, verdict::unknown).empty());
    BOOST_TEST(answer(0, verdict::no).empty());
    auto const end = answer(1, verdict::yes);
    BOOST_TEST((end.effect == tenure_effect::contended));
    BOOST_TEST(end.acquire.empty());
}

BOOST_AUTO_TEST_CASE(they_are_not_asked_for_ever) {
    basic_tenure<redlock_rules> t(3, 10s, true);
    (void)t.acquire(at(0ms), all, 1);
    auto const answer = [&](unsigned i, verdict v) {
        return t.answer(command::acquire, 0, i, v, at(1ms));
    };
    (void)answer(0, verdict::no);
    BOOST_TEST(!answer(2, verdict::no).acquire.empty());
    (void)answer(0, verdict::no);
    auto const end = answer(2, verdict::no);
    BOOST_TEST((end.effect == tenure_effect::contended));
    // The token may stand in a line, if the key was not reserved after all.
    BOOST_TEST((end.release == all));
}

BOOST_AUTO_TEST_CASE(a_token_is_found_by_its_text) {
    holdfast::redis::token const t({0x0123456789abcdefU, 0xfedcba9876543210U});
    BOOST_TEST((holdfast::redis::token::of_text(t.text("").view()) == t));
    BOOST_TEST((holdfast::redis::token::of_text(t.text("worker-7").view()) == t));
    BOOST_TEST((holdfast::redis::token::of_text("short") == holdfast::redis::token()));
    BOOST_TEST(!(holdfast::redis::token::of_text(t.text("").view().substr(1)) == t));
}

BOOST_AUTO_TEST_SUITE_END()
