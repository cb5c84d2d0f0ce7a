// Several clients on one context. They share no state, like clients of several processes, but one
// thread sees the order in which they get a key.
#ifndef HOLDFAST_TEST_INTEGRATION_CLIENT_GROUP_HPP
#define HOLDFAST_TEST_INTEGRATION_CLIENT_GROUP_HPP

#include <holdfast/client.hpp>

#include "integration/run.hpp"
#include "integration/test_client.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::test {

struct client_group {
    client_group(fleet const& servers, std::size_t size, client_options const& options)
        : client_group(addresses_of(servers), size, options) {}
    client_group(std::vector<address> const& servers, std::size_t size,
                 client_options const& options) {
        for (std::size_t i = 0; i < size; ++i) {
            clients.push_back(std::make_unique<client>(context.get_executor(), servers, options));
        }
        BOOST_REQUIRE(all_up());
    }
    template <class Predicate>
    [[nodiscard]] bool until(Predicate happened,
                             std::chrono::seconds limit = std::chrono::seconds(20)) {
        return run_until(context, happened, limit);
    }
    [[nodiscard]] bool all_up() {
        return until([&] {
            return std::all_of(clients.begin(), clients.end(),
                               [](auto const& client) { return is_up(*client); });
        });
    }
    [[nodiscard]] bool idle() {
        return until([&] {
            return std::all_of(clients.begin(), clients.end(),
                               [](auto const& client) { return is_idle(*client); });
        });
    }
    [[nodiscard]] boost::test_tools::assertion_result sees_no_locks(server const& on) {
        return has_no_locks(on, [this](auto const& none) { return until(none); });
    }
    lock key_of(std::size_t i, std::string_view key, lock_options const& options = long_lived) {
        return clients.at(i)->make_lock(key, options);
    }
    void start(asio::awaitable<void> work) {
        ++working;
        asio::co_spawn(context, std::move(work), [this](std::exception_ptr thrown) {
            --working;
            if (thrown) std::rethrow_exception(thrown);
        });
    }

    asio::io_context context;
    std::vector<std::unique_ptr<client>> clients;
    std::size_t working = 0; // coroutines that have not ended
};

} // namespace holdfast::test

#endif
