// An acquirer and a lease keeper as the engine joins them. The instances are fakes.
#ifndef HOLDFAST_TEST_HELD_KEYS_HPP
#define HOLDFAST_TEST_HELD_KEYS_HPP

#include "runtime/acquire/acquirer.hpp"
#include "runtime/engine/tenure_leader.hpp"
#include "runtime/keys/key_watcher.hpp"
#include "runtime/keys/surveyor.hpp"
#include "runtime/lease/lease_keeper.hpp"

#include "unit/runtime/rooms.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace holdfast::test {

class held_keys : public rooms {
public:
    held_keys()
        : rooms(3) {}
    ~held_keys() override {
        for (auto const& f : fakes) f->questions.clear();
        timers.clear();
        for (auto& c : calls) {
            c.object = {};
            c.handle.detach(); // otherwise the end of the handle would reach an engine
        }
        forget_leases();
        room.clear();
        keeper.clear();
    }

    struct call {
        runtime::operation* op = nullptr;
        std::optional<error> result;
        lease object;
        detail::lease_ref handle;

        /// By the clock of the test, unlike lease::held().
        bool held() const { return handle->over.load() == lease_end::none; }
        bool granted() const { return result.has_value() && !*result; }
        runtime::lease_record& state() const {
            return static_cast<runtime::lease_record&>(*handle);
        }
        runtime::active_tenure& tenure() const { return *state().tenure; }
    };

    /// Begins an acquire that waits up to `limit`; with 0 it does not wait. `adopted`: of a lease
    /// of another client.
    call& acquire(detail::lock_state_ptr lock, std::chrono::nanoseconds limit,
                  std::unique_ptr<lease_token const> adopted = nullptr) {
        auto& c = calls.emplace_back();
        std::unique_ptr<runtime::acquire_extras> extras;
        if (adopted) {
            extras = std::make_unique<runtime::acquire_extras>();
            extras->adopted = std::move(adopted);
        }
        auto& op = make_operation(runtime::acquire_call{
            .handler = detail::acquire_handler([this, &c](detail::delivery, error e, lease object) {
                c.result = std::move(e);
                if (!*c.result) c.handle = granting->lease;
                c.object = std::move(object);
            }),
            .lock = std::move(lock),
            .time = limit,
            .extras = std::move(extras)});
        c.op = &op;
        auto* const sharing = room.start(op, [this](runtime::lease_record& l) {
            if (&l != dropped) return false;
            dropped = nullptr;
            granting = l.tenure.get();
            leader.settle(keeper.let_go(l, false));
            return true;
        });
        BOOST_TEST(sharing == nullptr); // the locks are no readers'
        return c;
    }
    call& acquire(std::chrono::nanoseconds limit = std::chrono::minutes(1),
                  lock_options const& options = {}) {
        return acquire(make_lock(options), limit);
    }
    call& adopt(lease_token const& token) {
        return acquire(make_lock(), std::chrono::minutes(1),
                       std::make_unique<lease_token const>(token));
    }
    /// Wins a tenure within a millisecond.
    call& hold(lease_clock::duration when, lock_options const& options = {}) {
        call* c = nullptr;
        at(when, [&] { c = &acquire(std::chrono::minutes(1), options); });
        at(when + std::chrono::milliseconds(1),
           [&] { answer_all(protocol::command::acquire, protocol::verdict::yes); });
        BOOST_REQUIRE(c->granted());
        return *c;
    }
    void release(call& c) {
        auto& op = make_operation(runtime::release_call{
            .handler = detail::release_handler([](detail::delivery, release_result const&) {}),
            .lease = c.handle});
        granting = &c.tenure();
        leader.settle(keeper.start_release(op));
    }

    std::size_t queues() {
        std::size_t n = 0;
        room.for_each_queue([&](runtime::active_queue&) { ++n; });
        return n;
    }
    /// How many commands of this kind wait for an answer of each instance.
    std::size_t asked(protocol::command c) const {
        auto const of = [c](auto const& f) {
            return static_cast<std::size_t>(
                std::count_if(f->questions.begin(), f->questions.end(),
                              [c](auto const& q) { return q.command == c; }));
        };
        auto const n = of(fakes[0]);
        for (auto const& f : fakes) BOOST_TEST(of(f) == n);
        return n;
    }

    runtime::acquirer room{shared, tenures, *this, std::chrono::milliseconds(100),
                           std::chrono::hours(1)};
    runtime::lease_keeper keeper{shared, tenures, room, std::chrono::hours(1)};
    runtime::surveyor questions{shared, room};
    runtime::key_watcher watcher{shared, questions};
    runtime::tenure_leader leader{shared, tenures, room, keeper, watcher, std::chrono::hours(1)};
    std::list<call> calls;
    runtime::lease_record* dropped = nullptr; ///< as the inbox would tell

private:
    runtime::active_tenure* granting = nullptr; ///< the tenure that may grant a lease now

    void lead_answer(runtime::active_tenure& t, unsigned instance, protocol::command c,
                     std::uint32_t round, redis::answer const& a) override {
        granting = &t;
        leader.on_answer(t, instance, c, round, a);
    }
    void lead_time(runtime::active_tenure& t, lease_clock::time_point now) override {
        granting = &t;
        leader.on_time(t, now);
    }
};

} // namespace holdfast::test

#endif
