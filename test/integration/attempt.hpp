// An acquire that a test starts, cancels and waits for.
#ifndef HOLDFAST_TEST_INTEGRATION_ATTEMPT_HPP
#define HOLDFAST_TEST_INTEGRATION_ATTEMPT_HPP

#include <holdfast/lock.hpp>

#include "integration/test_client.hpp"
#include "support/redis_cli.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::test {

/// An acquire and its result. The handler keeps a pointer to this object.
class attempt {
    auto handler() {
        return asio::bind_cancellation_slot(signal.slot(), [this](error e, lease l) {
            when = lease_clock::now();
            how = std::move(e);
            held = std::move(l);
            done = true;
            ++ended;
        });
    }

public:
    attempt() = default;
    attempt(test_client& client, std::string_view key, lock_options const& options) {
        start(client.locks.make_lock(key, options));
    }
    attempt(attempt const&) = delete;
    attempt& operator=(attempt const&) = delete;

    void start(lock const& key) { key.acquire(handler()); }
    void start_for(lock const& key, std::chrono::nanoseconds limit) {
        key.try_acquire_for(limit, handler());
    }
    void start_try(lock const& key) { key.try_acquire(handler()); }

    bool won() const { return done && !how && held.held(); }

    asio::cancellation_signal signal;
    int ended = 0; ///< number of calls of the handler
    bool done = false;
    error how;
    lease held;
    lease_clock::time_point when{}; ///< when the handler was called
};

/// Waits until the attempt has the lock, and returns the lease.
inline lease wait_for_lease(test_client& client, attempt& a) {
    BOOST_REQUIRE(client.until([&] { return a.done; }));
    BOOST_REQUIRE_MESSAGE(!a.how, a.how.what());
    BOOST_TEST(a.held.held());
    return std::move(a.held);
}

/// Waits until the attempt has the lock, and releases it.
inline void check_gets(test_client& client, attempt& a) {
    BOOST_REQUIRE(client.until([&] { return a.done; }));
    BOOST_TEST(!a.how, a.how.what());
    BOOST_TEST(a.held.held());
    if (a.held) BOOST_TEST(client.releases(a.held));
}

/// Waits until `count` acquires of the client wait for their lock.
[[nodiscard]] inline bool waits(test_client& client, std::uint64_t count = 1) {
    return client.until([&] { return client.locks.stats().waiters == count; });
}

/// The indexes of the instances that must report changes of a key.
inline std::vector<std::size_t> tracking_instances(fleet const& servers) {
    std::vector<std::size_t> all;
    std::size_t i = 0;
    for (server& instance : servers) {
        if (redis_cli(instance).info("tracking_total_keys") != "0") all.push_back(i);
        ++i;
    }
    return all;
}

/// The number of pairs of a client and a key for which the servers must report a change. Pairs of
/// closed connections count until their key changes.
inline std::size_t tracked_keys(fleet const& servers) {
    std::size_t all = 0;
    for (server& instance : servers) {
        if (instance.running()) all += std::stoul(redis_cli(instance).info("tracking_total_items"));
    }
    return all;
}

/// Waits until an acquire of the client waits and the servers track more pairs than `already`.
[[nodiscard]] inline bool waits_for_push(test_client& client, fleet const& servers,
                                         std::size_t already = 0) {
    return waits(client) && client.until([&] { return tracked_keys(servers) > already; });
}

} // namespace holdfast::test

#endif
