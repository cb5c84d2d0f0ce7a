// Helpers that run contexts, coroutines and tests.
#ifndef HOLDFAST_TEST_INTEGRATION_RUN_HPP
#define HOLDFAST_TEST_INTEGRATION_RUN_HPP

#include <holdfast/address.hpp>

#include "support/fleet.hpp"
#include "support/redis_cli.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <exception>
#include <initializer_list>
#include <string>
#include <vector>

namespace holdfast::test {

namespace asio = boost::asio;

/// Runs `context` until the coroutine that `body()` makes has ended, and rethrows its exception.
/// Other work, such as connections and watchdogs, is then left unfinished.
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

/// Runs `context` until `happened()` is true. False if that takes too long.
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
    for (auto const& address : servers.urls()) all.emplace_back(address);
    return all;
}

/// The addresses of the servers for the user "guest", with these ACL rules.
inline std::vector<address> as_user(fleet const& servers, std::vector<std::string> const& rules) {
    std::vector<address> all;
    for (server& instance : servers) {
        command_line words{"ACL", "SETUSER", "guest", "on", ">pw", "&*", "+@all"};
        words.insert(words.end(), rules.begin(), rules.end());
        BOOST_REQUIRE(redis_cli(instance).command(words).is_ok());
        all.emplace_back("redis://guest:pw@" + instance.address());
    }
    return all;
}

inline void forget_scripts(fleet const& servers) {
    for (server& instance : servers)
        BOOST_REQUIRE(redis_cli(instance).command({"SCRIPT", "FLUSH"}).is_ok());
}

/// Runs the test with three servers of each kind, and with one server of each kind.
template <class Test>
void on_every_kind(Test test) {
    auto const kinds = available_servers();
    BOOST_REQUIRE(!kinds.empty());
    std::vector<server_options> mixed;
    for (auto const& kind : kinds) {
        server_options options;
        options.kind = kind;
        mixed.push_back(options);
        BOOST_TEST_CONTEXT(kind.name) {
            fleet servers(3, options);
            test(servers);
        }
    }
    if (mixed.size() == 1) return;
    BOOST_TEST_CONTEXT("mixed") {
        fleet servers(mixed);
        test(servers);
    }
}

/// Runs the test with fleets of these sizes.
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
