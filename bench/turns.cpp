#include "turns.hpp"

#include "json_value.hpp"
#include "series.hpp"

#include <array>
#include <cstddef>
#include <stdexcept>

namespace holdfast::bench {

namespace json = boost::json;

namespace {

constexpr std::array measured{"acquire_p50_us",      "acquire_p99_us",  "release_p50_us",
                              "pairs_per_s",         "cpu_us_per_pair", "servers_cpu_us_per_pair",
                              "allocations_per_pair"};
constexpr std::array compared{"acquire_p50_us", "release_p50_us", "pairs_per_s", "cpu_us_per_pair",
                              "servers_cpu_us_per_pair"};

series measure(way const& w, unsigned coroutines, std::chrono::duration<double> length) {
    auto const cpu = [&] {
        return w.servers != nullptr ? servers_cpu_seconds(*w.servers) : not_measured;
    };
    auto const before = cpu();
    auto const r = w.load.run(coroutines, length);
    auto const servers_cpu = cpu() - before;
    if (r.failed > 0) {
        auto const& first = w.load.client().instances().front();
        throw std::runtime_error(w.name + ": operations failed: " + std::to_string(r.failed) +
                                 "; " + to_string(first.state) + ' ' + first.message);
    }
    auto const pairs = static_cast<double>(r.pairs);
    series of;
    of.add("acquire_p50_us", r.acquire.percentile(50));
    of.add("acquire_p99_us", r.acquire.percentile(99));
    of.add("release_p50_us", r.release.percentile(50));
    of.add("pairs_per_s", ratio(pairs, r.seconds));
    of.add("cpu_us_per_pair", ratio(r.cpu_seconds * 1e6, pairs));
    of.add("servers_cpu_us_per_pair", ratio(servers_cpu * 1e6, pairs));
    of.add("allocations_per_pair",
           r.pairs > 0 ? static_cast<double>(r.allocations) / pairs : not_measured);
    return of;
}

template <class Names>
json::object figures(series const& of, Names const& names) {
    json::object result;
    for (auto const* const name : names) result[name] = json_value(of[name]);
    return result;
}

} // namespace

json::object take_turns(std::vector<way> const& ways, unsigned coroutines, turn_settings const& s) {
    using namespace std::chrono_literals;
    std::chrono::duration<double> const length(s.round_seconds);
    for (auto const& w : ways) w.load.run(coroutines, 500ms);
    std::vector<series> all(ways.size()), ratios(ways.size());
    for (unsigned round = 0; round < s.rounds; ++round) {
        series first;
        for (std::size_t i = 0; i < ways.size(); ++i) {
            auto const now = measure(ways[i], coroutines, length);
            if (i == 0) first = now;
            for (auto const* const name : measured) {
                all[i].add(name, now[name].value_or(not_measured));
            }
            for (auto const* const name : compared) {
                ratios[i].add(name, ratio(first[name].value_or(not_measured),
                                          now[name].value_or(not_measured)));
            }
        }
    }
    json::object run{{"coroutines", coroutines}};
    for (std::size_t i = 0; i < ways.size(); ++i) {
        run[ways[i].name] = figures(all[i], measured);
        if (i > 0) run[ways[0].name + "_to_" + ways[i].name] = figures(ratios[i], compared);
    }
    return run;
}

} // namespace holdfast::bench
