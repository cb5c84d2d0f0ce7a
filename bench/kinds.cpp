#include "kinds.hpp"

#include <holdfast/client.hpp>

#include "json_value.hpp"
#include "latency.hpp"
#include "permits.hpp"
#include "readers.hpp"
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
#include <exception>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::bench {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr std::array sizes{1U, 2U, 8U};
constexpr unsigned distinct_sets = 500;
constexpr unsigned many = 100;

/// Clients that want four of eight keys, and clients that want one of these.
class wide_and_narrow {
public:
    static constexpr unsigned wide = 8, narrow = 64, keys = 8, wanted = 4;

    wide_and_narrow(std::vector<std::string> const& servers, client_options const& options,
                    std::chrono::milliseconds ttl, unsigned patience)
        : options_{.ttl = ttl, .patience = patience} {
        std::vector<address> const all(servers.begin(), servers.end());
        for (unsigned i = 0; i < wide + narrow; ++i)
            clients_.push_back(std::make_unique<client>(context_.get_executor(), all, options));
    }

    void run(std::chrono::duration<double> how_long, unsigned seed) {
        wide_waits_ = {};
        narrow_done_ = wide_done_ = 0;
        end_ = clock::now() + std::chrono::duration_cast<clock::duration>(how_long);
        unsigned running = wide + narrow;
        for (unsigned i = 0; i < wide + narrow; ++i) {
            asio::co_spawn(context_, work(*clients_[i], i < wide, seed * 1'000 + i),
                           [&](std::exception_ptr e) {
                               if (e) std::rethrow_exception(e);
                               if (--running == 0) context_.stop();
                           });
        }
        context_.restart();
        context_.run();
    }

    latency& wide_waits() { return wide_waits_; }
    unsigned wide_done() const { return wide_done_; }
    unsigned narrow_done() const { return narrow_done_; }
    unsigned violations() const { return violations_; }

private:
    asio::awaitable<void> work(client& from, bool is_wide, unsigned seed) {
        std::mt19937 random(seed);
        std::uniform_int_distribution<unsigned> key(0, keys - 1);
        std::uniform_int_distribution<int> section(500, 1'500); // microseconds
        asio::steady_timer timer(context_);
        while (clock::now() < end_) {
            std::vector<unsigned> chosen;
            while (chosen.size() < (is_wide ? wanted : 1U)) {
                auto const k = key(random);
                if (std::find(chosen.begin(), chosen.end(), k) == chosen.end()) chosen.push_back(k);
            }
            std::vector<std::string> names;
            for (auto const k : chosen) names.push_back("bench:wide:" + std::to_string(k));
            auto const on = from.make_multi_lock(names, options_);
            auto const begun = clock::now();
            auto r = co_await on.acquire(asio::as_tuple);
            auto& [failure, held] = r;
            if (failure) continue;
            if (is_wide) wide_waits_.record(clock::now() - begun);
            ++(is_wide ? wide_done_ : narrow_done_);
            for (auto const k : chosen) violations_ += held_[k]++ != 0 ? 1 : 0;
            timer.expires_after(std::chrono::microseconds(section(random)));
            co_await timer.async_wait(asio::deferred);
            for (auto const k : chosen) --held_[k];
            auto const released = co_await held.release();
            (void)released;
            timer.expires_after(500us);
            co_await timer.async_wait(asio::deferred);
        }
    }

    asio::io_context context_{1};
    std::vector<std::unique_ptr<client>> clients_;
    lock_options options_;
    clock::time_point end_{};
    latency wide_waits_;
    unsigned wide_done_ = 0, narrow_done_ = 0, violations_ = 0;
    std::array<int, keys> held_{};
};

class scenario {
public:
    explicit scenario(kinds_settings const& s)
        : settings_(s)
        , turn_(s.round_seconds)
        , servers_(s.instances)
        , ours_(servers_.addresses(), {.thread_safe = !s.single_threaded}, s.ttl) {
        ours_.run(100, 300ms);
    }

    json::object run() {
        result_["instances"] = settings_.instances;
        result_["latency"] = free_keys(1);
        result_["throughput"] = free_keys(many);
        json::array shared;
        for (auto const patience : {4U, 16U, 1'000'000U}) shared.push_back(contended(patience));
        result_["wide_and_narrow"] = std::move(shared);
        result_["read_write"] =
            readers_result(servers_, ours_,
                           {.rounds = settings_.rounds,
                            .round_seconds = settings_.round_seconds,
                            .ttl = settings_.ttl,
                            .options = {.thread_safe = !settings_.single_threaded}},
                           failed_, violations_);
        result_["semaphore"] =
            permits_result(servers_, ours_,
                           {.rounds = settings_.rounds,
                            .round_seconds = settings_.round_seconds,
                            .ttl = settings_.ttl,
                            .options = {.thread_safe = !settings_.single_threaded}},
                           failed_, violations_);
        result_["failed"] = failed_;
        result_["violations"] = violations_;
        return std::move(result_);
    }

private:
    std::vector<lock> locks_on(unsigned keys, unsigned count) {
        std::vector<lock> locks;
        for (unsigned i = 0; i < count; ++i) {
            std::vector<std::string> names;
            for (unsigned k = 0; k < keys; ++k)
                names.push_back("bench:" + std::to_string(keys) + ":" + std::to_string(i) + ":" +
                                std::to_string(k));
            locks.push_back(ours_.client().make_multi_lock(names, {.ttl = settings_.ttl}));
        }
        return locks;
    }

    json::array free_keys(unsigned coroutines) {
        std::array<std::vector<lock>, sizes.size()> locks;
        for (std::size_t s = 0; s < sizes.size(); ++s) {
            locks[s] = locks_on(sizes[s], std::max(coroutines, distinct_sets));
            ours_.run(locks[s], coroutines, 200ms);
        }
        std::array<series, sizes.size()> of;
        for (unsigned round = 0; round < settings_.rounds; ++round) {
            std::array<double, sizes.size()> p50{}, rate{};
            for (std::size_t n = 0; n < sizes.size(); ++n) {
                auto const s = (n + round) % sizes.size();
                auto const before = ours_.client().stats();
                auto const cpu = servers_cpu_seconds(servers_);
                auto r = ours_.run(locks[s], coroutines, turn_);
                failed_ += r.failed;
                auto const pairs = static_cast<double>(r.pairs);
                p50[s] = r.acquire.percentile(50);
                rate[s] = ratio(pairs, r.seconds);
                of[s].add("acquire_p50_us", p50[s]);
                of[s].add("acquire_p99_us", r.acquire.percentile(99));
                of[s].add("pairs_per_s", rate[s]);
                of[s].add("cpu_us_per_pair", ratio(r.cpu_seconds * 1e6, pairs));
                of[s].add("servers_cpu_us_per_pair",
                          ratio((servers_cpu_seconds(servers_) - cpu) * 1e6, pairs));
                auto const commands = ours_.client().stats().commands - before.commands;
                of[s].add("commands_per_pair", ratio(static_cast<double>(commands), pairs));
            }
            for (std::size_t s = 0; s < sizes.size(); ++s) {
                of[s].add("acquire_p50_ratio", ratio(p50[s], p50[0]));
                of[s].add("rate_ratio", ratio(rate[s], rate[0]));
            }
        }
        json::array all;
        for (std::size_t s = 0; s < sizes.size(); ++s) {
            json::object one{{"keys", sizes[s]}, {"coroutines", coroutines}};
            for (auto const* name :
                 {"acquire_p50_us", "acquire_p99_us", "acquire_p50_ratio", "pairs_per_s",
                  "rate_ratio", "cpu_us_per_pair", "servers_cpu_us_per_pair", "commands_per_pair"})
                one[name] = json_value(of[s][name]);
            all.push_back(std::move(one));
        }
        return all;
    }

    json::object contended(unsigned patience) {
        wide_and_narrow clients(servers_.addresses(), {.thread_safe = !settings_.single_threaded},
                                settings_.ttl, patience);
        clients.run(500ms, 0);
        series of;
        for (unsigned round = 1; round <= settings_.rounds; ++round) {
            clients.run(turn_, round);
            of.add("wide_per_s", clients.wide_done() / settings_.round_seconds);
            of.add("narrow_per_s", clients.narrow_done() / settings_.round_seconds);
            of.add("wide_p50_ms", clients.wide_waits().percentile(50) / 1'000);
            of.add("wide_p99_ms", clients.wide_waits().percentile(99) / 1'000);
        }
        violations_ += clients.violations();
        json::object r{{"patience", patience}};
        for (auto const* name : {"wide_per_s", "wide_p50_ms", "wide_p99_ms", "narrow_per_s"})
            r[name] = json_value(of[name]);
        return r;
    }

    kinds_settings settings_;
    std::chrono::duration<double> turn_;
    test::fleet servers_;
    workload ours_;
    json::object result_;
    std::uint64_t failed_ = 0, violations_ = 0;
};

} // namespace

json::object kinds_scenario(kinds_settings const& s) {
    return scenario(s).run();
}

} // namespace holdfast::bench
