// A lock holder that shares no code with holdfast.
#ifndef HOLDFAST_TEST_INTEGRATION_FOREIGN_CLIENT_HPP
#define HOLDFAST_TEST_INTEGRATION_FOREIGN_CLIENT_HPP

#include <holdfast/lease.hpp>

#include "support/fleet.hpp"
#include "support/redis_cli.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace holdfast::test {

/// Holds and releases keys on every running instance, by SET NX PX and compare-and-delete, as
/// Redlock clients do.
struct foreign_client {
    static constexpr char const* token = "0e5d3bd4-foreign-7c1b";

    explicit foreign_client(fleet const& servers) {
        for (server& instance : servers) {
            if (instance.running()) clis.emplace_back(instance);
        }
    }
    void hold(std::string const& key,
              std::chrono::milliseconds ttl = std::chrono::milliseconds(60'000)) {
        for (auto& cli : clis) BOOST_REQUIRE(cli.set_if_absent(key, token, ttl));
    }
    void hold_for_ever(std::string const& key) {
        for (auto& cli : clis) cli.set(key, token);
    }
    void del(std::string const& key) {
        for (auto& cli : clis) BOOST_TEST(cli.del(key));
    }
    void del_by_script(std::string const& key) {
        for (auto& cli : clis) BOOST_TEST(cli.del_if_equal(key, token));
    }
    /// Deletes the key of any holder. Returns the number of instances that had it.
    std::size_t del_if_there(std::string const& key) {
        std::size_t deleted = 0;
        for (auto& cli : clis) deleted += cli.del(key) ? 1 : 0;
        return deleted;
    }
    void flush() {
        for (auto& cli : clis) cli.flush();
    }
    /// Closes the connections of all other clients, and returns their number.
    std::int64_t kill_clients() {
        std::int64_t killed = 0;
        for (auto& cli : clis)
            killed += cli.command({"CLIENT", "KILL", "TYPE", "normal"}).integer();
        return killed;
    }
    /// The earliest time at which the key can have expired on a majority.
    lease_clock::time_point expiry(std::string const& key) {
        std::vector<lease_clock::time_point> each;
        for (auto& cli : clis) {
            auto const asked = lease_clock::now();
            each.push_back(asked + std::max(std::chrono::milliseconds(0), cli.pttl(key)));
        }
        std::sort(each.begin(), each.end());
        return each[each.size() / 2];
    }

    std::vector<redis_cli> clis;
};

} // namespace holdfast::test

#endif
