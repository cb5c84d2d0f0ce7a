#include "readers.hpp"

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
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace holdfast::bench {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr std::array access_names{"exclusive", "read", "write"};
constexpr unsigned distinct_keys = 500;
constexpr unsigned many = 100;

/// Clients whose readers want one key, and clients that write there.
struct crowd {
    unsigned clients, readers; ///< how many clients, and the readers of each
    std::chrono::microseconds readers_rest;
    unsigned writers; ///< each is a client of its own
    std::chrono::microseconds writers_rest;
    bool plain; ///< an exclusive lock on the key: it leaves no note for the readers
};

class readers_and_writers {
public:
    readers_and_writers(test::fleet const& servers, readers_settings const& s, crowd const& c)
        : crowd_(c)
        , reads_of_(std::size_t{c.clients} * c.readers) {
        auto const names = servers.addresses();
        std::vector<address> const all(names.begin(), names.end());
        lock_options const options{.ttl = s.ttl};
        for (unsigned i = 0; i < c.clients + c.writers; ++i) {
            clients_.push_back(std::make_unique<client>(context_.get_executor(), all, s.options));
            auto& from = *clients_.back();
            if (c.plain && i >= c.clients) {
                locks_.push_back(from.make_lock("bench:readers", options));
            } else {
                auto const on = from.make_read_write_lock("bench:readers", options);
                locks_.push_back(i < c.clients ? on.read() : on.write());
            }
        }
    }

    void run(std::chrono::duration<double> how_long, unsigned seed) {
        writers_wait_ = readers_wait_ = {};
        std::ranges::fill(reads_of_, 0);
        writes_ = 0;
        end_ = clock::now() + std::chrono::duration_cast<clock::duration>(how_long);
        auto const readers = static_cast<unsigned>(reads_of_.size());
        running_ = readers + crowd_.writers;
        auto const ended = [this](std::exception_ptr e) {
            if (e) std::rethrow_exception(e);
            if (--running_ == 0) context_.stop();
        };
        for (unsigned i = 0; i < readers; ++i)
            asio::co_spawn(
                context_, read(locks_[i % crowd_.clients], reads_of_[i], seed * 10'000 + i), ended);
        for (unsigned i = 0; i < crowd_.writers; ++i)
            asio::co_spawn(context_, write(locks_[crowd_.clients + i]), ended);
        context_.restart();
        context_.run();
    }

    latency& writers_wait() { return writers_wait_; }
    latency& readers_wait() { return readers_wait_; }
    std::uint64_t reads() const {
        return std::accumulate(reads_of_.begin(), reads_of_.end(), std::uint64_t{});
    }
    /// Of the reader that had the fewest turns.
    unsigned fewest_reads() const { return *std::ranges::min_element(reads_of_); }
    unsigned writes() const { return writes_; }
    unsigned violations() const { return violations_; }

private:
#pragma GCC diagnostic push
#ifndef __clang__ // g++ 12 takes the frames of coroutines for memory of another kind
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif
    asio::awaitable<void> read(lock const& on, unsigned& reads, unsigned seed) {
        std::mt19937 random(seed);
        std::uniform_int_distribution<int> section(500, 1'500); // microseconds
        asio::steady_timer timer(context_);
        while (clock::now() < end_) {
            auto const begun = clock::now();
            auto r = co_await on.acquire(asio::as_tuple);
            auto& [failure, held] = r;
            if (failure) continue;
            readers_wait_.record(clock::now() - begun);
            ++reading_;
            violations_ += writing_;
            timer.expires_after(std::chrono::microseconds(section(random)));
            co_await timer.async_wait(asio::deferred);
            --reading_;
            ++reads;
            auto const released = co_await held.release();
            (void)released;
            timer.expires_after(crowd_.readers_rest);
            co_await timer.async_wait(asio::deferred);
        }
    }

    asio::awaitable<void> write(lock const& on) {
        asio::steady_timer timer(context_);
        while (clock::now() < end_) {
            timer.expires_after(crowd_.writers_rest);
            co_await timer.async_wait(asio::deferred);
            auto const begun = clock::now();
            auto r = co_await on.acquire(asio::as_tuple);
            auto& [failure, held] = r;
            if (failure) continue;
            writers_wait_.record(clock::now() - begun);
            violations_ += reading_ + writing_;
            writing_ = 1;
            timer.expires_after(500us);
            co_await timer.async_wait(asio::deferred);
            writing_ = 0;
            ++writes_;
            auto const released = co_await held.release();
            (void)released;
        }
    }

#pragma GCC diagnostic pop

    crowd crowd_;
    asio::io_context context_{1};
    std::vector<std::unique_ptr<client>> clients_;
    std::vector<lock> locks_; ///< one of each client
    clock::time_point end_{};
    latency writers_wait_, readers_wait_;
    std::vector<unsigned> reads_of_;
    unsigned running_ = 0, writes_ = 0, violations_ = 0, reading_ = 0, writing_ = 0;
};

class readers_run {
public:
    readers_run(test::fleet const& servers, workload& ours, readers_settings const& s)
        : settings_(s)
        , turn_(s.round_seconds)
        , servers_(servers)
        , ours_(ours) {}

    json::object run() {
        json::object r;
        r["latency"] = free_keys(1);
        r["throughput"] = free_keys(many);
        r["second_reader"] = second_reader();
        r["readers_and_writer"] = contended();
        r["nobody_rests"] = nobody_rests();
        return r;
    }

    std::uint64_t failed = 0, violations = 0;

private:
    std::vector<lock> locks(std::size_t access, unsigned count) {
        std::vector<lock> all;
        auto& from = ours_.client();
        for (unsigned i = 0; i < count; ++i) {
            auto const key = std::string("bench:") + access_names[access] + ':' + std::to_string(i);
            lock_options const options{.ttl = settings_.ttl};
            all.push_back(access == 0   ? from.make_lock(key, options)
                          : access == 1 ? from.make_read_write_lock(key, options).read()
                                        : from.make_read_write_lock(key, options).write());
        }
        return all;
    }

    json::array free_keys(unsigned coroutines) {
        std::array<std::vector<lock>, access_names.size()> on;
        for (std::size_t a = 0; a < on.size(); ++a) {
            on[a] = locks(a, std::max(coroutines, distinct_keys));
            ours_.run(on[a], coroutines, 200ms);
        }
        std::array<series, access_names.size()> of;
        for (unsigned round = 0; round < settings_.rounds; ++round) {
            std::array<double, access_names.size()> p50{}, rate{};
            for (std::size_t n = 0; n < on.size(); ++n) {
                auto const a = (n + round) % on.size();
                auto const cpu = servers_cpu_seconds(servers_);
                auto const r = ours_.run(on[a], coroutines, turn_);
                failed += r.failed;
                auto const pairs = static_cast<double>(r.pairs);
                p50[a] = r.acquire.percentile(50);
                rate[a] = ratio(pairs, r.seconds);
                of[a].add("acquire_p50_us", p50[a]);
                of[a].add("pairs_per_s", rate[a]);
                of[a].add("cpu_us_per_pair", ratio(r.cpu_seconds * 1e6, pairs));
                of[a].add("servers_cpu_us_per_pair",
                          ratio((servers_cpu_seconds(servers_) - cpu) * 1e6, pairs));
            }
            for (std::size_t a = 0; a < on.size(); ++a) {
                of[a].add("acquire_p50_ratio", ratio(p50[a], p50[0]));
                of[a].add("rate_ratio", ratio(rate[a], rate[0]));
            }
        }
        json::array all;
        for (std::size_t a = 0; a < on.size(); ++a) {
            json::object one{{"lock", access_names[a]}, {"coroutines", coroutines}};
            for (auto const* name : {"acquire_p50_us", "acquire_p50_ratio", "pairs_per_s",
                                     "rate_ratio", "cpu_us_per_pair", "servers_cpu_us_per_pair"})
                one[name] = json_value(of[a][name]);
            all.push_back(std::move(one));
        }
        return all;
    }

    /// A reader holds the lock all the time, and another of the same client comes and goes.
    json::object second_reader() {
        auto const on =
            ours_.client().make_read_write_lock("bench:second", {.ttl = settings_.ttl}).read();
        lease first;
        on.acquire([&](error e, lease l) {
            failed += e ? 1 : 0;
            first = std::move(l);
        });
        std::vector<lock> const same(1, on);
        series of;
        for (unsigned round = 0; round < settings_.rounds; ++round) {
            auto const before = ours_.client().stats();
            auto const r = ours_.run(same, 1, turn_);
            failed += r.failed;
            of.add("leases_per_s", ratio(static_cast<double>(r.pairs), r.seconds));
            of.add("acquire_p50_us", r.acquire.percentile(50));
            of.add("rounds_per_s",
                   ratio(static_cast<double>(ours_.client().stats().rounds - before.rounds),
                         r.seconds));
        }
        json::object r;
        for (auto const* name : {"leases_per_s", "acquire_p50_us", "rounds_per_s"})
            r[name] = json_value(of[name]);
        return r;
    }

    /// Four clients of readers, without a writer, with one that writes every 10 ms, and with an
    /// exclusive lock in its place.
    json::object contended() {
        crowd c{4, 8, 500us, 0, 10ms, false};
        readers_and_writers alone(servers_, settings_, c);
        c.writers = 1;
        readers_and_writers beside(servers_, settings_, c);
        c.plain = true;
        readers_and_writers beside_plain(servers_, settings_, c);
        beside.run(500ms, 0);
        series of;
        for (unsigned round = 1; round <= settings_.rounds; ++round) {
            alone.run(turn_, round);
            beside.run(turn_, round);
            auto const reads = static_cast<double>(beside.reads()) / settings_.round_seconds;
            auto const of_all = static_cast<double>(alone.reads()) / settings_.round_seconds;
            of.add("reads_per_s_without_writer", of_all);
            of.add("reads_per_s", reads);
            of.add("reads_ratio", ratio(reads, of_all));
            of.add("writes_per_s", beside.writes() / settings_.round_seconds);
            of.add("writer_p50_ms", beside.writers_wait().percentile(50) / 1'000);
            of.add("writer_p99_ms", beside.writers_wait().percentile(99) / 1'000);
            beside_plain.run(turn_, round);
            of.add("plain_writes_per_s", beside_plain.writes() / settings_.round_seconds);
            of.add("plain_writer_p50_ms", beside_plain.writers_wait().percentile(50) / 1'000);
        }
        violations += beside.violations() + beside_plain.violations();
        json::object r;
        for (auto const* name :
             {"reads_per_s_without_writer", "reads_per_s", "reads_ratio", "writes_per_s",
              "writer_p50_ms", "writer_p99_ms", "plain_writes_per_s", "plain_writer_p50_ms"})
            r[name] = json_value(of[name]);
        return r;
    }

    /// 1,000 readers without a pause, of one client and of four, beside one writer and beside four
    /// that rest for 1 ms.
    json::array nobody_rests() {
        json::array all;
        for (auto const clients : {1U, 4U}) {
            for (auto const writers : {1U, 4U}) {
                readers_and_writers on(servers_, settings_,
                                       {clients, 1'000 / clients, 0us, writers, 1ms, false});
                on.run(500ms, 0);
                series of;
                for (unsigned round = 1; round <= settings_.rounds; ++round) {
                    on.run(turn_, round);
                    auto const reads = static_cast<double>(on.reads());
                    of.add("reads_per_s", reads / settings_.round_seconds);
                    of.add("fewest_reads_share", ratio(on.fewest_reads() * 1'000.0, reads));
                    of.add("readers_p50_ms", on.readers_wait().percentile(50) / 1'000);
                    of.add("readers_longest_ms", on.readers_wait().max() / 1'000);
                    of.add("writes_per_s", on.writes() / settings_.round_seconds);
                    of.add("writers_p50_ms", on.writers_wait().percentile(50) / 1'000);
                    of.add("writers_longest_ms", on.writers_wait().max() / 1'000);
                }
                violations += on.violations();
                json::object r{{"clients", clients}, {"writers", writers}};
                for (auto const* name :
                     {"reads_per_s", "fewest_reads_share", "readers_p50_ms", "readers_longest_ms",
                      "writes_per_s", "writers_p50_ms", "writers_longest_ms"})
                    r[name] = json_value(of[name]);
                all.push_back(std::move(r));
            }
        }
        return all;
    }

    readers_settings const& settings_;
    std::chrono::duration<double> turn_;
    test::fleet const& servers_;
    workload& ours_;
};

} // namespace

json::object readers_result(test::fleet const& servers, workload& ours, readers_settings const& s,
                            std::uint64_t& failed, std::uint64_t& violations) {
    readers_run all(servers, ours, s);
    auto result = all.run();
    failed += all.failed;
    violations += all.violations;
    return result;
}

} // namespace holdfast::bench
