// Calls that Asio's operators combine: what happens to the loser, and to the rest after a failure.
#include "integration/test_client.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <exception>
#include <string>
#include <utility>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;
using namespace boost::asio::experimental::awaitable_operators;

namespace {

/// Runs the coroutine to its end.
void run(test_client& client, asio::awaitable<void> work) {
    auto done = false;
    std::exception_ptr thrown;
    asio::co_spawn(client.context, std::move(work), [&](std::exception_ptr e) {
        thrown = e;
        done = true;
    });
    BOOST_REQUIRE(client.until([&] { return done; }));
    if (thrown) std::rethrow_exception(thrown);
}

asio::awaitable<void> first_of(lock a, lock b, std::size_t& winner) {
    auto won = co_await (a.acquire(asio::use_awaitable) || b.acquire(asio::use_awaitable));
    winner = won.index();
}

asio::awaitable<void> both_of(lock a, lock b, bool& held) {
    auto all = co_await (a.acquire(asio::use_awaitable) && b.try_acquire(asio::use_awaitable));
    held = std::get<0>(all).held() && std::get<1>(all).held();
}

} // namespace

BOOST_AUTO_TEST_SUITE(combined_calls)

BOOST_AUTO_TEST_CASE(the_loser_is_cancelled_and_leaves_nothing) {
    fleet servers(3);
    test_client client(servers), other(servers);
    client.runs_with(other);
    auto held = other.hold("a");
    std::size_t winner = 2;
    run(client, first_of(client.locks.make_lock("a"), client.locks.make_lock("b"), winner));
    BOOST_TEST(winner == 1U);
    BOOST_TEST(client.idle());
    BOOST_TEST(other.releases(held));
    BOOST_TEST(client.sees(servers, "a", false));
    BOOST_TEST(client.sees(servers, "b", false));
}

// Both may win in one turn: the lease of the loser is destroyed.
BOOST_AUTO_TEST_CASE(a_loser_that_won_too_is_released) {
    fleet servers(1);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    for (int n = 0; n < 50; ++n) {
        std::size_t winner = 2;
        run(client, first_of(client.locks.make_lock("a"), client.locks.make_lock("b"), winner));
        BOOST_TEST(winner < 2U);
    }
    BOOST_TEST(client.idle());
    BOOST_TEST(client.sees(servers, "a", false));
    BOOST_TEST(client.sees(servers, "b", false));
}

BOOST_AUTO_TEST_CASE(both_are_held_or_none) {
    fleet servers(3);
    test_client client(servers), other(servers);
    client.runs_with(other);
    auto both = false;
    run(client, both_of(client.locks.make_lock("a"), client.locks.make_lock("b"), both));
    BOOST_TEST(both);
    BOOST_TEST(client.idle());
    auto held = other.hold("b");
    BOOST_CHECK_EXCEPTION(
        run(client, both_of(client.locks.make_lock("a"), client.locks.make_lock("b"), both)),
        system_error, [](system_error const& e) { return e.code() == errc::contended; });
    BOOST_TEST(client.idle());
    BOOST_TEST(client.sees(servers, "a", false));
    BOOST_TEST(other.releases(held));
}

BOOST_AUTO_TEST_SUITE_END()
