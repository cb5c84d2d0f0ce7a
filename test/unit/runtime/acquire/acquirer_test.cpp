// The acquirer without a lease keeper: the instances are fakes, and the test takes the winners.
#include "runtime/acquire/acquirer.hpp"
#include "runtime/engine/tenure_leader.hpp"

#include "unit/runtime/rooms.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <optional>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::runtime;
using namespace std::chrono_literals;
using protocol::command;
using protocol::verdict;

namespace {

class acquirer_alone final : public test::rooms {
public:
    explicit acquirer_alone(unsigned configured = 3)
        : rooms(configured) {}
    ~acquirer_alone() override {
        for (auto const& f : fakes) f->questions.clear();
        timers.clear();
        room.clear();
    }

    struct call {
        operation* op = nullptr;
        std::optional<error> result;
    };
    /// Begins an acquire that waits up to `limit`; with 0 it does not wait.
    void start(call& c, std::chrono::nanoseconds limit, lock_options const& options = {}) {
        auto& op = make_operation(
            acquire_call{.handler = detail::acquire_handler(
                             [&c](detail::delivery, error e, lease) { c.result = std::move(e); }),
                         .lock = make_lock(options),
                         .time = limit});
        c.op = &op;
        BOOST_TEST(room.start(op, [](lease_record&) { return false; }) == nullptr);
    }
    void lose_a_quorum() {
        fakes[1]->up = fakes[2]->up = false;
        instances.changed();
    }
    /// The time goes on to this, a millisecond at a time.
    void run_until(std::chrono::milliseconds end) {
        for (; now_ < end; now_ += std::chrono::milliseconds(1)) wait_until(now_);
    }
    errc code(call const& c) const {
        BOOST_REQUIRE(c.result.has_value());
        return static_cast<errc>(c.result->code().value());
    }

    acquirer room{shared, tenures, *this, 100ms, 24h};
    std::vector<operation*> winners;

private:
    std::chrono::milliseconds now_{1};
    void lead_answer(active_tenure& t, unsigned instance, command c, std::uint32_t round,
                     redis::answer const& a) override {
        if (!tenure_leader::is_of_try(t, c)) return; // the answer belongs to a release
        if (!room.on_answer(t, instance, c, round, a)) return;
        winners.push_back(&room.take_winner(t));
    }
    void lead_time(active_tenure& t, lease_clock::time_point now) override { room.on_time(t, now); }
};

constexpr lock_options impatient{.on_outage = outage_policy::fail};

} // namespace

BOOST_AUTO_TEST_SUITE(acquirer)

// The order of fences behind Sentinel rests on this (G54): hints are read when the quarantine is
// over.
BOOST_AUTO_TEST_CASE(an_instance_in_quarantine_is_asked_for_no_grant) {
    for (bool const fenced : {false, true}) {
        acquirer_alone a;
        a.fakes[2]->votes = false;
        acquirer_alone::call c;
        a.at(0ms, [&] { a.start(c, 0s, {.fencing = fenced}); });
        BOOST_TEST(a.fakes[0]->questions.size() == 1U);
        BOOST_TEST(a.fakes[1]->questions.size() == 1U);
        BOOST_TEST(a.fakes[2]->questions.empty());
    }
}

BOOST_AUTO_TEST_CASE(a_majority_makes_a_winner) {
    acquirer_alone a;
    acquirer_alone::call c;
    a.at(0ms, [&] { a.start(c, 1s); });
    a.at(1ms, [&] {
        a.fakes[0]->answer(command::acquire, verdict::yes);
        BOOST_TEST(a.winners.empty());
        a.fakes[2]->answer(command::acquire, verdict::yes);
    });
    BOOST_REQUIRE(a.winners.size() == 1U);
    BOOST_TEST(a.winners.front() == c.op);
    BOOST_TEST(!c.result.has_value()); // only the lease keeper grants a lease
    BOOST_TEST(a.count.rounds.load() == 1U);
}

BOOST_AUTO_TEST_CASE(the_error_is_the_cause_that_all_failures_share) {
    acquirer_alone a;
    a.lose_a_quorum();
    acquirer_alone::call c;
    a.at(0ms, [&] { a.start(c, 1s, impatient); });
    BOOST_CHECK(a.code(c) == errc::unreachable);
    auto const* const report = c.result->report();
    BOOST_REQUIRE(report != nullptr);
    BOOST_TEST(report->up == 1U);
    BOOST_TEST(report->instances[1].message == "unplugged");
    BOOST_TEST(a.count.acquire_failed.load() == 1U);
    BOOST_TEST(a.count.pending.load() == 0U);
    BOOST_TEST(a.fakes[0]->questions.empty()); // nothing was sent
}

BOOST_AUTO_TEST_CASE(a_refused_try_asks_what_is_in_the_way) {
    acquirer_alone a;
    acquirer_alone::call c;
    a.at(0ms, [&] { a.start(c, 0s); });
    a.at(1ms, [&] {
        a.fakes[0]->answer(command::acquire, verdict::yes);
        a.fakes[1]->answer(command::acquire, verdict::no);
        a.fakes[2]->answer(command::acquire, verdict::no);
        a.fakes[0]->answer(command::release, verdict::yes); // instance 0 had granted the key
    });
    BOOST_TEST(!c.result.has_value());
    a.at(2ms, [&] {
        for (auto const i : {1U, 2U}) {
            a.fakes[i]->answer(command::inspect, {.verdict = verdict::yes,
                                                  .ttl_known = true,
                                                  .ttl_left = 700ms,
                                                  .holder = "worker-7"});
        }
    });
    BOOST_CHECK(a.code(c) == errc::contended);
    BOOST_TEST(c.result->report()->holder == "worker-7");
    BOOST_TEST(c.result->report()->attempts == 1U);
    BOOST_CHECK(c.result->report()->waited == 2ms);
}

// Instance 2 has a key that a stranger left, and answers before instance 1. So the round ends with
// one of the two instances at which the key is no lock.
BOOST_AUTO_TEST_CASE(a_round_that_ends_early_does_not_lose_its_reason) {
    constexpr redis::answer no_lock{.verdict = verdict::refused, .cause = errc::wrong_type};
    constexpr redis::answer held{.verdict = verdict::yes, .ttl_known = true};
    for (auto const limit : {0s, 1s}) {
        acquirer_alone a;
        acquirer_alone::call c;
        a.at(0ms, [&] { a.start(c, limit); });
        a.at(1ms, [&] {
            a.fakes[0]->answer(command::acquire, verdict::no);
            a.fakes[2]->answer(command::acquire, verdict::no);
        });
        a.at(2ms, [&] {
            a.fakes[2]->answer(command::inspect, held);
            a.fakes[0]->answer(command::inspect, no_lock);
        });
        BOOST_TEST(!c.result.has_value());
        a.at(3ms, [&] {
            a.fakes[1]->answer(command::acquire, verdict::no);
            a.fakes[1]->answer(command::release, verdict::no);
            a.fakes[1]->answer(command::inspect, no_lock);
        });
        BOOST_CHECK(a.code(c) == errc::wrong_type);
    }
}

// One instance alone cannot be in the way.
BOOST_AUTO_TEST_CASE(a_key_that_is_no_lock_at_one_instance_is_held_elsewhere) {
    acquirer_alone a;
    acquirer_alone::call c;
    a.at(0ms, [&] { a.start(c, 0s); });
    a.at(1ms, [&] { a.answer_all(command::acquire, verdict::no); });
    a.at(2ms, [&] {
        a.fakes[0]->answer(command::inspect,
                           {.verdict = verdict::refused, .cause = errc::wrong_type});
        a.fakes[1]->answer(command::inspect, {.verdict = verdict::yes, .ttl_known = true});
    });
    a.at(3ms, [&] {
        a.fakes[2]->answer(command::release, verdict::no);
        a.fakes[2]->answer(command::inspect, {.verdict = verdict::yes, .ttl_known = true});
    });
    BOOST_CHECK(a.code(c) == errc::contended);
}

BOOST_AUTO_TEST_CASE(a_limit_ends_the_wait_for_a_holder) {
    acquirer_alone a;
    acquirer_alone::call c;
    a.at(0ms, [&] { a.start(c, 50ms); });
    a.at(1ms, [&] { a.answer_all(command::acquire, verdict::no); });
    BOOST_TEST(a.count.waiters.load() == 1U);
    // The timer queue may call a timer up to a millisecond early.
    a.wait_until(49ms + 500us);
    BOOST_TEST(!c.result.has_value());
    a.wait_until(50ms);
    BOOST_CHECK(a.code(c) == errc::wait_timeout);
    BOOST_TEST(a.count.waiters.load() == 0U);
}

BOOST_AUTO_TEST_CASE(a_cancelled_try_is_taken_back_everywhere) {
    acquirer_alone a;
    acquirer_alone::call c;
    a.at(0ms, [&] { a.start(c, 1s); });
    a.at(1ms, [&] { a.room.cancel(*c.op, asio::cancellation_type_t::terminal); });
    BOOST_TEST(c.result.has_value());
    BOOST_CHECK(c.result->code() == asio::error::operation_aborted);
    for (auto const& f : a.fakes) {
        BOOST_REQUIRE(f->questions.size() == 2U);
        BOOST_CHECK(f->questions.back().command == command::release);
    }
    a.at(2ms, [&] { a.answer_all(command::acquire, verdict::yes); });
    BOOST_TEST(a.winners.empty());
}

BOOST_AUTO_TEST_CASE(a_total_cancellation_waits_for_the_end_of_the_try) {
    acquirer_alone a;
    acquirer_alone::call c;
    a.at(0ms, [&] { a.start(c, 1s); });
    a.at(1ms, [&] { a.room.cancel(*c.op, asio::cancellation_type_t::total); });
    BOOST_TEST(!c.result.has_value());
    a.at(2ms, [&] { a.answer_all(command::acquire, verdict::no); });
    BOOST_REQUIRE(c.result.has_value());
    BOOST_CHECK(c.result->code() == asio::error::operation_aborted);
}

BOOST_AUTO_TEST_CASE(a_waiter_inherits_the_try_of_the_one_before_it) {
    acquirer_alone a;
    acquirer_alone::call first, second;
    a.at(0ms, [&] {
        a.start(first, 1s);
        a.start(second, 1s);
    });
    BOOST_TEST(a.count.waiters.load() == 1U);
    a.at(1ms, [&] {
        a.room.cancel(*first.op, asio::cancellation_type_t::terminal);
        a.answer_all(command::acquire, verdict::yes);
    });
    BOOST_REQUIRE(a.winners.size() == 1U);
    BOOST_TEST(a.winners.front() == second.op);
    BOOST_TEST(a.count.rounds.load() == 1U);
}

//
// Outages
//

BOOST_AUTO_TEST_CASE(an_acquire_waits_for_instances_within_its_limit) {
    acquirer_alone a;
    a.lose_a_quorum();
    acquirer_alone::call c;
    a.at(0ms, [&] { a.start(c, 10s); });
    BOOST_TEST(!c.result.has_value());
    BOOST_TEST(a.count.waiters.load() == 1U);
    a.at(1s, [&] {
        a.fakes[1]->up = true;
        a.instances.changed();
        a.room.on_available();
    });
    a.wait_until(1010ms);
    a.at(1011ms, [&] {
        a.fakes[0]->answer(command::acquire, verdict::yes);
        a.fakes[1]->answer(command::acquire, verdict::yes);
    });
    BOOST_REQUIRE(a.winners.size() == 1U);
    BOOST_TEST(a.winners.front() == c.op);
}

BOOST_AUTO_TEST_CASE(the_pauses_between_tries_in_an_outage_grow_to_a_second) {
    acquirer_alone a;
    a.lose_a_quorum();
    acquirer_alone::call c;
    a.at(0ms, [&] { a.start(c, 60s); });
    a.run_until(30s);
    BOOST_TEST(!c.result.has_value());
    // 50, 100, 200, 400, 800 ms and then 1 s, each up to a quarter shorter.
    BOOST_TEST(a.count.rounds.load() >= 30U);
    BOOST_TEST(a.count.rounds.load() <= 5U + 40U);
}

BOOST_AUTO_TEST_CASE(a_limit_that_ends_in_an_outage_tells_its_cause) {
    acquirer_alone a;
    a.lose_a_quorum();
    acquirer_alone::call c;
    a.at(0ms, [&] { a.start(c, 500ms); });
    a.run_until(499ms);
    BOOST_TEST(!c.result.has_value());
    a.wait_until(501ms);
    BOOST_CHECK(a.code(c) == errc::unreachable);
    BOOST_REQUIRE(c.result->report() != nullptr);
    BOOST_TEST(c.result->report()->instances[1].message == "unplugged");
}

BOOST_AUTO_TEST_CASE(a_holder_that_was_seen_before_an_outage_is_not_its_cause) {
    acquirer_alone a;
    acquirer_alone::call c;
    a.at(0ms, [&] { a.start(c, 2s); });
    a.at(1ms, [&] { a.answer_all(command::acquire, verdict::no); });
    a.at(2ms, [&] {
        for (auto const i : {0U, 1U}) {
            a.fakes[i]->answer(command::inspect,
                               {.verdict = verdict::yes, .ttl_known = true, .ttl_left = 100ms});
        }
        a.lose_a_quorum();
        a.room.on_unavailable(1);
        a.room.on_unavailable(2);
    });
    a.run_until(2001ms);
    BOOST_CHECK(a.code(c) == errc::unreachable);
}

BOOST_AUTO_TEST_CASE(behind_an_acquire_that_waits_for_instances_the_others_hear_of_the_outage) {
    acquirer_alone a;
    a.lose_a_quorum();
    acquirer_alone::call patient, before, after, once;
    a.at(0ms, [&] {
        a.start(patient, 10s);
        a.start(before, 10s, impatient);
    });
    a.at(1ms, [&] {
        a.start(after, 10s, impatient);
        a.start(once, 0s);
    });
    BOOST_TEST(!patient.result.has_value());
    for (auto const* c : {&before, &after, &once}) BOOST_CHECK(a.code(*c) == errc::unreachable);
}

BOOST_AUTO_TEST_CASE(an_acquire_that_waits_goes_on_behind_one_that_does_not) {
    acquirer_alone a;
    acquirer_alone::call hasty, patient;
    a.at(0ms, [&] {
        a.start(hasty, 0s);
        a.start(patient, 10s);
    });
    a.at(1ms, [&] {
        a.fakes[0]->answer(command::acquire, verdict::unknown);
        a.fakes[1]->answer(command::acquire, verdict::unknown);
    });
    BOOST_CHECK(a.code(hasty) == errc::unreachable);
    BOOST_TEST(!patient.result.has_value());
}

BOOST_AUTO_TEST_CASE(an_acquire_does_not_wait_where_errors_are_permanent) {
    acquirer_alone a;
    acquirer_alone::call c;
    a.at(0ms, [&] { a.start(c, 10s); });
    redis::answer const denied{.verdict = verdict::refused, .cause = errc::access_denied};
    a.at(1ms, [&] {
        a.fakes[0]->answer(command::acquire, denied);
        a.fakes[1]->answer(command::acquire, denied);
    });
    BOOST_CHECK(a.code(c) == errc::access_denied);
}

BOOST_AUTO_TEST_CASE(a_total_cancellation_in_an_outage_is_heard_at_the_end_of_the_try) {
    acquirer_alone a;
    acquirer_alone::call c;
    a.at(0ms, [&] { a.start(c, 10s); });
    a.at(1ms, [&] {
        a.room.cancel(*c.op, asio::cancellation_type_t::total);
        a.fakes[0]->answer(command::acquire, verdict::unknown);
        a.fakes[1]->answer(command::acquire, verdict::unknown);
    });
    BOOST_REQUIRE(c.result.has_value());
    BOOST_CHECK(c.result->code() == asio::error::operation_aborted);
}

BOOST_AUTO_TEST_CASE(an_end_refuses_all) {
    acquirer_alone a;
    acquirer_alone::call waiting, late;
    a.at(0ms, [&] { a.start(waiting, 1s); });
    a.at(1ms, [&] {
        a.room.refuse_new();
        a.room.refuse_waiting();
        a.room.for_each_queue([&](active_queue& q) { a.room.settle(q, a.now_turn.time()); });
        a.start(late, 1s);
    });
    BOOST_CHECK(a.code(waiting) == errc::shut_down);
    BOOST_CHECK(a.code(late) == errc::shut_down);
    auto queues = 0;
    a.room.for_each_queue([&](active_queue&) { ++queues; });
    BOOST_TEST(queues == 0);
}

BOOST_AUTO_TEST_SUITE_END()
