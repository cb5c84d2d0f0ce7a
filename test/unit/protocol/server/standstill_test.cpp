// Equal jumps of the servers' clocks may show that the client's clock stood still. The tests check
// how the client tells that from jumps of the servers.
#include "protocol/server/clock_guard.hpp"
#include "protocol/server/standstill.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <vector>

using namespace std::chrono_literals;
namespace protocol = holdfast::protocol;
using protocol::duration;
using protocol::instance_set;
using protocol::time_point;

namespace {

/// Servers whose clocks can be set, and a client whose clock can stand still. Each answer takes 1
/// ms.
struct clocks {
    explicit clocks(unsigned count)
        : ours(count, 60s)
        , guards(count, protocol::clock_guard(60s))
        , ahead(count) {
        for (unsigned i = 0; i < count; ++i) ask_time(i);
        pass(1s);
    }

    void pass(duration d) { truth += d; }
    void stop(duration d) {
        pass(d);
        stood += d;
    }
    time_point now() const { return time_point(1'000s + truth - stood); }
    void ask_time(unsigned i) {
        auto const sent = now();
        pass(1ms);
        guards[i].on_time(sent, now(), truth + ahead[i]);
        ours.observed(i, guards[i].last());
    }
    protocol::standstill::equal_jumps evaluate() { return ours.evaluate(there); }
    protocol::standstill::equal_jumps evaluate_after(unsigned i) {
        ask_time(i);
        return evaluate();
    }

    protocol::standstill ours;
    std::vector<protocol::clock_guard> guards;
    std::vector<duration> ahead;
    duration truth{}, stood{};
    instance_set there = instance_set::first(instance_set::capacity);
};

} // namespace

BOOST_AUTO_TEST_SUITE(standstill)

BOOST_AUTO_TEST_CASE(equal_jumps_of_all_are_ours) {
    clocks c(3);
    c.stop(50ms);
    BOOST_TEST(c.evaluate_after(0).instances.empty());
    BOOST_TEST((c.ours.to_ask(c.there) == instance_set::first(3)));
    auto const majority = c.evaluate_after(1);
    BOOST_TEST(majority.is_new);
    BOOST_TEST(!majority.is_ours); // the third server may show no jump
    BOOST_TEST((majority.least <= 50ms && majority.most >= 50ms && majority.most < 100ms));
    auto const all = c.evaluate_after(2);
    BOOST_TEST(!all.is_new); // the deadlines were moved already
    BOOST_TEST(all.is_ours);
    BOOST_TEST(all.instances.size() == 3U);
    BOOST_TEST(!c.ours.has_unexplained_jumps());
    BOOST_TEST(c.evaluate_after(0).instances.empty());
}

// The map of a Cluster comes after the first readings.
BOOST_AUTO_TEST_CASE(a_change_of_their_number_forgets_no_reading) {
    clocks c(3);
    c.ours.configure(1);
    c.ours.configure(3);
    c.stop(50ms);
    c.ask_time(0);
    BOOST_TEST((c.ours.to_ask(c.there) == instance_set::first(3)));
    BOOST_TEST(!c.evaluate_after(1).is_ours); // the third server may show no jump
    BOOST_TEST(c.evaluate_after(2).is_ours);
}

BOOST_AUTO_TEST_CASE(each_standstill_counts_once) {
    clocks c(3);
    for (auto n = 0; n < 3; ++n) {
        c.pass(1s);
        c.stop(200ms);
        c.ask_time(2);
        c.evaluate();
        BOOST_TEST(c.evaluate_after(0).is_new);
        auto const all = c.evaluate_after(1);
        BOOST_TEST((all.is_ours && !all.is_new));
    }
}

BOOST_AUTO_TEST_CASE(one_that_did_not_jump_shows_that_it_was_the_servers) {
    clocks c(3);
    c.ahead[0] = c.ahead[1] = 10s;
    BOOST_TEST(c.evaluate_after(0).instances.empty());
    BOOST_TEST(c.evaluate_after(1).is_new); // the keys of a majority expire earlier
    BOOST_TEST(!c.evaluate_after(2).is_ours);
    BOOST_TEST(!c.evaluate_after(2).is_ours);
}

BOOST_AUTO_TEST_CASE(one_that_cannot_be_asked_is_not_waited_for) {
    clocks c(3);
    c.stop(10s);
    c.ask_time(0);
    BOOST_TEST(!c.evaluate_after(1).is_ours);
    c.there.erase(2); // instance 2 goes down
    auto const f = c.evaluate();
    BOOST_TEST((f.is_ours && !f.is_new));
    // The guard of instance 2 finds no new jump when the instance is back.
    c.guards[2].stood_still(f.from, f.to, f.least, f.most);
    c.pass(1s);
    c.ask_time(2);
    BOOST_TEST(!c.ours.has_unexplained_jumps());
}

BOOST_AUTO_TEST_CASE(other_jumps_are_the_servers) {
    clocks minority(5), unequal(3), apart(3);
    minority.ahead[0] = minority.ahead[1] = 10s;
    for (unsigned i = 0; i < 5; ++i) BOOST_TEST(minority.evaluate_after(i).instances.empty());
    unequal.ahead = {10s, 11s, 12s};
    for (unsigned i = 0; i < 3; ++i) BOOST_TEST(unequal.evaluate_after(i).instances.empty());
    for (unsigned i = 0; i < 3; ++i) { // the clocks jump at different times
        apart.ahead[i] = 10s;
        for (unsigned k = 0; k < 3; ++k) BOOST_TEST(apart.evaluate_after(k).instances.empty());
        apart.pass(1s);
    }
}

// In a long outage the clocks may drift by more than the difference of the jumps.
BOOST_AUTO_TEST_CASE(jumps_seen_after_a_long_time_may_have_been_of_any_size) {
    for (auto const outage : {10min, 30min}) {
        clocks c(3);
        c.there.erase(2); // instance 2 cannot be asked now
        c.pass(outage);
        c.ahead = {3s, 3s + 500ms, 0s};
        c.ask_time(0);
        auto const f = c.evaluate_after(1);
        BOOST_TEST(f.is_new); // the deadlines move, to be safe
        BOOST_TEST(!f.is_ours);
    }
}

BOOST_AUTO_TEST_CASE(who_was_not_asked_for_long_cannot_agree) {
    clocks c(3);
    c.pass(30s);
    c.ask_time(0);
    c.ask_time(1);
    c.pass(1s);
    c.ahead[0] = c.ahead[1] = 100ms; // the third clock may have drifted as far
    c.ask_time(0);
    c.evaluate_after(1);
    BOOST_TEST(!c.evaluate_after(2).is_ours);
}

BOOST_AUTO_TEST_CASE(what_is_not_explained_is_forgotten_after_the_longest_ttl) {
    clocks c(5);
    c.ahead[0] = c.ahead[1] = c.ahead[2] = 10s;
    for (unsigned i = 0; i < 5; ++i) BOOST_TEST(!c.evaluate_after(i).is_ours);
    for (auto passed = 0s; passed < 58s; passed += 2s) {
        c.pass(2s);
        for (unsigned i = 0; i < 5; ++i) c.evaluate_after(i);
        BOOST_TEST(c.ours.has_unexplained_jumps());
    }
    c.pass(3s);
    for (unsigned i = 0; i < 5; ++i) c.evaluate_after(i);
    BOOST_TEST(!c.ours.has_unexplained_jumps());
    c.stop(50ms);
    protocol::standstill::equal_jumps last;
    for (unsigned i = 0; i < 5; ++i) last = c.evaluate_after(i);
    BOOST_TEST(last.is_ours);
}

// An instance that was away completes the majority when it is back.
BOOST_AUTO_TEST_CASE(a_standstill_moves_deadlines_when_a_majority_shows_it_however_late) {
    clocks c(3);
    c.there.erase(1);
    c.there.erase(2);
    c.stop(10s);
    BOOST_TEST(c.evaluate_after(0).instances.empty());
    for (auto passed = 0s; passed < 30s; passed += 2s) {
        c.pass(2s);
        BOOST_TEST(c.evaluate_after(0).instances.empty());
    }
    c.there.insert(1);
    auto const f = c.evaluate_after(1);
    BOOST_TEST(f.is_new);
    BOOST_TEST((f.by >= 10s));
}

BOOST_AUTO_TEST_CASE(a_jump_that_is_shown_in_two_parts_moves_deadlines_by_their_sum) {
    clocks c(3);
    c.stop(4s);
    c.ask_time(0);
    auto const first = c.evaluate_after(1);
    BOOST_TEST((first.is_new && first.by >= 4s && first.by < 5s));
    c.stop(6s);
    c.ask_time(2); // instance 2 shows both standstills at once
    auto const second = c.evaluate_after(0);
    BOOST_TEST((second.is_new && first.by + second.by >= 10s && first.by + second.by < 11s));
    auto const third = c.evaluate_after(1);
    BOOST_TEST(!third.is_new);
    BOOST_TEST(third.is_ours);
}

// After a pause a machine reads its answers late, and late answers can hide a jump.
BOOST_AUTO_TEST_CASE(what_a_slow_answer_has_hidden_counts_from_before_it) {
    clocks c(3);
    c.pass(1s);
    c.stop(200ms);
    c.ask_time(0);
    for (unsigned i : {1U, 2U}) {
        auto const sent = c.now();
        auto const shown = c.truth;
        c.pass(300ms);
        c.guards[i].on_time(sent, c.now(), shown);
        c.ours.observed(i, c.guards[i].last());
        BOOST_TEST(c.evaluate().instances.empty());
    }
    c.pass(1s);
    BOOST_TEST(c.evaluate_after(1).is_new);
    auto const all = c.evaluate_after(2);
    BOOST_TEST(all.is_ours);
    BOOST_TEST(all.instances.size() == 3U);
}

BOOST_AUTO_TEST_CASE(a_lone_instance_has_nobody_who_could_agree) {
    clocks c(1);
    c.stop(50ms);
    auto const f = c.evaluate_after(0);
    BOOST_TEST(f.is_new);
    BOOST_TEST(!f.is_ours);
    BOOST_TEST(!c.evaluate_after(0).is_new);
}

BOOST_AUTO_TEST_CASE(an_answer_that_was_under_way_shows_a_part) {
    clocks c(3);
    auto const sent = c.now();
    c.stop(400ms); // instance 0 reads its clock between the two stops
    auto const shown = c.truth;
    c.stop(600ms);
    c.pass(1ms);
    c.guards[0].on_time(sent, c.now(), shown);
    c.ours.observed(0, c.guards[0].last());
    c.ask_time(1);
    auto const majority = c.evaluate_after(2);
    BOOST_TEST(majority.is_new);
    BOOST_TEST((majority.most >= 1s));
    BOOST_TEST(!majority.is_ours);
    auto const all = c.evaluate_after(0); // instance 0 shows the rest
    BOOST_TEST(all.is_ours);
    BOOST_TEST(all.instances.size() == 3U);
}

BOOST_AUTO_TEST_CASE(servers_whose_seconds_differ_agree_on_a_long_one) {
    clocks c(3);
    c.stop(100s);
    c.ahead = {450ms, -450ms, duration::zero()};
    c.ask_time(0);
    BOOST_TEST(c.evaluate_after(1).is_new);
    BOOST_TEST(c.evaluate_after(2).is_ours);
}

BOOST_AUTO_TEST_SUITE_END()
