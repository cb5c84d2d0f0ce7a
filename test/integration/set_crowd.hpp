// Many locks on overlapping sets of keys, for clients of one context.
#ifndef HOLDFAST_TEST_INTEGRATION_SET_CROWD_HPP
#define HOLDFAST_TEST_INTEGRATION_SET_CROWD_HPP

#include "integration/client_group.hpp"
#include "integration/test_client.hpp"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::test {

using key_names = std::vector<std::string>;

inline std::pair<error, lease> acquire_all(test_client& c, key_names const& keys,
                                           lock_options const& options = long_lived,
                                           wait_limit limit = no_limit) {
    auto done = false;
    std::pair<error, lease> got;
    auto take = [&](error e, lease l) {
        got.first = std::move(e);
        got.second = std::move(l);
        done = true;
    };
    auto const on = c.locks.make_multi_lock(keys, options);
    limit.time == no_limit.time ? on.acquire(take) : on.try_acquire_for(limit.time, take);
    BOOST_REQUIRE(c.until([&] { return done; }, std::chrono::seconds(30)));
    return got;
}

/// Two holders of one key at a time are an error.
class set_crowd {
public:
    set_crowd(std::vector<address> const& servers, lock_options const& options,
              std::size_t clients = 3, key_names const& keys = {"a", "b", "c"},
              client_options const& client = unhurried())
        : group(servers, clients, client) {
        auto const &a = keys.at(0), &b = keys.at(1), &c = keys.at(2);
        std::vector<key_names> const wanted{{a, b}, {b, c}, {c, a}, {a, b, c}, {a}, {b}, {c}};
        unsigned seed = 0;
        for (auto& each : group.clients) {
            for (auto const& of : wanted)
                group.start(work(each->make_multi_lock(of, options), of, ++seed));
        }
    }

    /// So many more leases.
    void goes_on(std::size_t leases, std::chrono::seconds limit = std::chrono::seconds(60)) {
        auto const before = entered;
        auto const went_on = group.until([&] { return entered >= before + leases; }, limit);
        for (auto const& each : group.clients) {
            if (went_on) break;
            auto const s = each->stats();
            BOOST_TEST_MESSAGE("waiters " << s.waiters << ", held " << s.held << ", rounds "
                                          << s.rounds << ", acquired " << s.acquired
                                          << ", split votes " << s.split_votes << ", pushes "
                                          << s.pushes);
        }
        BOOST_REQUIRE_MESSAGE(went_on, entered - before << " leases");
    }
    void stops() {
        ends_ = true;
        BOOST_REQUIRE(group.until([&] { return group.working == 0; }, std::chrono::seconds(60)));
        BOOST_TEST(group.idle());
    }

    std::size_t entered = 0, lost = 0;
    client_group group;

private:
    asio::awaitable<void> work(lock on, key_names keys, unsigned seed) {
        std::mt19937 random(seed);
        std::uniform_int_distribution<int> length(0, 2'000);
        asio::steady_timer timer(co_await asio::this_coro::executor);
        while (!ends_) {
            auto held = co_await on.acquire();
            for (auto const& key : keys) BOOST_TEST(++holders_[key] == 1, "two have " << key);
            ++entered;
            timer.expires_after(std::chrono::microseconds(length(random)));
            co_await timer.async_wait(asio::deferred);
            for (auto const& key : keys) --holders_[key];
            auto const released = co_await held.release();
            if (released == errc::lease_lost) ++lost;
        }
    }

    std::map<std::string, int> holders_;
    bool ends_ = false;
};

} // namespace holdfast::test

#endif
