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
    using limit_kind = detail::wait_limit::kind;

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
    operation* call(operation_kind kind, detail::wait_limit limit) {
        inbox.submit(kind, {}, limit, {}, {});
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
    using limit = caller::limit_kind;
    using kind = operation_kind;
    auto const c = std::make_shared<caller>();
    BOOST_TEST(c->call(kind::acquire, {limit::until, 1s})->timer != nullptr);
    BOOST_TEST(c->call(kind::wait_lost, {limit::until, 1s})->timer != nullptr);
    BOOST_TEST(c->call(kind::acquire, {limit::forever, 0s})->timer == nullptr);
    BOOST_TEST(c->call(kind::acquire, {limit::none, 0s})->timer == nullptr);
    BOOST_TEST(c->call(kind::wait_lost, {limit::until, 0s})->timer == nullptr);
    BOOST_TEST(c->call(kind::extend, {limit::until, 1s})->timer == nullptr);
}

BOOST_AUTO_TEST_CASE(a_call_whose_timer_cannot_be_made_was_not_made) {
    auto const c = std::make_shared<caller>();
    auto* const first = c->call(operation_kind::acquire, {caller::limit_kind::forever, 0s});
    for (auto const kind : {operation_kind::acquire, operation_kind::wait_lost}) {
        auto const begun = c->begun.size();
        operation::any_handler handler = detail::error_handler([](detail::delivery, error) {});
        test::fail_allocation(0, everywhere);
        BOOST_CHECK_THROW(
            c->inbox.submit(kind, {}, {caller::limit_kind::until, 1s}, {}, std::move(handler)),
            std::bad_alloc);
        test::allocate_as_ever();
        BOOST_TEST(static_cast<bool>(std::get<detail::error_handler>(handler))); // unchanged
        c->context.restart();
        c->context.poll();
        BOOST_TEST(c->begun.size() == begun);
    }
    // The object was given back: the next call has it.
    auto* const next = c->call(operation_kind::acquire, {caller::limit_kind::until, 1s});
    BOOST_TEST(next == first + 1);
    BOOST_TEST(next->timer != nullptr);
}

BOOST_AUTO_TEST_CASE(a_timer_is_used_again_with_its_operation) {
    auto const c = std::make_shared<caller>();
    auto* const op = c->call(operation_kind::acquire, {caller::limit_kind::until, 1s});
    auto const* const timer = op->timer.get();
    c->finished.push_back(*op);
    c->inbox.ask_for_turn();
    c->context.restart();
    c->context.poll();
    auto* const again = c->call(operation_kind::wait_lost, {caller::limit_kind::until, 1s});
    BOOST_TEST(again == op);
    BOOST_TEST(again->timer.get() == timer);
}

// A process may have many waiters.
BOOST_AUTO_TEST_CASE(an_operation_is_small) {
    BOOST_TEST(sizeof(operation) <= 144U);
}

BOOST_AUTO_TEST_SUITE_END()
