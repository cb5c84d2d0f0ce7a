// The lease keeper without an acquirer: fake instances, and a clock that the test sets. The test
// settles no queue, and checks only the queue that the keeper hands back.
#include "runtime/lease/lease_keeper.hpp"

#include "unit/runtime/rooms.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <optional>
#include <utility>

using namespace holdfast;
using namespace holdfast::runtime;
using namespace std::chrono_literals;
using protocol::command;
using protocol::verdict;

namespace {

constexpr lock_options unwatched{.ttl = 1s, .watchdog = false};

class idle_queue final : public active_queue {
    void on_time(lease_clock::time_point) override {}
};

class keeper_alone final : public test::rooms, private folded_queues {
public:
    explicit keeper_alone(lock_options const& o = unwatched)
        : rooms(3)
        , options(o) {
        queue.machine = protocol::wait_queue(3);
        queue.lock = make_lock(options);
    }
    ~keeper_alone() override {
        for (auto const& f : fakes) f->questions.clear();
        timers.clear();
        for (auto* const given : {&first, &second}) {
            given->object = {};
            given->handle.detach(); // otherwise the end of the handle would reach an engine
        }
        forget_leases();
        queue.machine.abandon();
        queue.detach();
        folded.reset();
        keeper.clear();
    }

    struct given_lease {
        operation* op = nullptr;
        lease object;
        detail::lease_ref handle;
        bool given = false;
    };
    /// Puts a waiter into the queue.
    void join(given_lease& l) {
        auto& op = make_operation(acquire_call{
            .handler = detail::acquire_handler([&l](detail::delivery, error, lease object) {
                l.object = std::move(object);
                l.given = true;
            }),
            .lock = queue.lock});
        l.op = &op;
        op.ttl = options.ttl;
        op.renewed = options.watchdog;
        ++count.pending;
        BOOST_REQUIRE(queue.machine.join(op));
    }
    /// Wins a tenure at time 0, and grants the first waiter its lease.
    void hold() {
        at(0ms, [&] {
            join(first);
            auto const now = now_turn.time();
            BOOST_CHECK(queue.machine.next(now, instances.voters()).effect ==
                        protocol::queue_effect::try_all);
            auto& t = tenures.take();
            t.machine = protocol::tenure(3, options.ttl, options.watchdog);
            t.lock = queue.lock;
            t.queue = &queue;
            queue.tenure = &t;
            queue.machine.try_begun(now);
            t.machine.acquire(now, instances.voters());
            for (unsigned i = 0; i < 3; ++i) {
                t.machine.answer(command::acquire, 0, i, verdict::yes, now);
            }
            auto* const l = keeper.new_lease(t);
            first.handle = l;
            keeper.grant(static_cast<operation&>(queue.machine.won(now)), t, *l);
        });
        BOOST_REQUIRE(first.given);
    }
    /// Nobody waits, so the queue goes.
    void fold() {
        BOOST_CHECK(queue.machine.next(start, instances.voters()).effect ==
                    protocol::queue_effect::fold);
        folded = queue.tenure;
        queue.detach();
    }
    lease_record& state() { return static_cast<lease_record&>(*first.handle); }

    static detail::error_handler noting(std::optional<error>& result) {
        return [&result](detail::delivery, error e) { result = std::move(e); };
    }
    /// Waits for the end; the handler is called `ahead` of the deadline.
    void wait_end(std::optional<lease_end>& result, std::chrono::nanoseconds ahead = {}) {
        keeper.start_wait_end(make_operation(wait_end_call{
            .handler = detail::end_handler([&result](detail::delivery, error e, lease_end how) {
                BOOST_TEST(!e, e.what());
                result = how;
            }),
            .lease = first.handle,
            .ahead = ahead}));
    }
    void extend(std::optional<error>& result) {
        concerned = keeper.start_extend(
            make_operation(extend_call{.handler = noting(result), .lease = first.handle}));
    }
    void release(std::optional<release_result>& result) {
        concerned = keeper.start_release(make_operation(
            release_call{.handler = detail::release_handler(
                             [&result](detail::delivery, release_result r) { result = r; }),
                         .lease = first.handle}));
    }

    lock_options options;
    idle_queue queue;
    lease_keeper keeper{shared, tenures, *this, 1h};
    given_lease first, second;
    active_queue* concerned = nullptr; ///< the queue that the keeper handed back last
    active_tenure_ptr folded;          ///< the tenure whose queue is folded

private:
    active_queue* queue_of(active_tenure const&) const override { return nullptr; }
    active_queue* unfold(active_tenure& t) override {
        BOOST_TEST(&t == folded.get());
        queue.machine = protocol::wait_queue(3, queue.machine.folded());
        queue.tenure = std::exchange(folded, nullptr);
        t.queue = &queue;
        return &queue;
    }
    void forget(active_tenure& t) noexcept override {
        BOOST_TEST(&t == folded.get());
        folded.reset();
    }
    void keeps_places(operation&, active_queue&) noexcept override {}
    void lead_answer(active_tenure& t, unsigned instance, command c, std::uint32_t round,
                     redis::answer const& a) override {
        concerned = keeper.on_answer(t, instance, c, round, a);
    }
    void lead_time(active_tenure& t, lease_clock::time_point now) override {
        concerned = keeper.on_time(t, now);
    }
};

} // namespace

BOOST_AUTO_TEST_SUITE(lease_keeper)

BOOST_AUTO_TEST_CASE(a_loss_is_told_by_the_deadline) {
    keeper_alone k;
    k.hold();
    auto const deadline = k.first.object.deadline();
    BOOST_CHECK(deadline == keeper_alone::start + 1s - 10ms - 2ms); // the ttl minus the drift
                                                                    // allowance
    std::optional<lease_end> end;
    k.at(1ms, [&] { k.wait_end(end); });

    k.wait_until(900ms);
    BOOST_TEST(!end.has_value());
    BOOST_TEST(k.state().over.load() == lease_end::none);

    k.wait_until(988ms - 50ms); // the margin is a twentieth of the ttl
    BOOST_REQUIRE(end.has_value());
    BOOST_TEST(*end == lease_end::expired);
    BOOST_TEST(k.state().over.load() == lease_end::expired);
    BOOST_TEST(k.count.lost.load() == 1U);
    BOOST_TEST(k.count.held.load() == 0U);
    // The client keeps the key until the deadline that the holder knew.
    BOOST_TEST(k.concerned == nullptr);
    BOOST_TEST(k.fakes[0]->questions.empty());
    BOOST_TEST(!k.keeper.holds());
    BOOST_TEST(k.keeper.has_tenures());

    k.wait_until(988ms);
    BOOST_TEST(k.concerned == &k.queue);
    BOOST_TEST(!k.keeper.has_tenures());
    for (auto const& f : k.fakes) {
        BOOST_REQUIRE(f->questions.size() == 1U);
        BOOST_CHECK(f->questions.front().command == command::release);
    }
}

BOOST_AUTO_TEST_CASE(a_wait_for_the_end_may_be_told_ahead) {
    keeper_alone k;
    k.hold();
    std::optional<lease_end> ahead;
    k.at(1ms, [&] { k.wait_end(ahead, 300ms); });
    k.wait_until(600ms);
    BOOST_TEST(!ahead.has_value());
    k.wait_until(688ms);
    BOOST_REQUIRE(ahead.has_value());
    BOOST_TEST(*ahead == lease_end::none); // still held
    BOOST_TEST(k.state().over.load() == lease_end::none);
}

BOOST_AUTO_TEST_CASE(a_release_is_confirmed_by_a_majority) {
    keeper_alone k;
    k.hold();
    std::optional<release_result> result;
    std::optional<lease_end> end;
    k.at(1ms, [&] {
        k.wait_end(end);
        k.release(result);
    });
    // The lease ends at once, and not with the answers.
    BOOST_REQUIRE(end.has_value());
    BOOST_TEST(*end == lease_end::released);
    BOOST_TEST(k.state().over.load() == lease_end::released);
    BOOST_TEST(k.concerned == &k.queue);
    BOOST_TEST(k.keeper.is_releasing());
    BOOST_TEST(!k.queue.machine.held());
    k.at(2ms, [&] {
        k.fakes[0]->answer(command::release, verdict::yes);
        BOOST_TEST(!result.has_value());
        k.fakes[1]->answer(command::release, verdict::yes);
    });
    BOOST_REQUIRE(result.has_value());
    BOOST_TEST(result->confirmed());
    BOOST_TEST(!k.keeper.is_releasing());
    BOOST_TEST(k.count.released.load() == 1U);
}

BOOST_AUTO_TEST_CASE(commands_that_a_link_does_not_take_are_answered_in_the_next_turn) {
    keeper_alone k;
    k.hold();
    std::optional<error> extended;
    for (auto const& f : k.fakes) f->starved = true;
    k.at(1ms, [&] { k.extend(extended); });
    BOOST_TEST(!extended.has_value());
    BOOST_TEST(k.tenures.has_outstanding());
    k.at(2ms, [&] { k.tenures.answer_outstanding(); });
    BOOST_REQUIRE(extended.has_value());
    BOOST_TEST(*extended == errc::out_of_memory);
    BOOST_TEST(!k.tenures.has_outstanding());

    // In one turn, an extension and a release.
    extended.reset();
    std::optional<release_result> released;
    k.at(3ms, [&] {
        k.extend(extended);
        k.release(released);
    });
    BOOST_REQUIRE(extended.has_value());
    BOOST_TEST(*extended == errc::lease_released);
    k.at(4ms, [&] { k.tenures.answer_outstanding(); });
    BOOST_REQUIRE(released.has_value());
    BOOST_TEST(!released->confirmed());
    BOOST_TEST(!k.tenures.has_outstanding());
}

BOOST_AUTO_TEST_CASE(a_release_hands_the_tenure_to_the_next_waiter) {
    keeper_alone k;
    k.hold();
    k.at(1ms, [&] { k.join(k.second); });
    std::optional<release_result> result;
    std::optional<lease_end> end;
    std::optional<error> extended;
    k.at(2ms, [&] {
        k.wait_end(end);
        k.extend(extended);
        k.answer_all(command::extend, verdict::yes);
        k.release(result);
    });
    BOOST_REQUIRE(end.has_value());
    BOOST_TEST(*end == lease_end::released);
    BOOST_REQUIRE(result.has_value());
    BOOST_TEST(result->confirmed());
    BOOST_TEST(k.concerned == nullptr);
    BOOST_REQUIRE(k.second.given);
    k.second.handle = k.queue.tenure->lease;
    BOOST_TEST(k.state().over.load() == lease_end::released);
    BOOST_TEST(k.second.handle->over.load() == lease_end::none);
    BOOST_TEST(k.count.handovers.load() == 1U);
    BOOST_TEST(k.fakes[0]->questions.empty()); // a hand-over sends nothing to the instances
}

BOOST_AUTO_TEST_CASE(an_extension_moves_the_deadline) {
    keeper_alone k;
    k.hold();
    std::optional<error> result;
    k.at(500ms, [&] { k.extend(result); });
    k.at(501ms, [&] { k.answer_all(command::extend, verdict::yes); });
    BOOST_REQUIRE(result.has_value());
    BOOST_TEST(!result->code().failed());
    BOOST_CHECK(k.first.object.deadline() == keeper_alone::start + 500ms + 988ms);
}

BOOST_AUTO_TEST_CASE(a_majority_that_has_lost_the_key_ends_the_lease) {
    keeper_alone k;
    k.hold();
    std::optional<error> extended;
    std::optional<lease_end> end;
    k.at(1ms, [&] { k.wait_end(end); });
    k.at(500ms, [&] { k.extend(extended); });
    k.at(501ms, [&] {
        k.fakes[0]->answer(command::extend, verdict::no);
        k.fakes[1]->answer(command::extend, verdict::no);
    });
    BOOST_REQUIRE(extended.has_value());
    BOOST_CHECK(extended->code() == errc::lease_lost);
    BOOST_REQUIRE(end.has_value());
    BOOST_TEST(*end == lease_end::key_gone);
    BOOST_TEST(k.state().over.load() == lease_end::key_gone);
    BOOST_TEST(k.concerned == &k.queue);
}

BOOST_AUTO_TEST_CASE(the_watchdog_extends_while_the_lease_is_condition) {
    lock_options const renewed{.ttl = 1s};
    keeper_alone k(renewed);
    k.hold();
    k.wait_until(334ms);
    BOOST_REQUIRE(k.fakes[0]->questions.size() == 1U);
    k.at(335ms, [&] { k.answer_all(command::extend, verdict::yes); });
    BOOST_TEST(k.count.extended.load() == 1U);

    k.at(336ms, [&] {
        k.keeper.start_renew(k.make_operation(renew_call{
            k.first.handle,
            std::make_unique<renewal_condition>(renewal_condition{[] { return false; }})}));
    });
    k.wait_until(700ms);
    BOOST_TEST(k.fakes[0]->questions.empty());
    k.at(701ms, [&] { k.keeper.destroy_retired(); });
}

BOOST_AUTO_TEST_CASE(a_release_of_a_folded_tenure_concerns_no_queue) {
    keeper_alone k;
    k.hold();
    k.fold();
    std::optional<release_result> result;
    k.at(1ms, [&] { k.release(result); });
    BOOST_TEST(k.concerned == nullptr);
    BOOST_TEST(k.folded == nullptr);
    BOOST_TEST(k.keeper.is_releasing());
    k.at(2ms, [&] { k.answer_all(command::release, verdict::yes); });
    BOOST_REQUIRE(result.has_value());
    BOOST_TEST(result->confirmed());
}

BOOST_AUTO_TEST_CASE(an_opposed_tenure_needs_its_queue_to_stand_back) {
    keeper_alone k;
    k.hold();
    k.fold();
    k.state().tenure->machine.answer(command::acquire, 0, 2, verdict::no, keeper_alone::start);
    std::optional<release_result> result;
    k.at(1ms, [&] { k.release(result); });
    BOOST_TEST(k.concerned == &k.queue);
    BOOST_TEST(k.queue.machine.wake().has_value());
    BOOST_TEST(k.queue.tenure == nullptr);
    BOOST_TEST(k.folded == nullptr);
    BOOST_REQUIRE(k.fakes[0]->questions.size() == 1U);
    BOOST_CHECK(k.fakes[0]->questions.front().command == command::release);
}

BOOST_AUTO_TEST_CASE(a_loss_ends_a_folded_tenure) {
    keeper_alone k;
    k.hold();
    k.fold();
    std::optional<error> extended;
    k.at(500ms, [&] { k.extend(extended); });
    k.at(501ms, [&] {
        k.fakes[0]->answer(command::extend, verdict::no);
        k.fakes[1]->answer(command::extend, verdict::no);
    });
    BOOST_TEST(k.state().over.load() == lease_end::key_gone);
    BOOST_TEST(k.count.lost.load() == 1U);
    BOOST_TEST(k.concerned == nullptr);
    BOOST_TEST(k.folded == nullptr);
}

BOOST_AUTO_TEST_CASE(a_folded_tenure_lasts_until_the_deadline) {
    keeper_alone k;
    k.hold();
    k.fold();
    k.wait_until(988ms - 50ms);
    BOOST_TEST(k.state().over.load() == lease_end::expired);
    BOOST_TEST(k.folded != nullptr);
    k.wait_until(988ms);
    BOOST_TEST(k.folded == nullptr);
    BOOST_TEST(k.concerned == nullptr);
    BOOST_TEST(!k.keeper.has_tenures());
    for (auto const& f : k.fakes) {
        BOOST_REQUIRE(f->questions.size() == 1U);
        BOOST_CHECK(f->questions.front().command == command::release);
    }
}

BOOST_AUTO_TEST_CASE(a_detach_ends_a_folded_tenure_without_a_release) {
    keeper_alone k;
    k.hold();
    k.fold();
    std::optional<lease_end> end;
    k.at(1ms, [&] {
        k.wait_end(end);
        k.concerned = k.keeper.start_detach(k.make_operation(detach_call{k.first.handle}));
    });
    BOOST_REQUIRE(end.has_value());
    BOOST_TEST(*end == lease_end::released);
    BOOST_TEST(k.state().over.load() == lease_end::released);
    BOOST_TEST(k.count.released.load() == 1U);
    BOOST_TEST(k.concerned == nullptr);
    BOOST_TEST(k.folded == nullptr);
    BOOST_TEST(k.fakes[0]->questions.empty());
}

BOOST_AUTO_TEST_CASE(a_shutdown_ends_folded_tenures) {
    for (auto const told : {false, true}) {
        keeper_alone k;
        k.hold();
        k.fold();
        std::optional<lease_end> end;
        k.at(1ms, [&] { k.wait_end(end); });
        if (told) k.wait_until(988ms - 50ms);
        auto& t = *k.state().tenure;
        k.at(950ms, [&] {
            BOOST_TEST(k.keeper.holds() == !told);
            if (told) {
                k.concerned = k.keeper.end_tenure(t);
            } else {
                k.keeper.lose_all([&](active_queue* q) { k.concerned = q; });
            }
        });
        // The first end counts.
        auto const how = told ? lease_end::expired : lease_end::shut_down;
        BOOST_REQUIRE(end.has_value());
        BOOST_TEST(*end == how);
        BOOST_TEST(k.state().over.load() == how);
        BOOST_TEST(k.count.lost.load() == 1U);
        BOOST_TEST(k.concerned == nullptr);
        BOOST_TEST(k.folded == nullptr);
        BOOST_TEST(!k.keeper.holds());
        BOOST_TEST(k.fakes[0]->questions.size() == 1U);
    }
}

BOOST_AUTO_TEST_CASE(a_clock_that_stood_still_brings_the_loss_nearer) {
    keeper_alone k;
    k.hold();
    std::optional<lease_end> end;
    k.at(1ms, [&] { k.wait_end(end); });
    k.at(100ms,
         [&] { k.keeper.clock_stood_still(*k.queue.tenure, keeper_alone::start + 100ms, 200ms); });
    BOOST_CHECK(k.first.object.deadline() == keeper_alone::start + 788ms);
    k.wait_until(788ms - 50ms);
    BOOST_REQUIRE(end.has_value());
    BOOST_TEST(*end == lease_end::expired);
}

// The first end counts: neither a release nor a shutdown, nor the end of the context changes it.
BOOST_AUTO_TEST_CASE(a_later_call_says_how_the_lease_had_ended) {
    for (auto const how : {lease_end::released, lease_end::expired}) {
        keeper_alone k;
        k.hold();
        std::optional<release_result> first, again;
        std::optional<error> extended;
        std::optional<lease_end> end;
        if (how == lease_end::released) {
            k.at(1ms, [&] { k.release(first); });
        } else {
            k.wait_until(988ms - 50ms);
        }
        auto const code = how == lease_end::released ? errc::lease_released : errc::lease_lost;
        k.at(940ms, [&] {
            k.wait_end(end);
            k.release(again);
            k.extend(extended);
            k.keeper.lose_all([](active_queue*) {});
        });
        BOOST_REQUIRE(end.has_value());
        BOOST_TEST(*end == how);
        BOOST_REQUIRE(again.has_value());
        BOOST_TEST((*again == code));
        BOOST_REQUIRE(extended.has_value());
        BOOST_TEST((*extended == code));
        k.keeper.abandon();
        BOOST_TEST(k.state().over.load() == how);
        k.at(941ms, [&] { k.tenures.answer_outstanding(); });
    }
}

BOOST_AUTO_TEST_CASE(the_end_of_the_context_ends_a_held_lease) {
    keeper_alone k;
    k.hold();
    k.keeper.abandon();
    BOOST_TEST(k.state().over.load() == lease_end::shut_down);
    BOOST_TEST(k.count.held.load() == 0U);
}

// The watchdog does not ask for an extension any more, and so the lease comes to its end.
BOOST_AUTO_TEST_CASE(a_condition_that_says_no_lets_the_lease_expire) {
    keeper_alone k(lock_options{.ttl = 1s});
    k.hold();
    std::optional<lease_end> end;
    k.at(1ms, [&] {
        k.wait_end(end);
        k.keeper.start_renew(k.make_operation(renew_call{
            k.first.handle,
            std::make_unique<renewal_condition>(renewal_condition{[] { return false; }})}));
    });
    for (auto after = 10ms; after <= 988ms - 50ms; after += 1ms) k.wait_until(after);
    BOOST_REQUIRE(end.has_value());
    BOOST_TEST(*end == lease_end::expired);
    k.at(989ms, [&] { k.keeper.destroy_retired(); });
}

BOOST_AUTO_TEST_SUITE_END()
