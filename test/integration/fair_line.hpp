// Clients that stand in line for a fair lock, and get it one after another.
#ifndef HOLDFAST_TEST_INTEGRATION_FAIR_LINE_HPP
#define HOLDFAST_TEST_INTEGRATION_FAIR_LINE_HPP

#include <holdfast/client.hpp>

#include "integration/attempt.hpp"
#include "integration/client_group.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::test {

inline constexpr lock_options fair{.ttl = std::chrono::seconds(60), .fair = true};
inline constexpr lock_options fair_fenced{
    .ttl = std::chrono::seconds(60), .fencing = true, .fair = true};

/// The list that belongs to this key. The key has no braces.
inline std::string line_of(std::string const& key) {
    return '{' + key + "}:queue";
}

inline std::vector<std::size_t> first_to_last(std::size_t n) {
    std::vector<std::size_t> all(n);
    std::iota(all.begin(), all.end(), std::size_t(0));
    return all;
}

/// Clients that stand in line for one key behind a holder, in the order of their indexes.
struct fair_line {
    /// `length`: of the line on the servers.
    fair_line(std::vector<address> const& servers, std::string of_key, std::size_t size,
              std::function<std::size_t()> length, lock_options const& o = fair,
              client_options const& of_clients = patient())
        : group(servers, size + 1, of_clients)
        , key(std::move(of_key))
        , options(o)
        , in_line(std::move(length)) {
        attempt first;
        first.start(group.key_of(0, key, options));
        BOOST_REQUIRE(group.until([&] { return first.done; }));
        BOOST_REQUIRE_MESSAGE(!first.how, first.how.what());
        holder = std::move(first.held);
        for (std::size_t i = 0; i < size; ++i) join();
    }
    void join() {
        auto const i = waiting.size();
        waiting.emplace_back();
        waiting.back().start(group.key_of(i + 1, key, options));
        BOOST_REQUIRE(group.until([&] { return in_line() == i + 1; }));
    }
    void release(lease& held) {
        auto done = false;
        held.release([&](release_result r) {
            BOOST_TEST(static_cast<bool>(r));
            done = true;
        });
        BOOST_REQUIRE(group.until([&] { return done; }));
    }
    /// The index of the next client that has the key.
    std::size_t next(std::chrono::seconds limit = std::chrono::seconds(20)) {
        std::optional<std::size_t> won;
        auto const found = group.until(
            [&] {
                for (std::size_t i = 0; i < waiting.size(); ++i) {
                    if (waiting[i].won()) won = i;
                }
                return won.has_value();
            },
            limit);
        BOOST_REQUIRE(found);
        return *won;
    }
    /// Each client in turn gets the key, and gives it on. The order of the clients.
    std::vector<std::size_t> pass(std::chrono::seconds limit = std::chrono::seconds(20)) {
        std::vector<std::size_t> order;
        release(holder);
        for (std::size_t n = 0; n < waiting.size(); ++n) {
            auto const i = next(limit);
            order.push_back(i);
            fences.push_back(waiting[i].held.fence());
            release(waiting[i].held);
            waiting[i].held = {};
        }
        return order;
    }
    /// Waits until each client that stands in line has asked for its place again, from this one on.
    void renew(std::size_t first = 0) {
        std::vector<std::uint64_t> before;
        for (auto const& client : group.clients) before.push_back(client->stats().rounds);
        BOOST_REQUIRE(group.until([&] {
            for (std::size_t i = first; i < waiting.size(); ++i) {
                if (group.clients[i + 1]->stats().rounds < before[i + 1] + 2) return false;
            }
            return true;
        }));
    }

    client_group group;
    std::string key;
    lock_options options;
    std::function<std::size_t()> in_line;
    lease holder;
    std::deque<attempt> waiting;
    std::vector<std::uint64_t> fences;
};

/// True if the clients pass the key on in order in one of three lines that `make` makes. Where the
/// machine stands still, instances are late, and a line goes on at another one.
template <class Make>
[[nodiscard]] bool in_order(Make make) {
    for (int n = 0; n < 3; ++n) {
        auto line = make();
        if (line.pass() == first_to_last(line.waiting.size())) return true;
    }
    return false;
}

} // namespace holdfast::test

#endif
