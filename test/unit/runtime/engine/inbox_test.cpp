// The inbox without a client: the owner counts its turns, and the receiver logs its calls.
#include "runtime/engine/inbox.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

namespace asio = boost::asio;
using namespace holdfast::runtime;
using holdfast::error;
namespace detail = holdfast::detail;

namespace {

class user : public std::enable_shared_from_this<user> {
public:
    using inbox_type = basic_inbox<user>;

    void run_turn() {
        ++turns;
        auto const arrivals = inbox.open(finished);
        more = inbox.deliver(arrivals, *this);
    }
    void cancel(operation* op, std::uint32_t generation, asio::cancellation_type_t type) noexcept {
        inbox.cancel(op, generation, type);
    }

    // The interface of the inbox's receiver
    void start(operation& op) {
        log += 's';
        begun.push_back(&op);
    }
    void cancel(operation& op, asio::cancellation_type_t type) {
        log += type == asio::cancellation_type_t::terminal ? 'C' : 'c';
        cancelled.push_back(&op);
    }
    void drop(lease_record&, bool dropped) { log += dropped ? 'D' : 'd'; }

    /// Completes an operation, as a room does.
    void finish(operation& op) {
        ++op.generation;
        op.call = {};
        finished.push_back(op);
    }

    void call(detail::error_handler handler = {}) {
        inbox.submit(extend_call{.handler = std::move(handler)});
    }
    /// Runs the turns that were asked for, and returns the log.
    std::string turn() {
        context.restart();
        context.poll();
        return std::exchange(log, {});
    }

    asio::io_context context;
    counters count;
    inbox_type inbox{*this, context.get_executor(), true, count};
    operation_list finished;
    std::vector<operation*> begun, cancelled;
    std::string log;
    unsigned turns = 0;
    bool more = false;
};

detail::error_handler slotted(asio::cancellation_signal& signal) {
    return asio::bind_cancellation_slot(signal.slot(), [](detail::delivery, error) {});
}

} // namespace

BOOST_AUTO_TEST_SUITE(inbox)

BOOST_AUTO_TEST_CASE(what_comes_in_asks_for_one_turn) {
    auto const u = std::make_shared<user>();
    lease_record lease;
    asio::cancellation_signal signal;
    u->call();
    u->call(slotted(signal));
    u->inbox.let_go(lease, false);
    signal.emit(asio::cancellation_type_t::terminal);
    u->inbox.ask_for_turn();

    BOOST_TEST(u->turn() == "Cssd"); // cancellations come first
    BOOST_TEST(u->turns == 1U);
    BOOST_TEST(u->cancelled.front() == u->begun.back());
    BOOST_TEST(!u->more);

    BOOST_TEST(u->turn().empty());
    BOOST_TEST(u->turns == 1U);
    u->call();
    BOOST_TEST(u->turn() == "s");
    BOOST_TEST(u->turns == 2U);
}

// Between two turns the owner calls handlers, and begins the next turn itself.
BOOST_AUTO_TEST_CASE(calls_between_two_turns_ask_for_none) {
    using gathering = user::inbox_type::gathering;
    auto const u = std::make_shared<user>();
    {
        gathering calls(u->inbox);
        BOOST_REQUIRE(static_cast<bool>(calls));
        u->call();
        BOOST_TEST(u->turn().empty());
        BOOST_TEST(calls.end());
        u->run_turn();
        BOOST_TEST(u->turn() == "s");
    }
    BOOST_TEST(u->turn().empty());
    BOOST_TEST(u->turns == 1U);
    {
        gathering none(u->inbox);
        BOOST_TEST(!none.end());
    }
    u->call();
    {
        gathering const late(u->inbox); // a turn was asked for before
        BOOST_TEST(!late);
    }
    BOOST_TEST(u->turn() == "s");
    BOOST_TEST(u->turns == 2U);
}

BOOST_AUTO_TEST_CASE(calls_between_two_turns_ask_for_one_if_none_takes_them) {
    using gathering = user::inbox_type::gathering;
    auto const u = std::make_shared<user>();
    { gathering const none(u->inbox); }
    BOOST_TEST(u->turn().empty());
    BOOST_TEST(u->turns == 0U);
    {
        gathering const wanted(u->inbox);
        u->inbox.ask_for_turn();
    }
    BOOST_TEST(u->turn().empty());
    BOOST_TEST(u->turns == 1U);
    lease_record lease;
    {
        gathering const drop(u->inbox);
        u->inbox.let_go(lease, false);
    }
    BOOST_TEST(u->turn() == "d");
    BOOST_TEST(u->turns == 2U);
}

BOOST_AUTO_TEST_CASE(a_late_cancellation_finds_another_use_of_its_operation) {
    auto const u = std::make_shared<user>();
    asio::cancellation_signal signal;
    u->call(slotted(signal));
    BOOST_TEST(u->turn() == "s");
    auto* const first = u->begun.back();
    u->finish(*first);

    signal.emit(asio::cancellation_type_t::terminal); // before the inbox takes the operation back
    BOOST_TEST(u->turn().empty());
    BOOST_TEST(u->turns == 2U);

    asio::cancellation_signal other;
    u->call(slotted(other));
    signal.emit(asio::cancellation_type_t::terminal); // the operation serves another call now
    BOOST_TEST(u->turn() == "s");
    BOOST_TEST(u->begun.back() == first);
    other.emit(asio::cancellation_type_t::total);
    BOOST_TEST(u->turn() == "c");
}

BOOST_AUTO_TEST_CASE(requests_to_cancel_add_up) {
    auto const u = std::make_shared<user>();
    u->call();
    u->turn();
    auto& op = *u->begun.back();
    u->inbox.cancel(&op, op.generation, asio::cancellation_type_t::total);
    u->inbox.cancel(&op, op.generation, asio::cancellation_type_t::partial);
    BOOST_CHECK(op.cancellation ==
                (asio::cancellation_type_t::total | asio::cancellation_type_t::partial));
    BOOST_TEST(u->turn() == "c");

    operation foreign(0);
    u->inbox.cancel(&foreign, 0, asio::cancellation_type_t::total);
    BOOST_TEST(u->turn().empty());
}

BOOST_AUTO_TEST_CASE(a_lease_comes_in_once) {
    auto const u = std::make_shared<user>();
    lease_record given_up, taken;
    given_up.count(u->count, false);
    taken.count(u->count, true);
    BOOST_TEST(u->count.held.load() == 2U);
    BOOST_TEST(u->count.permits.load() == 1U);
    u->inbox.let_go(given_up, false);
    u->inbox.let_go(given_up, true);
    u->inbox.let_go(taken, true);
    BOOST_TEST(u->count.held.load() == 0U);
    BOOST_TEST(u->count.permits.load() == 0U);

    BOOST_CHECK(u->inbox.take_drop(taken) == true); // before the turn that would drop it
    BOOST_TEST(u->turn() == "D");
    BOOST_CHECK(!u->inbox.take_drop(given_up));
}

BOOST_AUTO_TEST_CASE(a_turn_begins_a_bounded_number_of_calls) {
    auto const u = std::make_shared<user>();
    for (std::size_t i = 0; i <= user::inbox_type::calls_a_turn; ++i) u->call();
    BOOST_TEST(u->turn().size() == user::inbox_type::calls_a_turn);
    BOOST_TEST(u->more);
    u->inbox.ask_for_turn();
    BOOST_TEST(u->turn() == "s");
    BOOST_TEST(!u->more);
}

BOOST_AUTO_TEST_CASE(a_closed_inbox_takes_nothing) {
    auto const u = std::make_shared<user>();
    u->call();
    u->turn();
    u->inbox.close();
    u->call();
    lease_record lease;
    u->inbox.let_go(lease, true);
    u->inbox.shut_down_in_background();
    u->inbox.ask_for_turn();
    BOOST_TEST(u->turn().empty());
    BOOST_TEST(u->turns == 1U);
}

BOOST_AUTO_TEST_CASE(a_shutdown_in_the_background_comes_in_once) {
    auto const u = std::make_shared<user>();
    u->inbox.shut_down_in_background();
    u->inbox.shut_down_in_background();
    BOOST_TEST(u->turn() == "s");
    BOOST_TEST(u->inbox.is_background(*u->begun.back()));
    BOOST_CHECK(std::holds_alternative<shutdown_call>(u->begun.back()->call));
}

BOOST_AUTO_TEST_CASE(calls_come_in_from_any_thread) {
    auto const u = std::make_shared<user>();
    constexpr std::size_t each = 100;
    {
        std::jthread const first([&] {
            for (std::size_t i = 0; i < each; ++i) u->call();
        });
        std::jthread const second([&] {
            for (std::size_t i = 0; i < each; ++i) u->call();
        });
    }
    BOOST_TEST(u->turn().size() == 2 * each);
    BOOST_TEST(u->turns == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
