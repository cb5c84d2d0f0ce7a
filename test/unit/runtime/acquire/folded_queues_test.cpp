// Keys that are held while no acquire waits: they have no queue, until an acquire needs it.
#include "unit/runtime/held_keys.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <string>
#include <vector>

using namespace holdfast;
using namespace holdfast::runtime;
using namespace std::chrono_literals;
using protocol::command;
using protocol::verdict;

namespace {

constexpr lock_options unwatched{.ttl = 1s, .watchdog = false};

errc code(test::held_keys::call const& c) {
    BOOST_REQUIRE(c.result.has_value());
    return static_cast<errc>(c.result->code().value());
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(folded_queues, test::held_keys)

BOOST_AUTO_TEST_CASE(a_key_with_a_holder_alone_has_no_queue) {
    auto& c = hold(0ms);
    BOOST_TEST(queues() == 0U);
    BOOST_TEST(c.tenure().queue == nullptr);
    auto const token = std::string(c.tenure().token_text({}).view());
    BOOST_TEST(room.has_token("seat:7", token));
    BOOST_TEST(!room.has_token("seat:7", "another"));
    BOOST_TEST(!room.has_token("seat:8", token));
}

BOOST_AUTO_TEST_CASE(a_release_frees_the_key) {
    auto& c = hold(0ms);
    auto const token = std::string(c.tenure().token_text({}).view());
    at(2ms, [&] { release(c); });
    BOOST_TEST(asked(command::release) == 1U);
    BOOST_TEST(queues() == 0U);
    BOOST_TEST(!room.has_token("seat:7", token));
    at(3ms, [&] { answer_all(command::release, verdict::yes); });
    BOOST_TEST(hold(4ms).granted());
}

BOOST_AUTO_TEST_CASE(later_acquires_get_the_key_in_their_order) {
    auto& first = hold(0ms);
    std::vector<call*> others;
    for (int n = 0; n < 3; ++n) at(2ms, [&] { others.push_back(&acquire()); });
    BOOST_TEST(queues() == 1U);
    BOOST_TEST(count.waiters.load() == 3U);
    auto* holder = &first;
    for (auto* const c : others) {
        BOOST_TEST(!c->result.has_value());
        at(3ms, [&] { release(*holder); });
        BOOST_TEST(c->granted());
        holder = c;
    }
    BOOST_TEST(count.handovers.load() == 3U);
    BOOST_TEST(count.rounds.load() == 1U);
    BOOST_TEST(asked(command::release) == 0U);
}

BOOST_AUTO_TEST_CASE(fences_go_on) {
    lock_options const fenced{.fencing = true};
    call* first = nullptr;
    at(0ms, [&] { first = &acquire(1min, fenced); });
    at(1ms, [&] {
        for (auto const& f : fakes) {
            f->answer(command::acquire, {.verdict = verdict::yes, .number = 7});
        }
    });
    BOOST_REQUIRE(first->granted());
    BOOST_TEST(queues() == 0U);
    auto* holder = first;
    for (unsigned n = 1; n <= 3; ++n) {
        call* next = nullptr;
        // The queue of the last hand-over is empty for a moment. It is not folded.
        at(2ms, [&] { next = &acquire(1min, fenced); });
        at(3ms, [&] { release(*holder); });
        BOOST_REQUIRE(next->granted());
        BOOST_TEST(next->handle->fence == first->handle->fence + n);
        BOOST_TEST(queues() == 1U);
        holder = next;
    }
}

BOOST_AUTO_TEST_CASE(a_waiter_with_a_fence_gets_no_lease_of_a_tenure_without) {
    auto& first = hold(0ms);
    call* next = nullptr;
    at(2ms, [&] { next = &acquire(1min, {.fencing = true}); });
    at(3ms, [&] { release(first); });
    BOOST_TEST(!next->granted());
    BOOST_TEST(count.handovers.load() == 0U);
}

BOOST_AUTO_TEST_CASE(hand_overs_end_at_the_limits) {
    for (lock_options const& limited : {lock_options{.handover_limit = 2, .handover_time = 1h},
                                        lock_options{.handover_time = 100ms}}) {
        held_keys k;
        auto& first = k.hold(0ms, limited);
        call *second = nullptr, *third = nullptr;
        k.at(90ms, [&] { second = &k.acquire(1min, limited); });
        k.at(99ms, [&] { k.release(first); });
        BOOST_TEST(second->granted());
        k.at(99ms, [&] { third = &k.acquire(1min, limited); });
        k.at(102ms, [&] { k.release(*second); });
        BOOST_TEST(!third->granted());
        BOOST_TEST(k.asked(command::release) == 1U);
    }
}

BOOST_AUTO_TEST_CASE(an_acquire_that_does_not_wait_is_refused) {
    hold(0ms);
    for (int n = 0; n < 2; ++n) {
        call* c = nullptr;
        at(2ms, [&] { c = &acquire(0s); });
        BOOST_CHECK(code(*c) == errc::contended);
        BOOST_REQUIRE(c->result->report() != nullptr);
        BOOST_TEST(c->result->report()->holder == "this client");
        BOOST_TEST(c->result->report()->attempts == 0U);
        BOOST_TEST(queues() == 0U);
    }
    BOOST_TEST(count.rounds.load() == 1U);
}

BOOST_AUTO_TEST_CASE(an_adoption_is_refused) {
    auto& c = hold(0ms);
    lease_token const token{.value = std::string(c.tenure().token_text({}).view())};
    call* adopts = nullptr;
    at(2ms, [&] { adopts = &adopt(token); });
    BOOST_CHECK(code(*adopts) == errc::contended);
    BOOST_TEST(queues() == 0U);
    BOOST_TEST(c.held());
}

BOOST_AUTO_TEST_CASE(an_adopted_key_has_no_queue) {
    lease_token const token{.value = "of another process"};
    call* c = nullptr;
    at(0ms, [&] { c = &adopt(token); });
    at(1ms, [&] { answer_all(command::extend, verdict::yes); });
    BOOST_REQUIRE(c->granted());
    BOOST_TEST(queues() == 0U);
    BOOST_TEST(room.has_token("seat:7", token.value));
}

BOOST_AUTO_TEST_CASE(leases_before_an_adoption_count) {
    lease_token const token{.value = "of another process", .fence = 700 + 41};
    call *c = nullptr, *next = nullptr;
    at(0ms, [&] { c = &adopt(token); });
    at(1ms, [&] { answer_all(command::extend, verdict::yes); });
    BOOST_REQUIRE(c->granted());
    BOOST_TEST(c->handle->fence == 741U);
    at(2ms, [&] { next = &acquire(1min, {.fencing = true}); });
    at(3ms, [&] { release(*c); });
    BOOST_REQUIRE(next->granted());
    BOOST_TEST(next->handle->fence == 742U);
}

BOOST_AUTO_TEST_CASE(a_waiter_that_leaves_takes_the_queue_with_it) {
    auto& c = hold(0ms);
    call *impatient = nullptr, *cancelled = nullptr;
    at(2ms, [&] {
        impatient = &acquire(50ms);
        cancelled = &acquire();
    });
    at(3ms, [&] { room.cancel(*cancelled->op, asio::cancellation_type_t::terminal); });
    BOOST_TEST(queues() == 1U);
    wait_until(54ms);
    BOOST_CHECK(code(*impatient) == errc::wait_timeout);
    BOOST_TEST(queues() == 0U);
    BOOST_TEST(count.waiters.load() == 0U);
    BOOST_TEST(c.held());
}

BOOST_AUTO_TEST_CASE(a_queue_that_has_more_to_remember_stays) {
    {
        held_keys yielding;
        yielding.hold(0ms, {.yield_to_pollers = 20ms});
        BOOST_TEST(yielding.queues() == 1U);
    }
    {
        held_keys contended;
        call* c = nullptr;
        contended.at(0ms, [&] { c = &contended.acquire(); });
        contended.at(1ms, [&] { contended.answer_all(command::acquire, verdict::no); });
        auto const answer_everything = [&] {
            for (auto const& f : contended.fakes) {
                while (!f->questions.empty()) {
                    f->answer(f->questions.front().command, verdict::yes);
                }
            }
        };
        contended.at(2ms, answer_everything); // release and inspect
        contended.wait_until(1s);
        contended.at(1s, answer_everything); // contend
        contended.at(1s, answer_everything); // acquire
        BOOST_REQUIRE(c->granted());
        BOOST_TEST(contended.queues() == 1U);
    }
    {
        held_keys failing;
        call* c = nullptr;
        failing.at(0ms, [&] { c = &failing.acquire(); });
        failing.at(1ms, [&] {
            failing.fakes[2]->answer(command::acquire,
                                     {.verdict = verdict::refused, .cause = errc::rejected});
            failing.fakes[0]->answer(command::acquire, verdict::yes);
            failing.fakes[1]->answer(command::acquire, verdict::yes);
        });
        BOOST_REQUIRE(c->granted());
        BOOST_TEST(failing.queues() == 1U); // for the report of a later acquire
    }
}

// The stand-back lasts for five round trips, as the queue has measured them before it was folded.
BOOST_AUTO_TEST_CASE(the_round_trip_is_remembered) {
    auto& c = hold(0ms); // takes a millisecond
    call* next = nullptr;
    at(2s, [&] { next = &acquire(1min, {.ttl = 1h}); }); // longer than the tenure's
    at(2s + 1ms, [&] {
        release(c);
        BOOST_TEST(asked(command::acquire) == 0U);
    });
    at(2s + 2ms, [&] { answer_all(command::release, verdict::yes); });
    fakes[0]->questions.clear(); // the question of a process that listens
    fakes[1]->questions.clear();
    fakes[2]->questions.clear();
    wait_until(2s + 1ms + 5ms - 1us);
    BOOST_TEST(asked(command::acquire) == 0U);
    wait_until(2s + 1ms + 5ms);
    BOOST_TEST(asked(command::acquire) == 1U);
    BOOST_TEST(!next->result.has_value());
}

// Another client had a vote, as is known after the lease has begun. So the process stands back.
BOOST_AUTO_TEST_CASE(an_opposed_tenure_makes_its_process_stand_back) {
    call *c = nullptr, *next = nullptr;
    at(0ms, [&] { c = &acquire(); });
    at(1ms, [&] {
        fakes[0]->answer(command::acquire, verdict::yes);
        fakes[1]->answer(command::acquire, verdict::yes);
    });
    BOOST_REQUIRE(c->granted());
    BOOST_TEST(queues() == 0U);
    at(2ms, [&] { fakes[2]->answer(command::acquire, verdict::no); });
    BOOST_TEST(queues() == 0U);
    at(3ms, [&] { release(*c); });
    BOOST_TEST(queues() == 1U);
    at(4ms, [&] { next = &acquire(); });
    for (auto const& f : fakes) f->questions.clear();
    wait_until(3ms + 5ms - 1us);
    BOOST_TEST(asked(command::acquire) == 0U);
    wait_until(3ms + 5ms);
    BOOST_TEST(asked(command::acquire) == 1U);
    BOOST_TEST(!next->result.has_value());
}

BOOST_AUTO_TEST_CASE(a_loss_frees_the_key) {
    lock_options const renewed{.ttl = 1s};
    auto& c = hold(0ms, renewed);
    wait_until(400ms);
    BOOST_REQUIRE(asked(command::extend) == 1U);
    at(401ms, [&] {
        fakes[0]->answer(command::extend, verdict::no);
        fakes[1]->answer(command::extend, verdict::no);
    });
    BOOST_TEST(!c.held());
    BOOST_TEST(queues() == 0U);
    for (auto const& f : fakes) f->questions.clear();
    at(402ms, [&] { acquire(1min, renewed); });
    BOOST_TEST(asked(command::acquire) == 1U);
}

// Its holder is told ahead of the deadline. Until then the key is not free.
BOOST_AUTO_TEST_CASE(an_acquire_waits_for_the_deadline_of_a_lost_lease) {
    auto& c = hold(0ms, unwatched);
    wait_until(988ms - 50ms);
    BOOST_TEST(!c.held());
    BOOST_TEST(keeper.has_tenures());
    BOOST_TEST(queues() == 0U);
    call *refused = nullptr, *next = nullptr;
    at(950ms, [&] {
        refused = &acquire(0s, unwatched);
        next = &acquire(1min, unwatched);
    });
    BOOST_CHECK(code(*refused) == errc::contended);
    BOOST_TEST(asked(command::acquire) == 0U);
    wait_until(988ms);
    BOOST_TEST(!next->result.has_value());
    BOOST_TEST(!keeper.has_tenures());
    std::size_t tries = 0;
    for (auto const& f : fakes) {
        BOOST_REQUIRE(!f->questions.empty());
        BOOST_CHECK(f->questions[0].command == command::release);
        if (f->questions.back().command == command::contend) ++tries;
    }
    BOOST_TEST(tries == 1U); // at the arbiter
}

BOOST_AUTO_TEST_CASE(the_deadline_of_a_lost_lease_ends_its_tenure) {
    hold(0ms, unwatched);
    wait_until(988ms - 50ms);
    wait_until(988ms);
    BOOST_TEST(!keeper.has_tenures());
    BOOST_TEST(asked(command::release) == 1U);
    at(989ms, [&] { answer_all(command::release, verdict::yes); });
    BOOST_TEST(hold(990ms, unwatched).granted());
}

BOOST_AUTO_TEST_CASE(a_waiter_that_came_after_the_loss_gets_the_rest_of_the_tenure) {
    lock_options const limited{.ttl = 1s, .max_hold = 300ms, .handover_time = 1s};
    auto& c = hold(0ms, limited);
    wait_until(286ms);
    BOOST_TEST(!c.held());
    call* next = nullptr;
    at(290ms, [&] { next = &acquire(1min, limited); });
    wait_until(301ms);
    BOOST_TEST(next->granted());
    BOOST_TEST(count.handovers.load() == 1U);
    BOOST_TEST(count.rounds.load() == 1U);
}

// The caller drops its lease and asks at once for the same key. The inbox still has the drop.
BOOST_AUTO_TEST_CASE(a_dropped_lease_does_not_stand_in_the_way) {
    auto& c = hold(0ms);
    dropped = &c.state();
    call* next = nullptr;
    at(2ms, [&] { next = &acquire(0s); });
    BOOST_TEST(!next->result.has_value());
    for (auto const& f : fakes) {
        BOOST_REQUIRE(f->questions.size() == 2U);
        BOOST_CHECK(f->questions[0].command == command::release);
        BOOST_CHECK(f->questions[1].command == command::acquire);
    }
    at(3ms, [&] {
        answer_all(command::release, verdict::yes);
        answer_all(command::acquire, verdict::yes);
    });
    BOOST_TEST(next->granted());
}

BOOST_AUTO_TEST_CASE(a_dropped_lease_is_handed_to_the_waiter_before) {
    auto& c = hold(0ms);
    call *next = nullptr, *last = nullptr;
    at(2ms, [&] { next = &acquire(); });
    dropped = &c.state();
    at(3ms, [&] { last = &acquire(); });
    BOOST_TEST(next->granted());
    BOOST_TEST(!last->result.has_value());
}

BOOST_AUTO_TEST_CASE(pushes_and_releases_of_a_folded_key_are_ignored) {
    auto& c = hold(0ms);
    at(2ms, [&] {
        room.on_push(0, "seat:7");
        room.on_push_for_all(0);
        room.on_own_release(0, "seat:7");
        room.on_unavailable(1);
        room.on_available();
    });
    BOOST_TEST(count.pushes.load() == 0U);
    BOOST_TEST(c.held());
    BOOST_TEST(queues() == 0U);
}

BOOST_AUTO_TEST_CASE(a_detached_lease_leaves_no_queue) {
    auto& c = hold(0ms);
    auto const token = std::string(c.tenure().token_text({}).view());
    at(2ms, [&] { BOOST_TEST(keeper.leave_key(c.tenure()) == nullptr); });
    BOOST_TEST(!room.has_token("seat:7", token));
    BOOST_TEST(asked(command::release) == 0U);
}

// A tenure in use refers to the lock state, and so keeps the engine.
BOOST_AUTO_TEST_CASE(an_ended_tenure_is_used_again) {
    auto const in_use = [&] {
        std::size_t n = 0;
        tenures.for_each([&](active_tenure&) { ++n; });
        return n;
    };
    auto const drop = [&](call& c) {
        auto& l = c.state();
        c.object = {};
        c.handle.detach();
        BOOST_TEST(keeper.let_go(l, true) == nullptr);
    };
    auto& released = hold(0ms);
    BOOST_TEST(in_use() == 1U);
    at(2ms, [&] { release(released); });
    at(3ms, [&] { answer_all(command::release, verdict::yes); });
    at(3ms, [&] { drop(released); });
    BOOST_TEST(in_use() == 0U);

    auto& dropped_lease = hold(4ms);
    at(5ms, [&] { drop(dropped_lease); });
    BOOST_TEST(in_use() == 1U); // until the release is answered
    at(6ms, [&] { answer_all(command::release, verdict::yes); });
    BOOST_TEST(in_use() == 0U);
}

BOOST_AUTO_TEST_CASE(many_keys_are_found_and_forgotten) {
    constexpr std::size_t keys = 3000;
    std::vector<call*> held;
    for (std::size_t n = 0; n < keys; ++n) {
        at(0ms,
           [&] { held.push_back(&acquire(make_lock({}, "seat:" + std::to_string(n)), 1min)); });
        at(1ms, [&] { answer_all(command::acquire, verdict::yes); });
    }
    BOOST_TEST(queues() == 0U);
    std::size_t known = 0;
    for (auto const* c : held) {
        known +=
            room.has_token(c->handle->lock->key(), c->tenure().token_text({}).view()) ? 1U : 0U;
    }
    BOOST_TEST(known == keys);
    for (auto* const c : held) {
        at(2ms, [&] { release(*c); });
        at(2ms, [&] { answer_all(command::release, verdict::yes); });
    }
    for (auto* const c : held) {
        known -=
            room.has_token(c->handle->lock->key(), c->tenure().token_text({}).view()) ? 0U : 1U;
    }
    BOOST_TEST(known == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
