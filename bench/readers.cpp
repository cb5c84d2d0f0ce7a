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

enum class writer_kind {
    none,
    write,
    plain, ///< an exclusive lock on the key: it leaves no note for the readers
};

/// Clients whose readers want one key, and a client that writes there now and then.
class readers_and_writer {
public:
    static constexpr unsigned clients = 4, readers = 8;

    readers_and_writer(test::fleet const& servers, readers_settings const& s) {
        auto const names = servers.addresses();
        std::vector<address> const all(names.begin(), names.end());
        for (unsigned i = 0; i <= clients; ++i)
            clients_.push_back(std::make_unique<client>(context_.get_executor(), all, s.options));
        for (auto const& c : clients_)
            locks_.push_back(c->make_read_write_lock("bench:readers", {.ttl = s.ttl}));
        plain_.push_back(clients_.back()->make_lock("bench:readers", {.ttl = s.ttl}));
    }

    void run(std::chrono::duration<double> how_long, writer_kind writer, unsigned seed) {
        writer_waits_ = {};
        reads_ = writes_ = 0;
        end_ = clock::now() + std::chrono::duration_cast<clock::duration>(how_long);
        running_ = clients * readers + (writer != writer_kind::none ? 1 : 0);
        auto const ended = [this](std::exception_ptr e) {
            if (e) std::rethrow_exception(e);
            if (--running_ == 0) context_.stop();
        };
        auto const all = running_; // the writer is the last
        for (unsigned i = 0; i < all; ++i) {
            auto const reads = i < clients * readers;
            auto const& of = locks_[reads ? i % clients : clients];
            auto const& writes = writer == writer_kind::plain ? plain_.front() : of.write();
            asio::co_spawn(context_, reads ? read(of.read(), seed * 1'000 + i) : write(writes),
                           ended);
        }
        context_.restart();
        context_.run();
    }

    latency& writer_waits() { return writer_waits_; }
    unsigned reads() const { return reads_; }
    unsigned writes() const { return writes_; }
    unsigned violations() const { return violations_; }

private:
#pragma GCC diagnostic push
#ifndef __clang__ // g++ 12 takes the frames of coroutines for memory of another kind
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif
    asio::awaitable<void> read(lock const& on, unsigned seed) {
        std::mt19937 random(seed);
        std::uniform_int_distribution<int> section(500, 1'500); // microseconds
        asio::steady_timer timer(context_);
        while (clock::now() < end_) {
            auto r = co_await on.acquire(asio::as_tuple);
            auto& [failure, held] = r;
            if (failure) continue;
            ++reading_;
            violations_ += writing_;
            timer.expires_after(std::chrono::microseconds(section(random)));
            co_await timer.async_wait(asio::deferred);
            --reading_;
            ++reads_;
            auto const released = co_await held.release();
            (void)released;
            timer.expires_after(500us);
            co_await timer.async_wait(asio::deferred);
        }
    }

    asio::awaitable<void> write(lock const& on) {
        asio::steady_timer timer(context_);
        while (clock::now() < end_) {
            timer.expires_after(10ms);
            co_await timer.async_wait(asio::deferred);
            auto const begun = clock::now();
            auto r = co_await on.acquire(asio::as_tuple);
            auto& [failure, held] = r;
            if (failure) continue;
            writer_waits_.record(clock::now() - begun);
            violations_ += reading_;
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

    asio::io_context context_{1};
    std::vector<std::unique_ptr<client>> clients_;
    std::vector<read_write_lock> locks_;
    std::vector<lock> plain_;
    clock::time_point end_{};
    latency writer_waits_;
    unsigned running_ = 0, reads_ = 0, writes_ = 0, violations_ = 0, reading_ = 0, writing_ = 0;
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

    json::object contended() {
        readers_and_writer all(servers_, settings_);
        all.run(500ms, writer_kind::write, 0);
        series of;
        for (unsigned round = 1; round <= settings_.rounds; ++round) {
            all.run(turn_, writer_kind::none, round);
            auto const alone = all.reads() / settings_.round_seconds;
            all.run(turn_, writer_kind::write, round);
            auto const beside = all.reads() / settings_.round_seconds;
            of.add("reads_per_s_without_writer", alone);
            of.add("reads_per_s", beside);
            of.add("reads_ratio", ratio(beside, alone));
            of.add("writes_per_s", all.writes() / settings_.round_seconds);
            of.add("writer_p50_ms", all.writer_waits().percentile(50) / 1'000);
            of.add("writer_p99_ms", all.writer_waits().percentile(99) / 1'000);
            all.run(turn_, writer_kind::plain, round);
            of.add("plain_writes_per_s", all.writes() / settings_.round_seconds);
            of.add("plain_writer_p50_ms", all.writer_waits().percentile(50) / 1'000);
        }
        violations += all.violations();
        json::object r;
        for (auto const* name :
             {"reads_per_s_without_writer", "reads_per_s", "reads_ratio", "writes_per_s",
              "writer_p50_ms", "writer_p99_ms", "plain_writes_per_s", "plain_writer_p50_ms"})
            r[name] = json_value(of[name]);
        return r;
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
