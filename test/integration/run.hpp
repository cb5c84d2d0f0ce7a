// Runs a test's coroutine to its end.
#ifndef HOLDFAST_TEST_INTEGRATION_RUN_HPP
#define HOLDFAST_TEST_INTEGRATION_RUN_HPP

#include <holdfast/address.hpp>

#include "support/fleet.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <exception>
#include <initializer_list>
#include <vector>

namespace holdfast::test {

namespace asio = boost::asio;

/// Runs `context` until the coroutine that `body()` makes has ended, and throws what it threw. What
/// else there is to do (connections, watchdogs) is left undone then.
template <class Body>
void run(asio::io_context& context, Body&& body,
         std::chrono::seconds limit = std::chrono::seconds(30)) {
    std::exception_ptr thrown;
    auto done = false;
    asio::co_spawn(context, body(), [&](std::exception_ptr e) {
        thrown = e;
        done = true;
    });
    auto const until = std::chrono::steady_clock::now() + limit;
    context.restart();
    while (!done && std::chrono::steady_clock::now() < until) context.run_one_until(until);
    BOOST_REQUIRE_MESSAGE(done, "the test's coroutine did not end in time");
    if (thrown) std::rethrow_exception(thrown);
}

/// Runs `context` until `happened()`; false if it does not in time.
template <class Predicate>
[[nodiscard]] bool run_until(asio::io_context& context, Predicate happened,
                             std::chrono::seconds limit = std::chrono::seconds(10)) {
    auto const until = std::chrono::steady_clock::now() + limit;
    context.restart();
    while (!happened() && std::chrono::steady_clock::now() < until) {
        context.run_one_for(std::chrono::milliseconds(5));
    }
    return happened();
}

inline std::vector<address> addresses_of(fleet const& servers) {
    std::vector<address> all;
    for (auto const& one : servers.addresses()) all.emplace_back(one);
    return all;
}

/// For what is to hold with each of so many instances.
template <class Test>
void with_fleets_of(std::initializer_list<std::size_t> sizes, server_options const& each,
                    Test test) {
    for (auto const size : sizes) {
        BOOST_TEST_CONTEXT(size << " instances") {
            fleet servers(size, each);
            test(servers);
        }
    }
}
template <class Test>
void with_fleets_of(std::initializer_list<std::size_t> sizes, Test test) {
    with_fleets_of(sizes, server_options{}, test);
}

} // namespace holdfast::test

#endif
