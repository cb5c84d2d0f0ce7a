// Unit tests of code that takes locks, with Boost.Test. They need no server: the instances are
// inside this process, and each test makes them fail as it needs.
#define BOOST_TEST_MODULE seats
#include <holdfast/client.hpp>
#include <holdfast/testing/instance.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/included/unit_test.hpp>

#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using holdfast::testing::instance;

//
// The code under test
//

enum class sale {
    sold,
    busy,   ///< somebody else buys this seat
    outage, ///< too few instances can be reached
    lost,   ///< the lock was lost before the end
};

using payment = std::function<asio::awaitable<void>(holdfast::lease&)>;

asio::awaitable<sale> sell(holdfast::client& locks, int seat, payment pay) {
    auto const lock = locks.make_lock("seat:" + std::to_string(seat), {.ttl = 1s});
    try {
        holdfast::lease lease = co_await lock.try_acquire_for(500ms);
        co_await pay(lease);
        auto const released = co_await lease.release();
        co_return released.confirmed() ? sale::sold : sale::lost;
    } catch (holdfast::system_error const& e) {
        if (e.code() == holdfast::errc::wait_timeout) co_return sale::busy;
        if (e.code() == holdfast::error_condition::unavailable) co_return sale::outage;
        throw;
    }
}

//
// Its tests
//

namespace {

/// Sells seat 12 on these instances.
sale sold_on(std::vector<holdfast::address> const& instances, payment const& pay) {
    asio::io_context context;
    holdfast::client locks(context.get_executor(), instances);
    auto result = sale::sold;
    std::exception_ptr error;
    asio::co_spawn(context, sell(locks, 12, pay), [&](std::exception_ptr e, sale s) {
        result = s;
        error = std::move(e);
        locks.close();
    });
    context.run();
    if (error) std::rethrow_exception(error);
    return result;
}

asio::awaitable<void> pay_at_once(holdfast::lease&) {
    co_return;
}

} // namespace

BOOST_AUTO_TEST_CASE(a_seat_is_sold_under_its_lock) {
    instance one;
    bool locked = false;
    auto const pay = [&](holdfast::lease&) -> asio::awaitable<void> {
        locked = one.holds("seat:12");
        co_return;
    };
    BOOST_CHECK(sold_on({one.address()}, pay) == sale::sold);
    BOOST_TEST(locked);
    BOOST_TEST(!one.holds("seat:12"));
}

BOOST_AUTO_TEST_CASE(a_seat_that_somebody_else_buys_is_busy) {
    instance one;
    one.hold("seat:12");
    BOOST_CHECK(sold_on({one.address()}, pay_at_once) == sale::busy);
    BOOST_TEST(one.holds("seat:12")); // the other one still has it
}

BOOST_AUTO_TEST_CASE(sales_go_on_while_a_minority_is_away) {
    std::vector<instance> five(5);
    five[0].down();
    five[1].freeze();
    auto const addresses = holdfast::testing::addresses(five);
    BOOST_CHECK(sold_on(addresses, pay_at_once) == sale::sold);
    five[2].down();
    BOOST_CHECK(sold_on(addresses, pay_at_once) == sale::outage);
}

BOOST_AUTO_TEST_CASE(a_sale_does_not_count_if_the_key_is_deleted) {
    instance one;
    auto const pay = [&](holdfast::lease&) -> asio::awaitable<void> {
        one.erase("seat:12");
        co_return;
    };
    BOOST_CHECK(sold_on({one.address()}, pay) == sale::lost);
}

BOOST_AUTO_TEST_CASE(a_payment_learns_that_the_instance_hangs) {
    instance one;
    auto const pay = [&](holdfast::lease& lease) -> asio::awaitable<void> {
        one.freeze();
        co_await lease.wait_end(); // ends by the deadline, after 1 s
    };
    BOOST_CHECK(sold_on({one.address()}, pay) == sale::lost);
}
