#include "hotkey.hpp"

#include "contenders.hpp"
#include "json_value.hpp"
#include "pings.hpp"
#include "process.hpp"
#include "series.hpp"
#include "support/fleet.hpp"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <poll.h>
#include <stdexcept>
#include <unistd.h>
#include <utility>
#include <vector>

namespace holdfast::bench {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
namespace json = boost::json;

std::string peers_runner(hotkey_settings const& s) {
    if (!s.peers_runner.empty()) return s.peers_runner;
    if (char const* given = std::getenv("HOLDFAST_BENCH_PEERS"); given != nullptr && *given != '\0')
        return given;
    return (std::filesystem::absolute(__FILE__).parent_path() / "peers" / "run.sh").string();
}

// The output of the command. Throws if the command fails or takes longer than `limit`.
std::string output_of(std::vector<std::string> const& command, std::chrono::nanoseconds limit) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) fail_with(errno, "pipe2");
    test::net::unique_fd const ours(ends[0]);
    test::net::unique_fd theirs(ends[1]);
    test::net::unique_fd const nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    process running(command, {nothing.get(), theirs.get(), STDERR_FILENO});
    theirs.reset();
    std::string text;
    auto const deadline = clock::now() + limit;
    for (;;) {
        auto const left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now());
        if (left <= 0ms) throw std::runtime_error(command.front() + " takes too long");
        pollfd waiting{ours.get(), POLLIN, 0};
        if (::poll(&waiting, 1, static_cast<int>(left.count())) <= 0) continue;
        char buffer[4096];
        auto const got = ::read(ours.get(), buffer, sizeof buffer);
        if (got == 0) break;
        if (got > 0) text.append(buffer, static_cast<std::size_t>(got));
        if (got < 0 && errno != EINTR) fail_with(errno, "read");
    }
    auto const status = running.wait(clock::now() + 5s);
    if (!status || *status != 0)
        throw std::runtime_error(command.front() + " " + describe_end(status));
    return text;
}

// A setting of node-redlock: its default, common tunings, and retries by the caller. With the last
// one, its own retries leave no votes behind.
struct peer {
    std::string name;
    unsigned retry_delay_ms;
    unsigned retry_jitter_ms;
    bool single_tries = false;
};

std::vector<peer> all_peers() {
    return {{"node-redlock, default", 200, 100},
            {"node-redlock, 50 ms", 50, 25},
            {"node-redlock, 20 ms", 20, 10},
            {"node-redlock, 5 ms", 5, 2},
            {"node-redlock, single tries, 200 ms", 200, 100, true},
            {"node-redlock, single tries, 20 ms", 20, 10, true}};
}

// Figures of which the ratio is told.
constexpr std::array compared{"acquisitions_per_s", "handover_p50_us", "min_share", "max_wait_ms"};

figures measure_peer(test::fleet const& servers, hotkey_settings const& s, peer const& p) {
    pings_meanwhile meanwhile(servers);
    auto const hold_ms = static_cast<double>(s.hold.count()) / 1e3;
    auto const text = output_of(
        {peers_runner(s), "--ports", ports_of(servers), "--processes", std::to_string(s.processes),
         "--coroutines", std::to_string(s.coroutines), "--hold-ms", std::to_string(hold_ms),
         "--seconds", std::to_string(s.seconds), "--ttl-ms", std::to_string(s.ttl.count()),
         "--retry-delay", std::to_string(p.retry_delay_ms), "--retry-jitter",
         std::to_string(p.retry_jitter_ms), "--single-tries", p.single_tries ? "1" : "0"},
        std::chrono::duration_cast<std::chrono::nanoseconds>(
            std::chrono::duration<double>(s.seconds) + 90s));
    auto const& pings = meanwhile.stop();
    figures of;
    auto const answer = json::parse(text);
    for (auto const& [name, value] : answer.as_object())
        if (value.is_number()) of[name] = value.to_number<double>();
    of["ping_us"] = pings.percentile(50);
    if (auto const p50 = of.find("handover_p50_us"); p50 != of.end()) {
        auto const ideal = 1e6 / (static_cast<double>(s.hold.count()) + p50->second);
        of["handover_pings"] = ratio(p50->second, pings.percentile(50));
        of["ideal_sections_per_s"] = ideal;
        of["share_of_ideal"] = of["acquisitions_per_s"] / ideal;
    }
    return of;
}

// With lock_options::fair and without.
json::object both_ways(test::fleet const& servers, contention all, unsigned rounds) {
    std::vector<figures> by_default, fair;
    series ratios;
    for (unsigned i = 0; i < rounds; ++i) {
        all.fair = false;
        by_default.push_back(measure_contenders(servers, all));
        all.fair = true;
        fair.push_back(measure_contenders(servers, all));
        for (auto const* const figure : compared) {
            auto const value = [&](figures const& of) {
                auto const found = of.find(figure);
                return found == of.end() ? not_measured : found->second;
            };
            ratios.add(figure, ratio(value(fair.back()), value(by_default.back())));
        }
    }
    json::object of_ratios;
    for (auto const* const figure : compared) of_ratios[figure] = json_value(ratios[figure]);
    return {{"processes", all.processes},
            {"coroutines", all.coroutines},
            {"hold_ms", static_cast<double>(all.hold.count()) / 1e3},
            {"fair", combined(fair)},
            {"default", combined(by_default)},
            {"fair_to_default", std::move(of_ratios)}};
}

} // namespace

json::object hotkey_scenario(hotkey_settings const& s) {
    if (s.fair && s.peers) throw std::invalid_argument("--fair and --peers exclude each other");
    // The first call may have to install node-redlock. So it comes before the measurement.
    if (s.peers) output_of({peers_runner(s), "--setup"}, 5min);
    test::fleet servers(s.instances);
    contention const all{.processes = s.processes,
                         .coroutines = s.coroutines,
                         .hold = s.hold,
                         .seconds = s.seconds,
                         .ttl = s.ttl,
                         .single_threaded = s.single_threaded};
    if (s.fair) {
        return {{"instances", s.instances},
                {"seconds", s.seconds},
                {"rounds", s.rounds},
                {"runs", json::array{both_ways(servers, all, s.rounds)}}};
    }
    std::vector<figures> ours;
    auto const peers = s.peers ? all_peers() : std::vector<peer>{};
    std::vector<std::vector<figures>> theirs(peers.size());
    for (unsigned i = 0; i < s.rounds; ++i) {
        ours.push_back(measure_contenders(servers, all));
        for (std::size_t p = 0; p < peers.size(); ++p)
            theirs[p].push_back(measure_peer(servers, s, peers[p]));
    }
    json::object result{
        {"instances", s.instances},   {"processes", s.processes},
        {"coroutines", s.coroutines}, {"hold_ms", static_cast<double>(s.hold.count()) / 1e3},
        {"seconds", s.seconds},       {"rounds", s.rounds}};
    for (auto& [name, value] : combined(ours)) result[name] = std::move(value);
    if (s.peers) {
        json::array list;
        for (std::size_t p = 0; p < peers.size(); ++p) {
            json::object entry{{"name", peers[p].name},
                               {"retry_delay_ms", peers[p].retry_delay_ms},
                               {"retry_jitter_ms", peers[p].retry_jitter_ms},
                               {"single_tries", peers[p].single_tries}};
            for (auto& [name, value] : combined(theirs[p])) entry[name] = std::move(value);
            list.push_back(std::move(entry));
        }
        result["peers"] = std::move(list);
    }
    return result;
}

} // namespace holdfast::bench
