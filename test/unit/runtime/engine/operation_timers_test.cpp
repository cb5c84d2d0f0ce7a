// The timers of operations, which are made by the call that needs them. In an executable that
// replaces operator new.
#include "runtime/engine/inbox.hpp"

#include "support/failing_new.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <variant>
#include <vector>

using namespace holdfast;
using namespace holdfast::runtime;
using namespace std::chrono_literals;
namespace asio = boost::asio;

namespace {

bool everywhere(void* const*, std::size_t) {
    return true;
}

/// An inbox without a client.
class caller : public std::enable_shared_from_this<caller> {
public:
    void run_turn() {
        auto const arrivals = inbox.open(finished);
        inbox.deliver(arrivals, *this);
    }
    void cancel(operation* op, std::uint32_t generation, asio::cancellation_type_t type) noexcept {
        inbox.cancel(op, generation, type);
    }

    // The interface of the inbox's receiver
    void start(operation& op) { begun.push_back(&op); }
    void cancel(operation&, asio::cancellation_type_t) {}
    void drop(lease_record&, bool) {}

    /// Returns the operation that has begun.
    operation* call(any_call&& c) {
        inbox.submit(std::move(c));
        context.restart();
        context.poll();
        return begun.back();
    }

    asio::io_context context;
    counters count;
    basic_inbox<caller> inbox{*this, context.get_executor(), true, count};
    operation_list finished;
    std::vector<operation*> begun;
};

} // namespace

BOOST_AUTO_TEST_SUITE(operation_timers)

BOOST_AUTO_TEST_CASE(a_call_has_a_timer_if_its_wait_is_limited) {
    auto const c = std::make_shared<caller>();
    auto const has_timer = [&](any_call&& of) { return c->call(std::move(of))->timer != nullptr; };
    BOOST_TEST(has_timer(acquire_call{.time = 1s}));
    BOOST_TEST(has_timer(wait_end_call{.ahead = 1s}));
    BOOST_TEST(!has_timer(acquire_call{.time = no_limit.time}));
    BOOST_TEST(!has_timer(acquire_call{.time = 0s}));
    BOOST_TEST(!has_timer(acquire_call{.time = -1s}));
    BOOST_TEST(!has_timer(wait_end_call{.ahead = 0s}));
    BOOST_TEST(has_timer(ready_call{.limit = wait_for(1s)}));
    BOOST_TEST(!has_timer(ready_call{.limit = no_limit}));
    BOOST_TEST(!has_timer(ready_call{.limit = try_now}));
    BOOST_TEST(!has_timer(extend_call{.ttl = 1s}));
}

BOOST_AUTO_TEST_CASE(a_call_whose_timer_cannot_be_made_was_not_made) {
    auto const c = std::make_shared<caller>();
    auto* const first = c->call(acquire_call{.time = no_limit.time});
    auto const acquired = [](detail::delivery, error, lease) {};
    auto const told = [](detail::delivery, error, lease_end) {};
    any_call calls[] = {acquire_call{.handler = acquired, .time = 1s},
                        wait_end_call{.handler = told, .ahead = 1s}};
    for (auto& call : calls) {
        auto const begun = c->begun.size();
        test::fail_allocation(0, everywhere);
        BOOST_CHECK_THROW(c->inbox.submit(std::move(call)), std::bad_alloc);
        test::allocate_as_ever();
        c->context.restart();
        c->context.poll();
        BOOST_TEST(c->begun.size() == begun);
    }
    // Unchanged
    BOOST_TEST(static_cast<bool>(std::get<acquire_call>(calls[0]).handler));
    BOOST_TEST(static_cast<bool>(std::get<wait_end_call>(calls[1]).handler));
    // The object was given back: the next call has it.
    auto* const next = c->call(acquire_call{.time = 1s});
    BOOST_TEST(next == first + 1);
    BOOST_TEST(next->timer != nullptr);
}

BOOST_AUTO_TEST_CASE(a_timer_is_used_again_with_its_operation) {
    auto const c = std::make_shared<caller>();
    auto* const op = c->call(acquire_call{.time = 1s});
    auto const* const timer = op->timer.get();
    c->finished.push_back(*op);
    c->inbox.ask_for_turn();
    c->context.restart();
    c->context.poll();
    auto* const again = c->call(wait_end_call{.ahead = 1s});
    BOOST_TEST(again == op);
    BOOST_TEST(again->timer.get() == timer);
}

// A process may have many waiters.
BOOST_AUTO_TEST_CASE(an_operation_is_small) {
    BOOST_TEST(sizeof(operation) <= 136U);
}

BOOST_AUTO_TEST_SUITE_END()
