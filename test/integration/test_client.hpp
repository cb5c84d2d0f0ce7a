// A client with its own context, for tests that make one call after another.
#ifndef HOLDFAST_TEST_INTEGRATION_TEST_CLIENT_HPP
#define HOLDFAST_TEST_INTEGRATION_TEST_CLIENT_HPP

#include <holdfast/client.hpp>
#include <holdfast/with_lock.hpp>

#include "integration/nothing_left.hpp"
#include "integration/run.hpp"
#include "support/fleet.hpp"
#include "support/redis_cli.hpp"
#include "support/text.hpp"
#include "support/wait.hpp"

#include <boost/asio/cancellation_type.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::test {

/// Timeouts that never end a wait in a test without hanging servers.
inline client_options patient() {
    return {.instance_timeout = std::chrono::seconds(20),
            .connect_timeout = std::chrono::seconds(20),
            .max_reconnect_delay = std::chrono::milliseconds(50)};
}

/// Fences are counted by script, because no clock of a server is known.
inline client_options without_native_counts() {
    auto options = patient();
    options.detect_clock_jumps = false;
    return options;
}

inline client_options hasty() {
    return {.instance_timeout = std::chrono::milliseconds(250),
            .connect_timeout = std::chrono::milliseconds(250),
            .max_reconnect_delay = std::chrono::milliseconds(50)};
}

/// For tests with a hanging minority: the timeouts are long enough for the other instances on a
/// busy machine.
inline client_options unhurried() {
    return {.instance_timeout = std::chrono::seconds(3),
            .connect_timeout = std::chrono::seconds(3),
            .max_reconnect_delay = std::chrono::milliseconds(50)};
}

/// For tests that restart or flush servers, but do not test the guards.
inline client_options trusting(client_options options) {
    options.on_restart = restart_policy::off;
    return options;
}

/// The client sends no questions of its own between the calls.
inline client_options without_questions() {
    auto options = trusting(patient());
    options.detect_clock_jumps = false;
    return options;
}

/// The ttl is so long that a key which disappears during a test was deleted.
inline constexpr lock_options long_lived{.ttl = std::chrono::seconds(60)};
/// The same, and a tenure may be handed over at any time, also on a busy machine.
inline constexpr lock_options handed_on{.ttl = std::chrono::seconds(60),
                                        .handover_time = std::chrono::seconds(60)};

/// The ttl of a lease that the watchdog must not lose. The watchdog renews it after a third of the
/// ttl. So the machine may pause for two thirds: 2 s.
inline constexpr std::chrono::milliseconds renewed_ttl(3'000);

inline constexpr std::array every_type{asio::cancellation_type::total,
                                       asio::cancellation_type::partial,
                                       asio::cancellation_type::terminal};

inline std::size_t copies(fleet const& servers, std::string const& key) {
    std::size_t n = 0;
    for (server& instance : servers) n += redis_cli(instance).exists(key) ? 1 : 0;
    return n;
}

inline bool is_up(client const& locks) {
    auto const all = locks.instances();
    return std::all_of(all.begin(), all.end(),
                       [](auto const& i) { return i.state == instance_state::up; });
}

inline bool is_idle(client const& locks) {
    auto const s = locks.stats();
    return s.waiters == 0 && s.pending == 0 && s.held == 0;
}

/// Options of a lease that ends at its deadline, without renewal.
constexpr lock_options unwatched(std::chrono::milliseconds ttl) {
    return {.ttl = ttl, .watchdog = false};
}

/// A call fails where an acquire would wait for instances.
constexpr lock_options impatient(lock_options options = long_lived) {
    options.on_outage = outage_policy::fail;
    return options;
}

/// The client checks each server about once a second.
inline client_options brisk() {
    auto options = patient();
    options.instance_timeout = std::chrono::seconds(1);
    return options;
}

/// The client's clock goes on, and nothing of the client runs meanwhile.
inline void stand_still(lease_clock::duration length) {
    auto const end = lease_clock::now() + length;
    BOOST_TEST(wait_until([&] { return lease_clock::now() >= end; }, std::chrono::seconds(30)));
}

/// A client whose calls wait for their completion.
struct test_client {
    asio::io_context context;
    client locks;

    explicit test_client(std::vector<address> const& addresses,
                         client_options const& options = patient())
        : locks(context.get_executor(), addresses, options) {}
    explicit test_client(fleet const& servers, client_options const& options = patient())
        : test_client(addresses_of(servers), options) {}

    // Waits for a holder, and not for instances.
    std::pair<error, lease> acquire(std::string_view key,
                                    lock_options const& options = long_lived) {
        auto const lock = locks.make_lock(key, impatient(options));
        return wait([&](auto handler) { lock.acquire(std::move(handler)); });
    }
    std::pair<error, lease> try_acquire(std::string_view key,
                                        lock_options const& options = long_lived) {
        auto const lock = locks.make_lock(key, options);
        return wait([&](auto handler) { lock.try_acquire(std::move(handler)); });
    }
    // Acquires a lock, which must succeed.
    lease hold(std::string_view key, lock_options const& options = long_lived) {
        auto [e, l] = acquire(key, options);
        BOOST_REQUIRE_MESSAGE(!e, e.what());
        BOOST_TEST(l.held());
        return std::move(l);
    }
    error extend(lease& held) {
        auto done = false;
        error result;
        held.extend([&](error e) {
            result = std::move(e);
            done = true;
        });
        BOOST_REQUIRE(until([&] { return done; }));
        return result;
    }
    release_result release(lease& held) {
        auto done = false;
        release_result result;
        held.release([&](release_result r) {
            result = r;
            done = true;
        });
        BOOST_REQUIRE(until([&] { return done; }));
        return result;
    }
    [[nodiscard]] bool releases(lease& held) { return release(held).confirmed(); }

    // Runs the client, and the clients that run with it, until the predicate is true.
    template <class Predicate>
    [[nodiscard]] bool until(Predicate happened,
                             std::chrono::seconds limit = std::chrono::seconds(10)) {
        auto const run_others = [&] {
            for (auto* const other : others_) {
                other->context.restart();
                other->context.poll();
            }
            return happened();
        };
        return run_until(context, run_others, limit);
    }
    // Lets both clients run together from now on. A release completes at a quorum, so its client
    // must run until the other instances have the release.
    void runs_with(test_client& other) {
        runs(other);
        other.runs(*this);
    }
    // The same for this client alone, which may go before the other.
    void runs(test_client& other) { others_.push_back(&other); }
    void pass(lease_clock::time_point when) {
        BOOST_REQUIRE(until([&] { return lease_clock::now() >= when; }));
    }
    instance_status status(std::size_t i) const { return locks.instances().at(i); }
    [[nodiscard]] bool goes_down(std::size_t i, errc reason) {
        return until([&] {
            auto const s = status(i);
            return s.state == instance_state::down && s.reason == make_error_code(reason);
        });
    }
    [[nodiscard]] bool sees(fleet const& servers, std::string const& key, bool there) {
        return until([&] {
            for (server& instance : servers) {
                if (redis_cli(instance).exists(key) != there) return false;
            }
            return true;
        });
    }
    [[nodiscard]] boost::test_tools::assertion_result sees_no_locks(server const& on) {
        return has_no_locks(on, [this](auto const& none) { return until(none); });
    }
    /// No operation is under way, and no lease is held.
    [[nodiscard]] bool idle() {
        return until([&] { return is_idle(locks); });
    }
    [[nodiscard]] bool becomes(std::size_t i, instance_state state) {
        return until([&] { return status(i).state == state; });
    }
    [[nodiscard]] bool all_up() {
        return until([&] { return is_up(locks); });
    }
    // Waits until the watchdog has extended `times` more times.
    [[nodiscard]] bool renews(std::uint64_t times) {
        auto const before = locks.stats().extended;
        return until([&] { return locks.stats().extended >= before + times; },
                     std::chrono::seconds(30));
    }

private:
    template <class Start>
    std::pair<error, lease> wait(Start start) {
        auto done = false;
        std::pair<error, lease> result;
        start([&](error e, lease l) {
            result.first = std::move(e);
            result.second = std::move(l);
            done = true;
        });
        BOOST_REQUIRE(until([&] { return done; }));
        return result;
    }

    std::vector<test_client*> others_;
};

} // namespace holdfast::test

#endif
