// Measures the library against the floor, in turns, on servers that it starts.
//
//   holdfast_bench SCENARIO [options]      tools/bench builds it first
//
//   latency                                one coroutine
//   throughput [--coroutines 100,1000,5000] [--instances 5]
//   latency --tls, throughput --tls        with TLS, against without
//   latency --server KIND, throughput --server KIND
//                                          on servers of that kind (valkey-9.1), against redis-7.0,
//                                          and natively against scripts
//   latency --replicas 2, throughput --replicas 2
//                                          each grant on all replicas, against without waiting
//   cluster [--coroutines 100,1000]        a Cluster of 3 primaries, against one server
//   leases [--count 100000] [--ttl 30] [--seconds 60]
//   burst [--count 100000]                 leases dropped at once, beside an unrelated lease
//   minority [--coroutines 100]            2 of 5 instances frozen, against none
//   minority --contended [--processes 3]   clients that contend for 20 keys, beside faults
//   hotkey [--processes 1] [--coroutines 1000] [--hold-ms 0] [--seconds 5] [--peers | --fair]
//                                          all coroutines contend for one key; --fair: by fair
//                                          locks and by others
//   idle-clients [--clients 200] [--seconds 20]
//                                          clients that are connected, and do nothing
//   idle-waiters [--waiters 10000] [--seconds 30] [--callbacks]
//                                          all coroutines wait behind one holder
//   fencing [--coroutines 100,1000] [--processes 4]
//                                          with fences, against without
//   kinds                                  several keys, readers and writers, permits, against one
//                                          lock
//   observers [--coroutines 1,1000]        with observers, against none
//   sentinel-failover [--count 100] [--ttl 10] [--rounds 3]
//                                          the time without new locks, and the leases that go on
//
//   --json FILE         also writes the result as a JSON object; a figure that no round measured is
//                       null
//   --rounds N          rounds of library and floor in turns (5); figures are medians of the rounds
//   --round-seconds S   the length of each turn (2)
//   --single-threaded   without the client's strand

#include "allocation_counter.hpp"
#include "burst.hpp"
#include "cluster.hpp"
#include "contenders.hpp"
#include "fencing.hpp"
#include "floor.hpp"
#include "hotkey.hpp"
#include "idle_clients.hpp"
#include "idle_waiters.hpp"
#include "json_value.hpp"
#include "kinds.hpp"
#include "minority.hpp"
#include "observers.hpp"
#include "replicas.hpp"
#include "sentinel_failover.hpp"
#include "series.hpp"
#include "servers.hpp"
#include "support/fleet.hpp"
#include "tls.hpp"
#include "workload.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unistd.h>

namespace {

using namespace holdfast;
using namespace holdfast::bench;
using namespace std::chrono_literals;
namespace json = boost::json;

// The settings that the command line can change.
struct settings {
    std::vector<unsigned> coroutines{100, 1000, 5000};
    bool coroutines_given = false;
    unsigned instances = 5;
    unsigned count = 100'000;
    bool count_given = false;
    std::chrono::seconds ttl{30};
    bool ttl_given = false;
    std::optional<double> seconds;
    std::optional<unsigned> processes;
    unsigned waiters = 10'000;
    unsigned clients = 200;
    std::chrono::microseconds hold{0};
    bool peers = false;
    bool contended = false;
    bool callbacks = false;
    bool tls = false;
    std::string server;
    unsigned replicas = 0;
    unsigned rounds = 5;
    bool rounds_given = false;
    double round_seconds = 2;
    bool single_threaded = false;
    bool fair = false;
    std::string json_file;
};

client_options options_for(settings const& s) {
    return {.thread_safe = !s.single_threaded};
}

std::vector<std::uint16_t> ports_of(test::fleet& servers) {
    std::vector<std::uint16_t> ports;
    for (std::size_t i = 0; i < servers.size(); ++i) ports.push_back(servers[i].port());
    return ports;
}

json::object latency_scenario(settings const& s) {
    test::fleet servers(s.instances);
    floor_client floor({.ports = ports_of(servers)});
    workload ours(servers.addresses(), options_for(s), s.ttl);
    std::chrono::duration<double> const turn(s.round_seconds);
    ours.run(1, 300ms);
    floor.run(300ms);
    series of;
    for (unsigned i = 0; i < s.rounds; ++i) {
        auto const f = floor.run(turn);
        auto const o = ours.run(1, turn);
        if (o.failed > 0)
            throw std::runtime_error("operations failed: " + std::to_string(o.failed));
        of.add("acquire_p50_us", o.acquire.percentile(50));
        of.add("acquire_p99_us", o.acquire.percentile(99));
        of.add("release_p50_us", o.release.percentile(50));
        of.add("floor_p50_us", f.acquire.percentile(50));
        of.add("ratio_p50", ratio(o.acquire.percentile(50), f.acquire.percentile(50)));
        of.add("cpu_us_per_pair", ratio(o.cpu_seconds * 1e6, static_cast<double>(o.pairs)));
        of.add("floor_cpu_us_per_pair", ratio(f.cpu_seconds * 1e6, static_cast<double>(f.pairs)));
    }
    json::object result;
    for (auto const* name : {"acquire_p50_us", "acquire_p99_us", "release_p50_us", "floor_p50_us",
                             "ratio_p50", "cpu_us_per_pair", "floor_cpu_us_per_pair"}) {
        result[name] = json_value(of[name]);
    }
    return result;
}

json::object throughput_scenario(settings const& s) {
    test::fleet servers(s.instances);
    std::chrono::duration<double> const turn(s.round_seconds);
    json::array runs;
    for (auto const coroutines : s.coroutines) {
        floor_client floor({.ports = ports_of(servers), .tasks = coroutines});
        workload ours(servers.addresses(), options_for(s), s.ttl);
        ours.run(coroutines, 500ms);
        floor.run(300ms);
        series of;
        for (unsigned i = 0; i < s.rounds; ++i) {
            auto const f = floor.run(turn);
            auto const o = ours.run(coroutines, turn);
            if (o.failed > 0 || f.lost > 0) throw std::runtime_error("operations failed");
            auto const pairs = static_cast<double>(o.pairs);
            auto const floor_pairs = static_cast<double>(f.pairs);
            auto const rate = ratio(pairs, o.seconds);
            auto const floor_rate = ratio(floor_pairs, f.seconds);
            auto const cpu = ratio(o.cpu_seconds * 1e6, pairs);
            auto const floor_cpu = ratio(f.cpu_seconds * 1e6, floor_pairs);
            of.add("pairs_per_s", rate);
            of.add("floor_pairs_per_s", floor_rate);
            of.add("ratio", ratio(rate, floor_rate));
            of.add("cpu_us_per_pair", cpu);
            of.add("floor_cpu_us_per_pair", floor_cpu);
            of.add("cpu_ratio", ratio(cpu, floor_cpu));
            of.add("allocations_per_pair",
                   o.pairs > 0 ? static_cast<double>(o.allocations) / pairs : not_measured);
        }
        json::object run{{"coroutines", coroutines}};
        for (auto const* name : {"pairs_per_s", "floor_pairs_per_s", "ratio", "cpu_us_per_pair",
                                 "floor_cpu_us_per_pair", "cpu_ratio", "allocations_per_pair"}) {
            run[name] = json_value(of[name]);
        }
        runs.push_back(std::move(run));
    }
    return {{"instances", s.instances}, {"runs", std::move(runs)}};
}

std::size_t resident_bytes() {
    std::ifstream statm("/proc/self/statm");
    std::size_t total = 0;
    std::size_t resident = 0;
    statm >> total >> resident;
    return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

boost::asio::awaitable<void> take(client& c, std::vector<lease>& held, unsigned& next,
                                  unsigned count, std::chrono::milliseconds ttl) {
    while (next < count) {
        auto const key = c.make_lock("bench:lease:" + std::to_string(next++), {.ttl = ttl});
        held.push_back(co_await key.acquire());
    }
}

// Runs the context until the coroutine has ended.
void run_until_done(boost::asio::io_context& context, boost::asio::awaitable<void> task) {
    bool done = false;
    boost::asio::co_spawn(context, std::move(task), [&](std::exception_ptr e) {
        if (e) std::rethrow_exception(e);
        done = true;
        context.stop();
    });
    while (!done) {
        context.restart();
        context.run();
    }
}

json::object leases_scenario(settings const& s) {
    test::fleet servers(s.instances);
    auto options = options_for(s);
    options.max_ttl = std::max<std::chrono::milliseconds>(options.max_ttl, s.ttl);
    workload ours(servers.addresses(), options, s.ttl);
    // Warms up buffers and the heap, so that only the leases are measured.
    ours.run(1000, 1s);
    std::vector<lease> held;
    held.reserve(s.count);
    auto const before = resident_bytes();
    unsigned next = 0;
    unsigned running = 0;
    for (unsigned i = 0; i < 500; ++i) {
        ++running;
        boost::asio::co_spawn(ours.context(), take(ours.client(), held, next, s.count, s.ttl),
                              [&](std::exception_ptr e) {
                                  if (e) std::rethrow_exception(e);
                                  if (--running == 0) ours.context().stop();
                              });
    }
    ours.context().restart();
    ours.context().run();
    // A whole period passes first, so that the renewals spread as they do later.
    run_until_done(ours.context(), pass(std::chrono::duration<double>(s.ttl) / 3));
    auto const stats0 = ours.client().stats();
    auto const cpu0 = thread_cpu_seconds();
    auto const t0 = std::chrono::steady_clock::now();
    // Takes many samples, as renewals come in bursts and need buffers.
    std::vector<double> resident;
    for (double passed = 0; passed < s.seconds.value_or(60); passed += 0.25) {
        run_until_done(ours.context(), pass(250ms));
        resident.push_back((static_cast<double>(resident_bytes()) - static_cast<double>(before)) /
                           s.count);
    }
    std::sort(resident.begin(), resident.end());
    std::chrono::duration<double> const took = std::chrono::steady_clock::now() - t0;
    auto const cpu = thread_cpu_seconds() - cpu0;
    auto const stats1 = ours.client().stats();
    auto const alive =
        std::count_if(held.begin(), held.end(), [](lease const& l) { return l.held(); });
    json::object result{
        {"count", s.count},
        {"ttl_s", s.ttl.count()},
        {"seconds", took.count()},
        {"cpu_percent_of_core", cpu / took.count() * 100},
        {"rss_bytes_per_lease", resident[resident.size() / 2]},
        {"rss_bytes_per_lease_peak", resident.back()},
        {"extensions_per_s", static_cast<double>(stats1.extended - stats0.extended) / took.count()},
        {"lost", static_cast<std::int64_t>(s.count) - static_cast<std::int64_t>(alive)},
    };
    held.clear();
    return result;
}

json::object contended_minority(settings const& s) {
    return contended_minority_scenario({.instances = s.instances,
                                        .clients = s.processes.value_or(3),
                                        .rounds = s.rounds,
                                        .round_seconds = s.round_seconds,
                                        .single_threaded = s.single_threaded});
}

// With one coroutine, the ratio shows the latency. With many, it also shows the contention for the
// processors, which the servers use too.
json::object minority_scenario(settings const& s) {
    test::fleet servers(s.instances);
    auto const minority = servers.size() - servers.quorum();
    auto const loads = s.coroutines_given ? s.coroutines : std::vector<unsigned>{1, 100};
    workload ours(servers.addresses(), options_for(s), s.ttl);
    std::chrono::duration<double> const turn(s.round_seconds);
    ours.run(100, 500ms);
    double failed = 0;
    std::optional<double> p50_ratio, p99_ratio;
    json::array runs;
    for (auto const coroutines : loads) {
        series of;
        for (unsigned i = 0; i < s.rounds; ++i) {
            auto const healthy = ours.run(coroutines, turn);
            servers.freeze(minority);
            auto const reduced = ours.run(coroutines, turn);
            servers.thaw_all();
            // Waits until all instances answer before the next round.
            do run_until_done(ours.context(), pass(50ms));
            while (!all_up(ours.client()));
            failed += static_cast<double>(healthy.failed + reduced.failed);
            of.add("p50_ratio",
                   ratio(reduced.acquire.percentile(50), healthy.acquire.percentile(50)));
            of.add("p99_ratio",
                   ratio(reduced.acquire.percentile(99), healthy.acquire.percentile(99)));
            of.add("p50_us", reduced.acquire.percentile(50));
            of.add("healthy_p50_us", healthy.acquire.percentile(50));
        }
        p50_ratio = std::max(p50_ratio, of["p50_ratio"]);
        p99_ratio = std::max(p99_ratio, of["p99_ratio"]);
        runs.push_back({{"coroutines", coroutines},
                        {"p50_ratio", json_value(of["p50_ratio"])},
                        {"p99_ratio", json_value(of["p99_ratio"])},
                        {"p50_us", json_value(of["p50_us"])},
                        {"healthy_p50_us", json_value(of["healthy_p50_us"])}});
    }
    return {{"p50_ratio", json_value(p50_ratio)},
            {"p99_ratio", json_value(p99_ratio)},
            {"failed", failed},
            {"runs", std::move(runs)}};
}

json::object hotkey(settings const& s) {
    return hotkey_scenario({.instances = s.instances,
                            .processes = s.processes.value_or(1),
                            .coroutines = s.coroutines_given ? s.coroutines.front() : 1000,
                            .hold = s.hold,
                            .seconds = s.seconds.value_or(5),
                            .rounds = s.rounds,
                            .single_threaded = s.single_threaded,
                            .fair = s.fair,
                            .peers = s.peers});
}

json::object burst(settings const& s) {
    return burst_scenario({.instances = s.instances,
                           .count = s.count,
                           .rounds = s.rounds,
                           .single_threaded = s.single_threaded});
}

json::object idle_clients(settings const& s) {
    return idle_clients_scenario(
        {.instances = s.instances, .clients = s.clients, .seconds = s.seconds.value_or(20)});
}

json::object idle_waiters(settings const& s) {
    return idle_waiters_scenario({.instances = s.instances,
                                  .waiters = s.waiters,
                                  .seconds = s.seconds.value_or(30),
                                  .single_threaded = s.single_threaded,
                                  .callbacks = s.callbacks});
}

json::object fencing(settings const& s) {
    return fencing_scenario(
        {.instances = s.instances,
         .coroutines = s.coroutines_given ? s.coroutines : std::vector<unsigned>{100, 1000},
         .processes = s.processes.value_or(4),
         .rounds = s.rounds,
         .round_seconds = s.round_seconds,
         .ttl = s.ttl,
         .single_threaded = s.single_threaded});
}

json::object kinds(settings const& s) {
    return kinds_scenario({.instances = s.instances,
                           .rounds = s.rounds,
                           .round_seconds = s.round_seconds,
                           .ttl = s.ttl,
                           .single_threaded = s.single_threaded});
}

json::object sentinel_failover(settings const& s) {
    failover_settings f;
    if (s.count_given) f.leases = s.count;
    if (s.ttl_given) f.ttl = s.ttl;
    if (s.rounds_given) f.rounds = s.rounds;
    return sentinel_failover_scenario(f);
}

template <class Number>
Number number(std::string const& option, std::string const& text) {
    std::istringstream in(text);
    Number n{};
    if (!(in >> n) || !in.eof() || n <= Number{0}) {
        throw std::invalid_argument(option + ": \"" + text + "\" is not a positive number");
    }
    return n;
}

settings parse(int argc, char** argv) {
    settings s;
    for (int i = 2; i < argc; ++i) {
        std::string const option = argv[i];
        if (option == "--single-threaded") {
            s.single_threaded = true;
            continue;
        }
        if (option == "--fair") {
            s.fair = true;
            continue;
        }
        if (option == "--peers") {
            s.peers = true;
            continue;
        }
        if (option == "--callbacks") {
            s.callbacks = true;
            continue;
        }
        if (option == "--contended") {
            s.contended = true;
            continue;
        }
        if (option == "--tls") {
            s.tls = true;
            continue;
        }
        if (i + 1 == argc) throw std::invalid_argument(option + " needs a value");
        std::string const value = argv[++i];
        if (option == "--json") {
            s.json_file = value;
        } else if (option == "--server") {
            s.server = value;
        } else if (option == "--instances") {
            s.instances = number<unsigned>(option, value);
        } else if (option == "--coroutines") {
            s.coroutines.clear();
            std::istringstream list(value);
            for (std::string item; std::getline(list, item, ',');)
                s.coroutines.push_back(number<unsigned>(option, item));
            s.coroutines_given = true;
        } else if (option == "--count") {
            s.count = number<unsigned>(option, value);
            s.count_given = true;
        } else if (option == "--ttl") {
            s.ttl = std::chrono::seconds(number<int>(option, value));
            s.ttl_given = true;
        } else if (option == "--seconds") {
            s.seconds = number<double>(option, value);
        } else if (option == "--processes") {
            s.processes = number<unsigned>(option, value);
        } else if (option == "--clients") {
            s.clients = number<unsigned>(option, value);
        } else if (option == "--waiters") {
            s.waiters = number<unsigned>(option, value);
        } else if (option == "--hold-ms") {
            s.hold = std::chrono::microseconds(
                static_cast<int>((value == "0" ? 0. : number<double>(option, value)) * 1000));
        } else if (option == "--replicas") {
            s.replicas = number<unsigned>(option, value);
        } else if (option == "--rounds") {
            s.rounds = number<unsigned>(option, value);
            s.rounds_given = true;
        } else if (option == "--round-seconds") {
            s.round_seconds = number<double>(option, value);
        } else {
            throw std::invalid_argument("unknown option " + option);
        }
    }
    return s;
}

turn_settings turns(settings const& s, std::vector<unsigned> coroutines) {
    return {.instances = s.instances,
            .coroutines = std::move(coroutines),
            .rounds = s.rounds,
            .round_seconds = s.round_seconds,
            .ttl = s.ttl,
            .single_threaded = s.single_threaded};
}

/// Acquire and release in the ways that the options name, in turns.
json::object in_turns(settings const& s, std::vector<unsigned> coroutines) {
    auto const with = turns(s, std::move(coroutines));
    if (s.replicas > 0) return replicas_scenario(s.replicas, with);
    return s.tls ? tls_scenario(with) : servers_scenario(s.server, with);
}

json::object run(std::string const& scenario, settings const& s) {
    if (s.tls && !s.server.empty()) throw std::invalid_argument("--tls excludes --server");
    if (s.replicas > 0 && (s.tls || !s.server.empty()))
        throw std::invalid_argument("--replicas excludes --tls and --server");
    auto const has_ways = s.replicas > 0 || s.tls || !s.server.empty();
    if (has_ways && scenario != "latency" && scenario != "throughput")
        throw std::invalid_argument(scenario + " has no --tls, --server or --replicas");
    if (scenario == "latency") return has_ways ? in_turns(s, {1}) : latency_scenario(s);
    if (scenario == "throughput")
        return has_ways ? in_turns(s, s.coroutines) : throughput_scenario(s);
    if (scenario == "cluster") {
        auto const coroutines = std::vector<unsigned>{100, 1000};
        return cluster_scenario(turns(s, s.coroutines_given ? s.coroutines : coroutines));
    }
    if (scenario == "leases") return leases_scenario(s);
    if (scenario == "burst") return burst(s);
    if (scenario == "minority") return s.contended ? contended_minority(s) : minority_scenario(s);
    if (scenario == "hotkey") return hotkey(s);
    if (scenario == "idle-clients") return idle_clients(s);
    if (scenario == "idle-waiters") return idle_waiters(s);
    if (scenario == "fencing") return fencing(s);
    if (scenario == "kinds") return kinds(s);
    if (scenario == "observers") {
        auto const coroutines = std::vector<unsigned>{1, 1000};
        return observers_scenario(turns(s, s.coroutines_given ? s.coroutines : coroutines));
    }
    if (scenario == "sentinel-failover") return sentinel_failover(s);
    throw std::invalid_argument("unknown scenario \"" + scenario +
                                "\": latency, throughput, cluster, leases, burst, minority, "
                                "hotkey, idle-clients, idle-waiters, fencing, kinds, observers or "
                                "sentinel-failover");
}

} // namespace

int main(int argc, char** argv) {
    try {
        if (argc < 2)
            throw std::invalid_argument("usage: holdfast_bench "
                                        "latency|throughput|cluster|leases|burst|minority|hotkey|"
                                        "idle-clients|idle-waiters|fencing|kinds|"
                                        "observers|sentinel-failover "
                                        "[--json FILE] "
                                        "...");
        if (argv[1] == std::string("hotkey-worker")) return hotkey_worker(argc, argv);
        auto const s = parse(argc, argv);
        json::object result{{"scenario", argv[1]}, {"thread_safe", !s.single_threaded}};
        for (auto& [key, value] : run(argv[1], s)) result[key] = std::move(value);
        auto const text = json::serialize(result);
        std::cout << text << '\n';
        if (!s.json_file.empty()) {
            std::ofstream file(s.json_file);
            file << text << '\n';
            if (!file) throw std::runtime_error("cannot write " + s.json_file);
        }
    } catch (std::exception const& e) {
        std::cerr << "bench: " << e.what() << '\n';
        return 1;
    }
}
