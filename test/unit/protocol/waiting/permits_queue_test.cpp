// Permits in the queue of a process: it goes on while permits are held, and gives those that are
// given back to its waiters.
#include "protocol/waiting/wait_queue.hpp"

#include "unit/protocol/protocol_values.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>

using namespace holdfast::protocol;
using namespace std::chrono_literals;

namespace {

using holdfast::test::at;

constexpr duration retry = 250ms;
constexpr duration ttl = 9s;
constexpr duration round_trip = 2ms;
auto const all = instance_set::first(3);

tally refused_by_two() {
    tally t(3, 2, all);
    t.count(0, verdict::no);
    t.count(1, verdict::no);
    return t;
}

/// A queue, and who may stand in it.
struct fixture {
    fixture() {
        for (auto* w : {&first, &second, &hurried, &late, &few, &plain}) w->set_ttl(ttl);
        for (auto* w : {&first, &second, &hurried, &late}) w->permits = 10;
        for (auto* w : {&hurried, &late}) w->waits = false;
        few.permits = 2;
    }
    ~fixture() { q.abandon(); }

    queue_effect next(duration now) { return q.next(at(now), all).effect; }
    void tries(waiter& w, duration now = 0ms) {
        BOOST_REQUIRE(q.join(w));
        BOOST_REQUIRE(next(now) == queue_effect::try_all);
        q.try_begun(at(now));
    }
    void wins(waiter& w, duration now = round_trip) {
        BOOST_REQUIRE(&q.won(at(now)) == &w);
        BOOST_REQUIRE(next(now) == queue_effect::part);
    }
    void refused(duration now = round_trip) {
        q.contended(at(now), refused_by_two(), retry, 0);
        if (next(now) == queue_effect::inspect) q.inspected(true);
    }
    static returned_permit permit(unsigned slot) {
        return {.slot = slot,
                .ttl = ttl,
                .left = ttl,
                .fenced = false,
                .leases = 1,
                .won_in = round_trip,
                .age = 10ms};
    }
    bool takes(returned_permit const& p) const { return q.takes(p, 64, 1s); }

    waiter first, second, hurried, late, few, plain;
    holdfast::protocol::wait_queue q{3};
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(permits_queue, fixture)

BOOST_AUTO_TEST_CASE(the_queue_goes_on_without_a_permit_that_it_has_won) {
    tries(first);
    BOOST_REQUIRE(q.join(second));
    wins(first);
    BOOST_TEST(!q.held());
    BOOST_TEST((next(round_trip) == queue_effect::try_all));
    q.try_begun(at(round_trip));
    wins(second, 2 * round_trip);
    BOOST_TEST((next(2 * round_trip) == queue_effect::forget));
}

BOOST_AUTO_TEST_CASE(who_does_not_wait_tries_after_others_but_does_not_wait_for_them) {
    tries(first);
    BOOST_TEST(q.join(hurried));
    wins(first);
    BOOST_TEST((next(round_trip) == queue_effect::try_all));
    q.try_begun(at(round_trip));
    wins(hurried, 2 * round_trip);

    tries(second);
    BOOST_TEST(q.join(late));
    refused();
    BOOST_TEST((next(round_trip) == queue_effect::refuse));
    BOOST_TEST(&q.to_refuse() == &late);
    q.leave(late);
    BOOST_TEST((next(round_trip) == queue_effect::try_arbiter));
    q.try_begun(at(round_trip), 1);
    q.refused(at(round_trip), ttl, true, retry, 0);
    // Now this process waits for a permit.
    BOOST_TEST(!q.join(hurried));
}

// It has a permit, whatever the others wait for.
BOOST_AUTO_TEST_CASE(who_adopts_is_not_refused_in_place_of_one_that_does_not_wait) {
    tries(second);
    BOOST_TEST(q.join(late));
    first.adopts = true;
    first.waits = false;
    BOOST_TEST(q.join(first));
    BOOST_TEST(&q.front() == &first);
    refused();
    BOOST_TEST((next(round_trip) == queue_effect::refuse));
    BOOST_TEST(&q.to_refuse() == &late);
    q.leave(late);
    BOOST_TEST((next(round_trip) == queue_effect::try_all));
}

BOOST_AUTO_TEST_CASE(a_permit_that_is_given_back_goes_to_the_first_waiter) {
    BOOST_TEST(!takes(permit(0)));
    tries(first);
    BOOST_TEST(takes(permit(9)));
    BOOST_TEST(!takes(permit(10)));
    auto p = permit(0);
    p.left = ttl / 2 - 1ms;
    BOOST_TEST(!takes(p));
    p = permit(0);
    p.ttl = ttl - 1ms;
    BOOST_TEST(!takes(p));
    p = permit(0);
    p.leases = 64;
    BOOST_TEST(!takes(p));
    p.leases = 63;
    p.age = 1s;
    BOOST_TEST(!takes(p));
    first.fenced = true;
    BOOST_TEST(!takes(permit(0)));
    p = permit(0);
    p.fenced = true;
    BOOST_TEST(takes(p));
    first.fenced = false;

    // The try that is under way serves the next one.
    BOOST_REQUIRE(q.join(second));
    BOOST_TEST(&q.take() == &first);
    BOOST_TEST((next(round_trip) == queue_effect::none));
    BOOST_TEST(q.trying());
    wins(second);
    BOOST_TEST((next(round_trip) == queue_effect::forget));
}

BOOST_AUTO_TEST_CASE(a_try_that_serves_nobody_any_more_is_given_up) {
    tries(first);
    BOOST_TEST(&q.take() == &first);
    BOOST_TEST((next(round_trip) == queue_effect::cancel_try));
    // Nor does it serve one with another number.
    tries(second);
    BOOST_REQUIRE(q.join(few));
    BOOST_TEST(!takes(permit(10)));
    BOOST_TEST(&q.take() == &second);
    BOOST_TEST((next(round_trip) == queue_effect::cancel_try));
    BOOST_TEST((next(round_trip) == queue_effect::try_all));
    q.try_begun(at(round_trip));
    BOOST_TEST(takes(permit(1)));
    BOOST_TEST(!takes(permit(2)));
    // What it has found in the way is nothing to one with another number.
    refused(2 * round_trip);
    BOOST_REQUIRE(q.join(first));
    q.leave(few);
    BOOST_TEST((next(2 * round_trip) == queue_effect::try_arbiter));
    q.try_begun(at(2 * round_trip), 1);
}

BOOST_AUTO_TEST_CASE(no_other_lock_gets_a_permit) {
    tries(plain);
    BOOST_TEST(!takes(permit(0)));
    BOOST_REQUIRE(q.join(first));
    BOOST_REQUIRE(&q.won(at(round_trip)) == &plain);
    BOOST_TEST((next(round_trip) == queue_effect::none));
    BOOST_TEST(q.held());
    BOOST_TEST(!q.hands_over(at(round_trip), ttl, ttl, 64, 1s));
    BOOST_TEST(!q.join(hurried));
    q.released(at(2 * round_trip));
    BOOST_TEST(q.stands_back());
}

BOOST_AUTO_TEST_CASE(a_permit_makes_nobody_stand_back) {
    tries(first);
    BOOST_REQUIRE(q.join(second));
    BOOST_REQUIRE(&q.won(at(round_trip)) == &first);
    q.released(at(round_trip));
    BOOST_TEST(!q.stands_back());
    BOOST_TEST((next(round_trip) == queue_effect::try_all));
    q.try_begun(at(round_trip));
}

BOOST_AUTO_TEST_SUITE_END()
