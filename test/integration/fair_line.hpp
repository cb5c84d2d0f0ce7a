// Clients that stand in line for a fair lock, and get it one after another.
#ifndef HOLDFAST_TEST_INTEGRATION_FAIR_LINE_HPP
#define HOLDFAST_TEST_INTEGRATION_FAIR_LINE_HPP

#include <holdfast/client.hpp>

#include "integration/attempt.hpp"
#include "integration/client_group.hpp"
#include "support/standstill_watch.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
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

inline std::size_t sum(std::vector<std::size_t> const& all) {
    return std::accumulate(all.begin(), all.end(), std::size_t(0));
}

/// Clients that stand in line for one key behind a holder, in the order of their indexes.
struct fair_line {
    /// `lengths`: of the lists on the servers.
    fair_line(std::vector<address> const& servers, std::string of_key, std::size_t size,
              std::function<std::vector<std::size_t>()> lengths, lock_options const& o = fair,
              client_options const& of_clients = patient())
        : group(servers, size + 1, of_clients)
        , key(std::move(of_key))
        , options(o)
        , lists(std::move(lengths)) {
        attempt first;
        first.start(group.key_of(0, key, options));
        BOOST_REQUIRE(group.until([&] { return first.done; }));
        BOOST_REQUIRE_MESSAGE(!first.how, first.how.what());
        holder = std::move(first.held);
        for (std::size_t i = 0; i < size; ++i) join();
    }
    /// How many clients stand in line.
    std::size_t in_line() const { return sum(lists()); }
    /// True if they stand at one instance.
    bool is_one_line() const {
        auto const all = lists();
        return std::count(all.begin(), all.end(), std::size_t(0)) + 1 >=
               static_cast<std::ptrdiff_t>(all.size());
    }
    /// True if they were seen at several instances.
    bool was_split() const { return split; }
    /// Notes whether they have stood at several instances.
    void look() { split = split || !is_one_line(); }
    void join() {
        auto const size = waiting.size() + 1;
        waiting.emplace_back();
        waiting.back().start(group.key_of(size, key, options));
        auto const may_split = lists().size() > 1;
        BOOST_REQUIRE(
            group.until([&] { return in_line() == size || (may_split && in_line() > size); }));
        split = split || in_line() > size;
        look();
    }
    void release(lease& held) {
        auto done = false;
        held.release([&](release_result r) {
            BOOST_TEST(r.confirmed());
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
        look();
        return *won;
    }
    /// Each client that waits gets the key in turn, and gives it on. The order of the clients.
    std::vector<std::size_t> turns(std::uint64_t fence = 0,
                                   std::chrono::seconds limit = std::chrono::seconds(20)) {
        auto const left = std::count_if(waiting.begin(), waiting.end(),
                                        [](attempt const& a) { return !a.done || a.won(); });
        std::vector<std::size_t> order;
        for (auto n = left; n > 0; --n) {
            auto const i = next(limit);
            order.push_back(i);
            if (options.fencing) BOOST_TEST(waiting[i].held.fence() > fence);
            fence = waiting[i].held.fence();
            release(waiting[i].held);
            waiting[i].held = {};
        }
        return order;
    }
    /// The same after the holder's turn.
    std::vector<std::size_t> pass(std::chrono::seconds limit = std::chrono::seconds(20)) {
        auto const fence = holder.fence();
        look();
        release(holder);
        return turns(fence, limit);
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
    std::function<std::vector<std::size_t>()> lists;
    lease holder;
    std::deque<attempt> waiting;
    bool split = false; ///< the clients stood at several instances
};

/// The result of `check` for the line that `make` makes. On a busy machine an instance can answer
/// late, which counts from 10 ms on (round_trips::soonest_late). A process then passes over it, and
/// either stands in line at another instance or takes the key where it is free. So another line is
/// made if this one was split, or if the check failed and the machine stood still for longer.
template <class Make, class Check>
[[nodiscard]] bool on_one_line(Make make, Check check) {
    for (int n = 0; n < 5; ++n) {
        standstill_watch const machine;
        auto line = make();
        bool const right = check(line);
        if (!line.was_split() && (right || !machine.has_seen(std::chrono::milliseconds(20))))
            return right;
    }
    BOOST_TEST_MESSAGE("no line stayed at one instance, on a machine that went on");
    return false;
}

/// True if the clients of the line that `make` makes pass the key on in order.
template <class Make>
[[nodiscard]] bool in_order(Make make) {
    return on_one_line(std::move(make), [](auto& line) {
        auto const all = line.waiting.size();
        return line.pass() == first_to_last(all);
    });
}

} // namespace holdfast::test

#endif
