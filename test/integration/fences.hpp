// Helpers for the tests of fences: counters, numbers, and turns that wait for all servers.
#ifndef HOLDFAST_TEST_INTEGRATION_FENCES_HPP
#define HOLDFAST_TEST_INTEGRATION_FENCES_HPP

#include <holdfast/lease.hpp>

#include "integration/attempt.hpp"
#include "integration/foreign_client.hpp"
#include "integration/test_client.hpp"
#include "support/counters.hpp"
#include "support/wait.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace holdfast::test {

inline constexpr lock_options fenced{.ttl = std::chrono::seconds(60), .fencing = true};

inline std::string const counter = "{k}:fence";
/// `minute`: the numbers in a minute. `counter_limit`: the first number that no tenure gets.
inline constexpr std::uint64_t minute = 60'000 * 10;
inline constexpr std::uint64_t counter_limit = (std::uint64_t{1} << 53) / 100;

inline std::uint64_t tenure_of(lease const& l) {
    return l.fence() / 100;
}
inline std::uint64_t handovers_of(lease const& l) {
    return l.fence() % 100;
}

/// The number of a tenure that begins now.
inline std::uint64_t number_now() {
    using namespace std::chrono;
    auto const since_epoch = system_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(duration_cast<milliseconds>(since_epoch).count()) * 10;
}

/// Waits until no tenure has a number of this millisecond.
inline void wait_for_next_number() {
    auto const before = number_now();
    BOOST_REQUIRE(wait_until([&] { return number_now() > before; }));
}

inline void set_counters(fleet const& servers, std::string const& value) {
    for (server& instance : servers) set_counter(instance, counter, value);
}

/// The counter of an instance; 0 if it has none.
inline std::uint64_t count_at(server const& on) {
    redis_cli cli(on);
    auto const text = counter_at(cli, counter);
    return text ? std::stoull(*text) : 0;
}

inline std::size_t how_many_count_to(fleet const& servers, std::uint64_t number) {
    std::size_t n = 0;
    for (server& instance : servers) {
        if (instance.running() && !instance.frozen() && count_at(instance) >= number) ++n;
    }
    return n;
}

/// Waits until all instances have counted that far. Then no command of the client is left that
/// could change a counter.
inline bool all_count_to(test_client& client, fleet const& servers, std::uint64_t number) {
    return client.until([&] { return how_many_count_to(servers, number) == servers.size(); });
}

/// Acquires, releases, and waits until the key is gone everywhere. Returns the fence.
inline std::uint64_t take_turn(test_client& client, fleet const& servers,
                               lock_options const& options = fenced) {
    auto l = client.hold("k", options);
    auto const fence = l.fence();
    BOOST_TEST(how_many_count_to(servers, tenure_of(l)) >= servers.quorum());
    BOOST_TEST(client.releases(l));
    BOOST_TEST(client.until([&] {
        for (server& instance : servers) {
            if (instance.running() && !instance.frozen() && redis_cli(instance).exists("k"))
                return false;
        }
        return true;
    }));
    return fence;
}

} // namespace holdfast::test

#endif
