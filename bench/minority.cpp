#include "minority.hpp"

#include <holdfast/client.hpp>

#include "json_value.hpp"
#include "latency.hpp"
#include "pauses.hpp"
#include "series.hpp"
#include "support/fleet.hpp"
#include "workload.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace holdfast::bench {

namespace asio = boost::asio;
namespace json = boost::json;
using namespace std::chrono_literals;
using wall_clock = std::chrono::steady_clock;

namespace {

struct seen {
    struct span {
        wall_clock::time_point begin, end;
    };
    latency acquire{}, release{};
    std::vector<span> acquires;
    std::uint64_t acquires_failed = 0, releases_failed = 0;
    bool over = false;
};

asio::awaitable<void> work(client& c, std::string key, seen& s) {
    auto const lock = c.make_lock(key, {.ttl = 10s});
    while (!s.over) {
        auto const t0 = wall_clock::now();
        auto r = co_await lock.acquire(asio::as_tuple);
        auto& [failure, held] = r;
        auto const t1 = wall_clock::now();
        s.acquire.record(t1 - t0);
        s.acquires.push_back({t0, t1});
        if (failure) {
            ++s.acquires_failed;
            continue;
        }
        auto const released = co_await held.release();
        s.release.record(wall_clock::now() - t1);
        if (!released.confirmed()) ++s.releases_failed;
    }
}

class contest {
public:
    contest(test::fleet& servers, minority_settings const& s)
        : settings_(s) {
        client_options options;
        options.thread_safe = !s.single_threaded;
        options.on_restart = restart_policy::off; // instances that were killed start again
        std::vector<address> addresses;
        for (auto const& a : servers.addresses()) addresses.emplace_back(a);
        for (unsigned i = 0; i < s.clients; ++i) {
            clients_.push_back(
                std::make_unique<client>(context_.get_executor(), addresses, options));
        }
        wait_until_up();
    }
    ~contest() {
        clients_.clear();
        context_.restart();
        context_.run();
    }

    /// Runs the workload. `fault` is called after a quarter of the run.
    seen run(std::function<void()> const& fault) {
        seen s;
        unsigned running = settings_.clients * settings_.keys;
        for (auto const& c : clients_) {
            for (unsigned k = 0; k < settings_.keys; ++k) {
                asio::co_spawn(context_, work(*c, "bench:contended:" + std::to_string(k), s),
                               [&](std::exception_ptr e) {
                                   if (e) std::rethrow_exception(e);
                                   if (--running == 0) context_.stop();
                               });
            }
        }
        auto const length = std::chrono::duration_cast<wall_clock::duration>(
            std::chrono::duration<double>(settings_.round_seconds));
        asio::steady_timer faults(context_, length / 4);
        faults.async_wait([&](boost::system::error_code) { fault(); });
        asio::steady_timer end(context_, length);
        end.async_wait([&](boost::system::error_code) { s.over = true; });
        context_.restart();
        context_.run();
        return s;
    }

    void wait_until_up() {
        auto const up = [](auto const& c) { return all_up(*c); };
        while (!std::all_of(clients_.begin(), clients_.end(), up)) {
            context_.restart();
            context_.run_for(10ms);
        }
    }

private:
    minority_settings const settings_;
    asio::io_context context_{1};
    std::vector<std::unique_ptr<client>> clients_;
};

} // namespace

json::object contended_minority_scenario(minority_settings const& s) {
    test::fleet servers(s.instances);
    auto const minority = servers.size() - servers.quorum();
    contest all(servers, s);
    all.run([] {}); // warm-up
    struct fault {
        char const* name;
        std::function<void()> happens;
    };
    std::array<fault, 4> const faults{{{"none", [] {}},
                                       {"one_frozen", [&] { servers.freeze(1); }},
                                       {"minority_frozen", [&] { servers.freeze(minority); }},
                                       {"minority_killed", [&] { servers.kill(minority); }}}};
    json::object result{{"clients", s.clients}, {"keys", s.keys}};
    pause_monitor const pauses;
    std::array<series, 4> of;
    std::array<double, 4> longest{}, longest_release{}, late{}, late_by_itself{}, paused{},
        failed{}, unreleased{};
    for (unsigned round = 0; round < s.rounds; ++round) {
        wall_clock::duration bound{};
        for (std::size_t f = 0; f < faults.size(); ++f) {
            auto const paused_before = pauses.total();
            auto const seen = all.run(faults[f].happens);
            paused[f] +=
                std::chrono::duration<double, std::milli>(pauses.total() - paused_before).count();
            servers.thaw_all();
            for (test::server& server : servers) {
                if (!server.running()) server.restart();
            }
            all.wait_until_up();
            if (f == 0) {
                if (seen.acquire.count() == 0)
                    throw std::runtime_error("no acquire without a fault ended in a round");
                bound = 20ms +
                        std::chrono::nanoseconds(std::llround(3'000 * seen.acquire.percentile(99)));
            }
            of[f].add("acquires", static_cast<double>(seen.acquire.count()));
            of[f].add("p50", seen.acquire.percentile(50));
            of[f].add("p99", seen.acquire.percentile(99));
            longest[f] = std::max(longest[f], seen.acquire.max());
            longest_release[f] = std::max(longest_release[f], seen.release.max());
            for (auto const& [begin, end] : seen.acquires) {
                if (end - begin <= bound) continue;
                ++late[f];
                if (end - begin - pauses.within(begin, end) > bound) ++late_by_itself[f];
            }
            failed[f] += static_cast<double>(seen.acquires_failed);
            unreleased[f] += static_cast<double>(seen.releases_failed);
        }
    }
    for (std::size_t f = 0; f < faults.size(); ++f) {
        result[faults[f].name] = json::object{{"acquires", json_value(of[f]["acquires"])},
                                              {"p50_us", json_value(of[f]["p50"])},
                                              {"p99_us", json_value(of[f]["p99"])},
                                              {"longest_acquire_us", longest[f]},
                                              {"longest_release_us", longest_release[f]},
                                              {"late_acquires", late[f]},
                                              {"late_without_pauses", late_by_itself[f]},
                                              {"pauses_ms", paused[f]},
                                              {"failed_acquires", failed[f]},
                                              {"failed_releases", unreleased[f]}};
    }
    return result;
}

} // namespace holdfast::bench
