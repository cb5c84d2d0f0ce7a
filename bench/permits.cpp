#include "permits.hpp"

#include <holdfast/client.hpp>

#include "json_value.hpp"
#include "latency.hpp"
#include "series.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace holdfast::bench {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr std::array numbers{0U, 10U, 100U, 1'000U}; ///< of permits; 0: an exclusive lock
constexpr unsigned distinct_keys = 500;

/// Workers of some clients that share the permits of one semaphore.
class office {
public:
    static constexpr unsigned workers = 1'000;

    office(test::fleet const& servers, permits_settings const& s, unsigned permits,
           unsigned clients)
        : inside_(permits) {
        auto const names = servers.addresses();
        std::vector<address> const all(names.begin(), names.end());
        for (unsigned i = 0; i < clients; ++i) {
            clients_.push_back(std::make_unique<client>(context_.get_executor(), all, s.options));
            locks_.push_back(
                clients_.back()->make_semaphore("bench:permits", permits, {.ttl = s.ttl}));
        }
    }

    void run(std::chrono::duration<double> how_long) {
        waits_ = {};
        leases_ = 0;
        end_ = clock::now() + std::chrono::duration_cast<clock::duration>(how_long);
        running_ = workers;
        for (unsigned i = 0; i < workers; ++i) {
            asio::co_spawn(context_, work(locks_[i % locks_.size()]), [this](std::exception_ptr e) {
                if (e) std::rethrow_exception(e);
                if (--running_ == 0) context_.stop();
            });
        }
        context_.restart();
        context_.run();
    }

    latency& waits() { return waits_; }
    unsigned leases() const { return leases_; }
    unsigned failed() const { return failed_; }
    unsigned violations() const { return violations_; }
    std::uint64_t commands() const {
        std::uint64_t all = 0;
        for (auto const& each : clients_) all += each->stats().commands;
        return all;
    }

private:
#pragma GCC diagnostic push
#ifndef __clang__ // g++ 12 takes the frames of coroutines for memory of another kind
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif
    asio::awaitable<void> work(lock const& on) {
        asio::steady_timer timer(context_);
        while (clock::now() < end_) {
            auto const begun = clock::now();
            auto r = co_await on.acquire(asio::as_tuple);
            auto& [failure, held] = r;
            if (failure) {
                ++failed_;
                continue;
            }
            waits_.record(clock::now() - begun);
            auto& here = inside_.at(held.slot().value());
            violations_ += here++ != 0 ? 1 : 0;
            timer.expires_after(1ms);
            co_await timer.async_wait(asio::deferred);
            --here;
            ++leases_;
            auto const released = co_await held.release();
            (void)released;
        }
    }

#pragma GCC diagnostic pop

    asio::io_context context_{1};
    std::vector<std::unique_ptr<client>> clients_;
    std::vector<lock> locks_; ///< one of each client
    clock::time_point end_{};
    latency waits_;
    std::vector<unsigned> inside_; ///< by slot
    unsigned running_ = 0, leases_ = 0, failed_ = 0, violations_ = 0;
};

class permits_run {
public:
    permits_run(test::fleet const& servers, workload& ours, permits_settings const& s)
        : settings_(s)
        , turn_(s.round_seconds)
        , servers_(servers)
        , ours_(ours) {}

    json::object run() {
        json::object r;
        r["latency"] = free_permits();
        r["a_thousand_workers"] = shared();
        return r;
    }

    std::uint64_t failed = 0, violations = 0;

private:
    std::vector<lock> locks(unsigned permits) {
        std::vector<lock> all;
        auto& from = ours_.client();
        lock_options const options{.ttl = settings_.ttl};
        for (unsigned i = 0; i < distinct_keys; ++i) {
            auto const key = "bench:" + std::to_string(permits) + ':' + std::to_string(i);
            all.push_back(permits == 0 ? from.make_lock(key, options)
                                       : from.make_semaphore(key, permits, options));
        }
        return all;
    }

    json::array free_permits() {
        std::array<std::vector<lock>, numbers.size()> on;
        for (std::size_t n = 0; n < on.size(); ++n) {
            on[n] = locks(numbers[n]);
            ours_.run(on[n], 1, 200ms);
        }
        std::array<series, numbers.size()> of;
        for (unsigned round = 0; round < settings_.rounds; ++round) {
            std::array<double, numbers.size()> p50{};
            for (std::size_t i = 0; i < on.size(); ++i) {
                auto const n = (i + round) % on.size();
                auto const cpu = servers_cpu_seconds(servers_);
                auto r = ours_.run(on[n], 1, turn_);
                failed += r.failed;
                auto const pairs = static_cast<double>(r.pairs);
                p50[n] = r.acquire.percentile(50);
                of[n].add("acquire_p50_us", p50[n]);
                of[n].add("acquire_p99_us", r.acquire.percentile(99));
                of[n].add("servers_cpu_us_per_pair",
                          ratio((servers_cpu_seconds(servers_) - cpu) * 1e6, pairs));
            }
            for (std::size_t n = 0; n < on.size(); ++n)
                of[n].add("acquire_p50_ratio", ratio(p50[n], p50[0]));
        }
        json::array all;
        for (std::size_t n = 0; n < on.size(); ++n) {
            json::object one{{"permits", numbers[n]}};
            for (auto const* name : {"acquire_p50_us", "acquire_p99_us", "acquire_p50_ratio",
                                     "servers_cpu_us_per_pair"})
                one[name] = json_value(of[n][name]);
            all.push_back(std::move(one));
        }
        return all;
    }

    json::array shared() {
        json::array all;
        for (auto const clients : {1U, 4U}) {
            for (auto const permits : {10U, 100U, 1'000U}) {
                office on(servers_, settings_, permits, clients);
                on.run(500ms);
                series of;
                for (unsigned round = 0; round < settings_.rounds; ++round) {
                    auto const before = on.commands();
                    on.run(turn_);
                    auto const leases = static_cast<double>(on.leases());
                    of.add("leases_per_s", leases / settings_.round_seconds);
                    of.add("wait_p50_ms", on.waits().percentile(50) / 1'000);
                    of.add("wait_p99_ms", on.waits().percentile(99) / 1'000);
                    of.add("commands_per_lease",
                           ratio(static_cast<double>(on.commands() - before), leases));
                }
                failed += on.failed();
                violations += on.violations();
                json::object r{{"clients", clients}, {"permits", permits}};
                for (auto const* name :
                     {"leases_per_s", "wait_p50_ms", "wait_p99_ms", "commands_per_lease"})
                    r[name] = json_value(of[name]);
                all.push_back(std::move(r));
            }
        }
        return all;
    }

    permits_settings const& settings_;
    std::chrono::duration<double> turn_;
    test::fleet const& servers_;
    workload& ours_;
};

} // namespace

json::object permits_result(test::fleet const& servers, workload& ours, permits_settings const& s,
                            std::uint64_t& failed, std::uint64_t& violations) {
    permits_run all(servers, ours, s);
    auto result = all.run();
    failed += all.failed;
    violations += all.violations;
    return result;
}

} // namespace holdfast::bench
