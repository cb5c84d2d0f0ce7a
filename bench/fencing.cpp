#include "fencing.hpp"

#include <holdfast/client.hpp>

#include "contenders.hpp"
#include "json_value.hpp"
#include "series.hpp"
#include "support/fleet.hpp"
#include "workload.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>

namespace holdfast::bench {

namespace asio = boost::asio;
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
namespace json = boost::json;

constexpr unsigned distinct_keys = 1000;
constexpr unsigned few_keys = 8;
constexpr unsigned contending_coroutines = 50;

/// A figure of a round; not_measured if the round has none.
double figure(figures const& round, std::string const& name) {
    auto const found = round.find(name);
    return found == round.end() ? not_measured : found->second;
}

// The commands of a run, and the number of its leases.
struct trips {
    std::uint64_t acquired = 0;
    std::uint64_t rounds = 0;
    std::uint64_t raises = 0;
    std::uint64_t commands = 0;

    double each(std::uint64_t n) const {
        return acquired == 0 ? 0. : static_cast<double>(n) / static_cast<double>(acquired);
    }
};

trips trips_of(client const& c) {
    auto const s = c.stats();
    return {.acquired = s.acquired, .rounds = s.rounds, .raises = s.raises, .commands = s.commands};
}

trips operator+(trips const& a, trips const& b) {
    return {.acquired = a.acquired + b.acquired,
            .rounds = a.rounds + b.rounds,
            .raises = a.raises + b.raises,
            .commands = a.commands + b.commands};
}

trips operator-(trips const& a, trips const& b) {
    return {.acquired = a.acquired - b.acquired,
            .rounds = a.rounds - b.rounds,
            .raises = a.raises - b.raises,
            .commands = a.commands - b.commands};
}

// Results with fences and without.
template <class Result>
struct both {
    Result plain{}, fenced{};
};

// Measures both, one after the other. The order changes with each round.
template <class Result, class Measure>
both<Result> in_turns(unsigned round, Measure measure) {
    both<Result> r;
    for (bool const fenced : {round % 2 != 0, round % 2 == 0}) {
        (fenced ? r.fenced : r.plain) = measure(fenced);
    }
    return r;
}

std::vector<lock> make_locks(client& from, std::string const& name, unsigned count,
                             std::chrono::milliseconds ttl, bool fenced) {
    std::vector<lock> locks;
    locks.reserve(count);
    // The names with and without fences have the same length.
    auto const prefix = "bench:" + name + (fenced ? ":fenced:" : ":simple:");
    for (unsigned i = 0; i < count; ++i)
        locks.push_back(
            from.make_lock(prefix + std::to_string(i), {.ttl = ttl, .fencing = fenced}));
    return locks;
}

// Two clients that take turns at keys. Each gets a key after the other one has released it. So the
// tenures of both number the key. Each coroutine has its own key.
class turn_taking {
public:
    turn_taking(asio::io_context& context, client& a, client& b)
        : context_(context)
        , clients_{&a, &b} {}

    void run(std::string const& name, unsigned coroutines, std::chrono::milliseconds ttl,
             bool fenced, std::chrono::duration<double> how_long) {
        end_ = clock::now() + std::chrono::duration_cast<clock::duration>(how_long);
        unsigned running = coroutines;
        auto const locks_a = make_locks(*clients_[0], name, coroutines, ttl, fenced);
        auto const locks_b = make_locks(*clients_[1], name, coroutines, ttl, fenced);
        for (unsigned i = 0; i < coroutines; ++i) {
            asio::co_spawn(context_, take_turns(locks_a[i], locks_b[i], fenced),
                           [&](std::exception_ptr e) {
                               if (e) std::rethrow_exception(e);
                               if (--running == 0) context_.stop();
                           });
        }
        context_.restart();
        context_.run();
    }

    trips sent() const { return trips_of(*clients_[0]) + trips_of(*clients_[1]); }
    std::uint64_t failed() const { return failed_; }
    std::uint64_t violations() const { return violations_; }

private:
    asio::awaitable<void> take_turns(lock const& a, lock const& b, bool fenced) {
        std::uint64_t last = 0;
        while (clock::now() < end_) {
            for (auto const* const key : {&a, &b}) {
                auto r = co_await key->acquire(asio::as_tuple);
                auto& [failure, held] = r;
                if (failure) {
                    ++failed_;
                    continue;
                }
                if (fenced && held.fence() <= last) ++violations_;
                last = held.fence();
                auto const released = co_await held.release();
                if (!released.confirmed()) ++failed_;
            }
        }
    }

    asio::io_context& context_;
    client* clients_[2];
    clock::time_point end_{};
    std::uint64_t failed_ = 0;
    std::uint64_t violations_ = 0;
};

class scenario {
public:
    explicit scenario(fencing_settings const& s)
        : settings_(s)
        , turn_(s.round_seconds)
        , servers_(s.instances)
        , ours_(servers_.addresses(), {.thread_safe = !s.single_threaded}, s.ttl) {
        ours_.run(100, 300ms);
    }

    json::object run() {
        result_["instances"] = settings_.instances;
        one_coroutine();
        json::array runs;
        for (auto const coroutines : settings_.coroutines)
            runs.push_back(many_coroutines(coroutines));
        result_["throughput"] = std::move(runs);
        keys_again_and_again();
        clients_in_turns();
        result_["uncontended"] = std::move(uncontended_);
        result_["raises_percent_uncontended"] = worst_raises_percent_;
        contended();
        result_["violations"] = violations_;
        result_["failed"] = failed_;
        return std::move(result_);
    }

private:
    // A run of the workload, with the readings before and after it.
    struct measured {
        workload_result at_client;
        trips sent;
        double servers_cpu_seconds = 0;
    };

    // Waits for a slow minority, which may still process commands of the run before.
    template <class Commands>
    void settle(Commands sent) {
        for (int i = 0; i < 10; ++i) {
            auto const before = sent();
            ours_.context().restart();
            ours_.context().run_for(300ms); // a batch may take this long
            if (sent() == before) break;
        }
    }

    measured measure(std::vector<lock> const& locks, unsigned coroutines) {
        settle([&] { return ours_.client().stats().commands; });
        auto const before = trips_of(ours_.client());
        auto const cpu = servers_cpu_seconds(servers_);
        auto at_client = ours_.run(locks, coroutines, turn_);
        measured m{.at_client = std::move(at_client),
                   .sent = trips_of(ours_.client()) - before,
                   .servers_cpu_seconds = servers_cpu_seconds(servers_) - cpu};
        failed_ += m.at_client.failed;
        return m;
    }

    both<std::vector<lock>> locks_for(std::string const& name, unsigned count) {
        both<std::vector<lock>> locks{
            .plain = make_locks(ours_.client(), name, count, settings_.ttl, false),
            .fenced = make_locks(ours_.client(), name, count, settings_.ttl, true),
        };
        ours_.run(locks.plain, std::min(count, 100U), 200ms);
        ours_.run(locks.fenced, std::min(count, 100U), 200ms);
        return locks;
    }

    void add_uncontended(std::string const& name, both<trips> const& sent) {
        auto const& f = sent.fenced;
        auto const percent = f.each(f.raises) * 100;
        worst_raises_percent_ = std::max(worst_raises_percent_, percent);
        uncontended_.push_back(
            {{"name", name},
             {"acquires", f.acquired},
             {"raises", f.raises},
             {"raises_percent", percent},
             {"rounds_per_acquire", f.each(f.rounds)},
             {"plain_rounds_per_acquire", sent.plain.each(sent.plain.rounds)},
             {"commands_per_acquire", f.each(f.commands)},
             {"plain_commands_per_acquire", sent.plain.each(sent.plain.commands)}});
    }

    void one_coroutine() {
        auto const locks = locks_for("latency", distinct_keys);
        series of;
        both<trips> sent;
        for (unsigned i = 0; i < settings_.rounds; ++i) {
            auto const r = in_turns<measured>(
                i, [&](bool fenced) { return measure(fenced ? locks.fenced : locks.plain, 1); });
            auto const& f = r.fenced.at_client;
            auto const& p = r.plain.at_client;
            auto const add = [&](std::string const& name, latency const& with,
                                 latency const& without) {
                for (int const percent : {50, 99}) {
                    auto const key = name + "_p" + std::to_string(percent);
                    of.add(key + "_us", with.percentile(percent));
                    of.add(key + "_plain_us", without.percentile(percent));
                    of.add(key + "_ratio",
                           ratio(with.percentile(percent), without.percentile(percent)));
                }
            };
            add("latency", f.acquire, p.acquire);
            add("release", f.release, p.release);
            add("pair", f.pair, p.pair);
            sent.fenced = sent.fenced + r.fenced.sent;
            sent.plain = sent.plain + r.plain.sent;
        }
        for (std::string const name : {"latency", "release", "pair"})
            for (std::string const percent : {"_p50", "_p99"})
                for (std::string const suffix : {"_us", "_plain_us", "_ratio"}) {
                    auto const key = name + percent + suffix;
                    result_[key] = json_value(of[key]);
                }
        add_uncontended("one coroutine, distinct keys", sent);
    }

    json::object many_coroutines(unsigned coroutines) {
        auto const locks = locks_for("throughput", coroutines);
        series of;
        both<trips> sent;
        for (unsigned i = 0; i < settings_.rounds; ++i) {
            auto const r = in_turns<measured>(i, [&](bool fenced) {
                return measure(fenced ? locks.fenced : locks.plain, coroutines);
            });
            struct derived {
                double rate, cpu, servers_cpu;
            };
            auto const derive = [](measured const& m) {
                auto const pairs = static_cast<double>(m.at_client.pairs);
                return derived{ratio(pairs, m.at_client.seconds),
                               ratio(m.at_client.cpu_seconds * 1e6, pairs),
                               ratio(m.servers_cpu_seconds * 1e6, pairs)};
            };
            auto const f = derive(r.fenced);
            auto const p = derive(r.plain);
            of.add("pairs_per_s", f.rate);
            of.add("plain_pairs_per_s", p.rate);
            of.add("ratio", ratio(f.rate, p.rate));
            of.add("cpu_us_per_pair", f.cpu);
            of.add("plain_cpu_us_per_pair", p.cpu);
            of.add("servers_cpu_us_per_pair", f.servers_cpu);
            of.add("plain_servers_cpu_us_per_pair", p.servers_cpu);
            of.add("servers_cpu_ratio", ratio(f.servers_cpu, p.servers_cpu));
            sent.fenced = sent.fenced + r.fenced.sent;
            sent.plain = sent.plain + r.plain.sent;
        }
        json::object run{{"coroutines", coroutines}};
        for (auto const* name : {"pairs_per_s", "plain_pairs_per_s", "ratio", "cpu_us_per_pair",
                                 "plain_cpu_us_per_pair", "servers_cpu_us_per_pair",
                                 "plain_servers_cpu_us_per_pair", "servers_cpu_ratio"}) {
            run[name] = json_value(of[name]);
        }
        add_uncontended(std::to_string(coroutines) + " coroutines, a key each", sent);
        return run;
    }

    // Runs so fast that several tenures of a key begin within a millisecond, with the same hint.
    void keys_again_and_again() {
        auto const locks = locks_for("again", few_keys);
        both<trips> sent;
        for (unsigned i = 0; i < settings_.rounds; ++i) {
            auto const r = in_turns<measured>(i, [&](bool fenced) {
                return measure(fenced ? locks.fenced : locks.plain, few_keys);
            });
            sent.fenced = sent.fenced + r.fenced.sent;
            sent.plain = sent.plain + r.plain.sent;
        }
        add_uncontended(std::to_string(few_keys) + " keys again and again", sent);
    }

    void clients_in_turns() {
        auto const all = servers_.addresses();
        holdfast::client other(ours_.context().get_executor(),
                               std::vector<address>(all.begin(), all.end()),
                               {.thread_safe = !settings_.single_threaded});
        turn_taking turns(ours_.context(), ours_.client(), other);
        turns.run("warm", 10, settings_.ttl, true, 200ms);
        for (unsigned const coroutines : {1U, 100U}) {
            both<trips> sent;
            for (unsigned i = 0; i < settings_.rounds; ++i) {
                auto const r = in_turns<trips>(i, [&](bool fenced) {
                    settle([&] { return turns.sent().commands; });
                    auto const before = turns.sent();
                    turns.run("turns", coroutines, settings_.ttl, fenced, turn_);
                    return turns.sent() - before;
                });
                sent.fenced = sent.fenced + r.fenced;
                sent.plain = sent.plain + r.plain;
            }
            add_uncontended("two clients in turns, " + std::to_string(coroutines) +
                                (coroutines == 1 ? " key" : " keys"),
                            sent);
        }
        failed_ += turns.failed();
        violations_ += turns.violations();
    }

    void contended() {
        contention c{.processes = settings_.processes,
                     .coroutines = contending_coroutines,
                     .seconds = settings_.round_seconds,
                     .single_threaded = settings_.single_threaded};
        series of;
        std::vector<figures> rounds;
        double raises = 0;
        double tenures = 0;
        double out_of_order = 0;
        double overlaps = 0;
        double failures = 0;
        for (unsigned i = 0; i < settings_.rounds; ++i) {
            auto r = in_turns<figures>(i, [&](bool fenced) {
                c.fencing = fenced;
                return measure_contenders(servers_, c);
            });
            for (auto* const run : {&r.fenced, &r.plain}) {
                overlaps += (*run)["violations"];
                failures += (*run)["failed"];
            }
            out_of_order += r.fenced["fence_violations"];
            raises += r.fenced["raises"];
            tenures += r.fenced["tenures"];
            for (std::string const name :
                 {"acquisitions_per_s", "commands_per_acquisition", "handover_p50_us"}) {
                of.add(name, figure(r.fenced, name));
                of.add("plain_" + name, figure(r.plain, name));
            }
            of.add("ratio", ratio(figure(r.fenced, "acquisitions_per_s"),
                                  figure(r.plain, "acquisitions_per_s")));
        }
        auto const percent = tenures > 0 ? raises / tenures * 100 : 0;
        result_["contended"] = {
            {"processes", c.processes},
            {"coroutines", c.coroutines},
            {"acquisitions_per_s", json_value(of["acquisitions_per_s"])},
            {"plain_acquisitions_per_s", json_value(of["plain_acquisitions_per_s"])},
            {"ratio", json_value(of["ratio"])},
            {"commands_per_acquisition", json_value(of["commands_per_acquisition"])},
            {"plain_commands_per_acquisition", json_value(of["plain_commands_per_acquisition"])},
            {"handover_p50_us", json_value(of["handover_p50_us"])},
            {"plain_handover_p50_us", json_value(of["plain_handover_p50_us"])},
            {"tenures", tenures},
            {"raises", raises},
            {"fences_out_of_order", out_of_order},
            {"overlaps", overlaps}};
        result_["raises_percent_contended"] = percent;
        violations_ += static_cast<std::uint64_t>(out_of_order + overlaps);
        failed_ += static_cast<std::uint64_t>(failures);
    }

    fencing_settings settings_;
    std::chrono::duration<double> turn_;
    test::fleet servers_;
    workload ours_;
    json::object result_;
    json::array uncontended_;
    double worst_raises_percent_ = 0;
    std::uint64_t violations_ = 0;
    std::uint64_t failed_ = 0;
};

} // namespace

json::object fencing_scenario(fencing_settings const& s) {
    return scenario(s).run();
}

} // namespace holdfast::bench
