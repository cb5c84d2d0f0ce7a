#include "burst.hpp"

#include <holdfast/client.hpp>

#include "json_value.hpp"
#include "series.hpp"
#include "support/fleet.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <vector>

namespace holdfast::bench {

namespace asio = boost::asio;
namespace json = boost::json;
using namespace std::chrono_literals;
using wall_clock = std::chrono::steady_clock;

namespace {

asio::awaitable<void> take(client& c, std::vector<lease>& held, unsigned& next, unsigned count) {
    while (next < count) {
        auto const key = c.make_lock("bench:burst:" + std::to_string(next++), {.ttl = 120s});
        held.push_back(co_await key.acquire());
    }
}

/// Runs the context until `done` is true. Returns the longest time in which it ran no other
/// handler.
template <class Done>
double longest_stall_ms(asio::io_context& context, Done done) {
    auto longest = 0.;
    auto before = wall_clock::now();
    auto stopped = false;
    std::function<void()> tick = [&] {
        auto const now = wall_clock::now();
        longest =
            std::max(longest, std::chrono::duration<double, std::milli>(now - before).count());
        before = now;
        if (done()) {
            stopped = true;
            return context.stop();
        }
        asio::post(context, tick);
    };
    context.restart();
    asio::post(context, tick);
    while (!stopped) context.run();
    return longest;
}

void hold(asio::io_context& context, client& c, std::vector<lease>& held, unsigned count) {
    constexpr unsigned coroutines = 500;
    unsigned next = 0;
    unsigned running = coroutines;
    for (unsigned i = 0; i < coroutines; ++i) {
        asio::co_spawn(context, take(c, held, next, count), [&](std::exception_ptr e) {
            if (e) std::rethrow_exception(e);
            if (--running == 0) context.stop();
        });
    }
    context.restart();
    while (running > 0) context.run();
}

} // namespace

json::object burst_scenario(burst_settings const& s) {
    test::fleet servers(s.instances);
    series of;
    double lost = 0;
    for (unsigned round = 0; round < s.rounds; ++round) {
        asio::io_context context{1};
        client_options options;
        options.max_ttl = 120s;
        options.thread_safe = !s.single_threaded;
        std::vector<address> addresses;
        for (auto const& a : servers.addresses()) addresses.emplace_back(a);
        client locks(context.get_executor(), addresses, options);
        std::vector<lease> held;
        held.reserve(s.count);
        hold(context, locks, held, s.count);
        std::vector<lease> renewed;
        auto const unrelated = locks.make_lock("bench:unrelated", {.ttl = 1s});
        auto const other = locks.make_lock("bench:next", {.ttl = 10s});
        unrelated.acquire([&](error, lease l) { renewed.push_back(std::move(l)); });
        longest_stall_ms(context, [&] { return !renewed.empty(); });

        auto const dropped = wall_clock::now();
        held.clear();
        double acquired_after = 0;
        lease next;
        other.acquire([&](error, lease l) {
            next = std::move(l);
            acquired_after =
                std::chrono::duration<double, std::milli>(wall_clock::now() - dropped).count();
        });
        of.add("stall_ms",
               longest_stall_ms(context, [&] { return wall_clock::now() - dropped > 2s; }));
        of.add("next_acquire_ms", acquired_after);
        lost += renewed.front().held() ? 0 : 1;
        renewed.clear();
        next = {};
        auto over = false;
        locks.shutdown([&](error) { over = true; });
        longest_stall_ms(context, [&] { return over; });
    }
    return {{"count", s.count},
            {"stall_ms", json_value(of["stall_ms"])},
            {"next_acquire_ms", json_value(of["next_acquire_ms"])},
            {"unrelated_lost", lost}};
}

} // namespace holdfast::bench
