// Helpers for the tests of the guards: quarantines, crashes, and reconnections.
#ifndef HOLDFAST_TEST_INTEGRATION_GUARDS_HPP
#define HOLDFAST_TEST_INTEGRATION_GUARDS_HPP

#include <holdfast/client.hpp>

#include "integration/attempt.hpp"
#include "integration/test_client.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

namespace holdfast::test {

inline client_options guarded(restart_policy how, std::chrono::milliseconds max_ttl,
                              client_options options = patient()) {
    options.on_restart = how;
    options.max_ttl = max_ttl;
    return options;
}

inline bool is_quarantined(test_client const& client, std::size_t i) {
    return client.status(i).state == instance_state::quarantined;
}

/// True if the first `count` instances are in quarantine, and no others.
inline bool are_quarantined(test_client const& client, std::size_t count) {
    auto const all = client.locks.instances();
    for (std::size_t i = 0; i < all.size(); ++i) {
        if ((all[i].state == instance_state::quarantined) != (i < count)) return false;
    }
    return true;
}

/// True if the instance votes, and no error or quarantine is left.
inline bool is_trusted(test_client const& client, std::size_t i) {
    auto const s = client.status(i);
    return s.state == instance_state::up && !s.reason.failed() && s.message.empty() &&
           s.quarantined_until <= lease_clock::now();
}

inline bool all_trusted(test_client const& client) {
    for (std::size_t i = 0; i < client.locks.instances().size(); ++i) {
        if (!is_trusted(client, i)) return false;
    }
    return true;
}

/// True if all instances vote and none was ever in quarantine. A max_ttl of minutes makes sure that
/// an earlier one still shows.
inline bool were_always_trusted(client const& c) {
    auto const all = c.instances();
    return std::all_of(all.begin(), all.end(), [](auto const& s) {
        return s.state == instance_state::up && s.quarantined_until == lease_clock::time_point{};
    });
}

inline void check_quarantined(test_client const& client, std::size_t i, std::string_view reason) {
    auto const s = client.status(i);
    BOOST_TEST_CONTEXT("instance " << i) {
        BOOST_TEST((s.state == instance_state::quarantined), to_string(s.state));
        BOOST_TEST(s.reason == make_error_code(errc::quarantined));
        BOOST_TEST(contains(s.message, reason), s.message);
        BOOST_TEST((s.quarantined_until > lease_clock::now()));
    }
}

inline std::size_t quarantined_in(acquire_report const& r) {
    return static_cast<std::size_t>(
        std::count_if(r.instances.begin(), r.instances.end(), [](auto const& instance) {
            return instance.outcome == instance_outcome::quarantined;
        }));
}

/// Checks that an acquire failed because `count` instances are in quarantine.
inline void check_report(error const& e, std::size_t count, std::string_view reason) {
    BOOST_TEST((e == errc::quarantined), e.what());
    BOOST_TEST((e == error_condition::unavailable));
    BOOST_REQUIRE(e.report() != nullptr);
    for (auto const& instance : e.report()->instances) {
        if (instance.outcome == instance_outcome::quarantined)
            BOOST_TEST(contains(instance.message, reason), instance.message);
    }
    BOOST_TEST(quarantined_in(*e.report()) == count, e.what());
    BOOST_TEST(contains(e.what(), reason), e.what());
}

inline constexpr std::string_view restarted = "may have forgotten locks";
inline constexpr std::string_view replaced = "its data may have been replaced";
inline constexpr std::string_view evicting = "may evict locks: set noeviction";
inline constexpr std::string_view flushed = "all its keys were flushed";
inline constexpr std::string_view jumped = "its clock has jumped ahead";

inline std::vector<std::uint64_t> connections_of(test_client const& client) {
    std::vector<std::uint64_t> all;
    for (auto const& instance : client.locks.instances()) all.push_back(instance.connections);
    return all;
}

using indexes = std::vector<std::size_t>;

inline indexes the_first(std::size_t count) {
    indexes all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(i);
    return all;
}

/// Waits until the client has reconnected to these instances.
[[nodiscard]] inline bool is_back(test_client& client, std::vector<std::uint64_t> const& before,
                                  indexes const& which) {
    return client.until([&] {
        auto const all = client.locks.instances();
        return std::all_of(which.begin(), which.end(), [&](std::size_t i) {
            auto const connected =
                all[i].state == instance_state::up || all[i].state == instance_state::quarantined;
            return connected && all[i].connections > before[i];
        });
    });
}

/// Kills these servers and starts them again. Returns when the clients have reconnected.
inline void crash(fleet& servers, indexes const& which,
                  std::initializer_list<test_client*> clients) {
    std::vector<std::vector<std::uint64_t>> before;
    for (auto const* client : clients) before.push_back(connections_of(*client));
    for (auto const i : which) servers[i].kill();
    for (auto const i : which) servers[i].restart();
    auto b = before.begin();
    for (auto* client : clients) BOOST_REQUIRE(is_back(*client, *b++, which));
}

/// The same for one server.
inline void crash(server& instance, test_client& client) {
    auto const before = connections_of(client);
    instance.kill();
    instance.restart();
    BOOST_REQUIRE(is_back(client, before, {0}));
}

/// Waits until the client has asked each instance `times` more times for its time and the origin of
/// its data.
[[nodiscard]] inline bool asks_the_time(test_client& client, unsigned times) {
    auto const enough = client.locks.stats().commands + 2 * times * client.locks.instances().size();
    return client.until([&] { return client.locks.stats().commands >= enough; });
}

} // namespace holdfast::test

#endif
