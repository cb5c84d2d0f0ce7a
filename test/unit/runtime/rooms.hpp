// The ground of a room of the engine: fakes for its instances and for its neighbours, and a clock
// that the test sets.
#ifndef HOLDFAST_TEST_ROOMS_HPP
#define HOLDFAST_TEST_ROOMS_HPP

#include "protocol/messages.hpp"
#include "redis/server/instance.hpp"
#include "runtime/acquire/acquirer.hpp"
#include "runtime/acquire/active_tenure.hpp"
#include "runtime/acquire/tenure_driver.hpp"
#include "runtime/engine/lock_state.hpp"
#include "runtime/services/call.hpp"
#include "runtime/services/completer.hpp"
#include "runtime/services/counters.hpp"
#include "runtime/services/event_sink.hpp"
#include "runtime/services/instance_group.hpp"
#include "runtime/services/operation.hpp"
#include "runtime/services/services.hpp"
#include "runtime/services/timer_queue.hpp"
#include "runtime/services/token_source.hpp"
#include "runtime/services/turn.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <deque>
#include <list>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace holdfast::test {

/// Keeps what it is sent, until the test answers.
class fake_instance final : public redis::instance {
public:
    struct question {
        protocol::command command;
        std::uint32_t round;
        redis::reply_handler_ptr asking;
    };

    explicit fake_instance(unsigned n)
        : number(n) {}

    void start() override {}
    void stop() override {}
    void abandon() noexcept override {}
    bool submit(redis::encoder& e, redis::reply_handler_ptr const& asking,
                std::uint32_t round) noexcept override {
        if (!starved) questions.push_back({e.command(), round, asking});
        return !starved;
    }
    bool flush() noexcept override { return true; }
    bool available() const override { return up; }
    bool may_grant() const override { return up && votes; }
    bool connected() const override { return up; }
    redis::scan_plan plan_scan() const override { return servers; }
    errc reason() const override { return up ? errc{} : errc::unreachable; }
    std::string reason_message() const override { return up ? "" : "unplugged"; }
    std::optional<lease_clock::time_point> waits_since() const override { return std::nullopt; }
    bool settled() const override { return true; }
    void ask_time_now() override {}
    void excuse_jump() override {}
    void our_clock_stood_still(lease_clock::time_point, lease_clock::time_point,
                               lease_clock::duration, lease_clock::duration) override {}
    void push_missed(protocol::breach b) override { missed += b != protocol::breach::none; }
    std::string_view run_id() const override { return id; }
    std::uint64_t identity() const override { return number; }
    instance_status status() const override {
        instance_status s;
        s.address = id;
        s.state = up ? instance_state::up : instance_state::down;
        return s;
    }
    redis::instance_counts const& counts() const override { return counted; }

    /// The oldest question must be this one.
    void answer(protocol::command c, redis::answer const& a) {
        BOOST_REQUIRE(!questions.empty());
        auto const q = std::move(questions.front());
        questions.pop_front();
        BOOST_TEST(static_cast<int>(q.command) == static_cast<int>(c));
        q.asking->on_answer(number, q.command, q.round, a);
    }
    void answer(protocol::command c, protocol::verdict v) {
        answer(c, redis::answer{.verdict = v});
    }

    unsigned const number;
    std::string const id = "server-" + std::to_string(number);
    bool starved = false; ///< there is no memory for commands
    bool up = true;
    bool votes = true; ///< false: in quarantine
    int missed = 0;    ///< pushes
    redis::scan_plan servers{.servers = {{.node = 0, .name = {}}}, .gap = {}};
    std::deque<question> questions;
    redis::instance_counts counted;
};

class rooms : private runtime::turn_source,
              private runtime::tenure_factory,
              protected runtime::lock_maker {
public:
    static constexpr lease_clock::time_point start{std::chrono::hours(1)};

    explicit rooms(unsigned configured) {
        timers.call([](boost::system::error_code) {}); // the tests run it themselves
        for (unsigned i = 0; i < configured; ++i) {
            fakes.push_back(std::make_shared<fake_instance>(i));
            instances.add(fakes.back());
        }
    }
    virtual ~rooms() {
        for (auto const& f : fakes) f->questions.clear();
        timers.clear();
    }

    /// Does it as a turn at this time.
    template <class Work>
    void at(lease_clock::duration after, Work&& work) {
        now_turn.begin_at(start + after);
        instances.changed();
        work();
        now_turn.end();
    }
    /// The timer runs at this time.
    void wait_until(lease_clock::duration after) {
        at(after, [&] { timers.run_due(start + after); });
    }
    /// All of them answer so.
    void answer_all(protocol::command c, protocol::verdict v) {
        for (auto const& f : fakes) f->answer(c, v);
    }

    runtime::operation& make_operation(runtime::any_call&& call) {
        auto& op = operations.emplace_back(0U);
        op.prepare(call);
        op.call = std::move(call);
        return op;
    }
    /// The end of a handle would reach an engine.
    void forget_leases() {
        for (auto& op : operations) {
            std::visit(
                [](auto& c) {
                    if constexpr (requires { c.lease; }) c.lease.detach();
                },
                op.call);
        }
    }
    detail::lock_state_ptr make_lock(lock_options const& options = {},
                                     std::string_view key = "seat:7") const {
        detail::lock_settings_ptr const settings(
            new detail::lock_settings{nullptr, executor, options});
        return runtime::make_lock_state({settings, {}, key, {}});
    }

    // runtime::lock_maker
    detail::lock_state_ptr make_lock(lock_options const& options, std::string_view key) override {
        return std::as_const(*this).make_lock(options, key);
    }

    boost::asio::io_context context;
    boost::asio::any_io_executor executor{context.get_executor()};
    runtime::counters count;
    runtime::turn now_turn{*this};
    runtime::timer_queue timers{executor};
    runtime::event_sink events{client_options{}, now_turn, count};
    runtime::token_source random{""};
    runtime::instance_group instances{now_turn};
    runtime::completer completer{now_turn, timers, count};
    runtime::services shared{now_turn, instances, timers, completer, count, events, random};
    runtime::tenure_driver tenures{shared, *this};
    std::vector<std::shared_ptr<fake_instance>> fakes;
    std::list<runtime::operation> operations;
    unsigned turns_asked = 0;

protected:
    // The calls that the engine would pass on to the room.
    virtual void lead_answer(runtime::active_tenure&, unsigned instance, protocol::command,
                             std::uint32_t round, redis::answer const&) = 0;
    virtual void lead_time(runtime::active_tenure&, lease_clock::time_point now) = 0;

private:
    class tenure final : public runtime::active_tenure {
    public:
        explicit tenure(rooms& r)
            : rooms_(r) {}
        redis::command_args arguments(protocol::command c) const noexcept override {
            return describe(c, std::chrono::hours(1), rooms_.random);
        }
        void on_answer(unsigned instance, protocol::command c, std::uint32_t round,
                       redis::answer const& a) override {
            rooms_.lead_answer(*this, instance, c, round, a);
        }
        void on_time(lease_clock::time_point now) override { rooms_.lead_time(*this, now); }

    private:
        void recycle() noexcept override { rooms_.tenures.recycle(*this); }
        rooms& rooms_;
    };

    void ask_for_turn() noexcept override { ++turns_asked; }
    runtime::active_tenure* make_tenure(void* room) override { return ::new (room) tenure(*this); }
    std::size_t tenure_size() const noexcept override { return sizeof(tenure); }
};

} // namespace holdfast::test

#endif
