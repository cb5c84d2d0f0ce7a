#include "observers.hpp"

#include <holdfast/log_observer.hpp>

#include "support/fleet.hpp"
#include "turns.hpp"
#include "workload.hpp"

#include <cstddef>
#include <stdexcept>
#include <string_view>

namespace holdfast::bench {

namespace json = boost::json;

namespace {

class idle_observer final : public observer {};

} // namespace

json::object observers_scenario(turn_settings const& s) {
    test::fleet const servers(s.instances);
    std::size_t written = 0;
    auto const count = [&written](log_level, std::string_view line) { written += line.size(); };
    // No line is left out.
    log_observer every(count, {.level = log_level::debug, .lines = 1'000'000'000});
    log_observer usual(count);
    idle_observer idle;
    json::array runs;
    for (auto const coroutines : s.coroutines) {
        auto const options = [&](observer* o) {
            auto c = s.client();
            c.observer = o;
            return c;
        };
        workload without(servers.addresses(), options(nullptr), s.ttl);
        workload with_idle(servers.addresses(), options(&idle), s.ttl);
        workload with_usual(servers.addresses(), options(&usual), s.ttl);
        workload with_every(servers.addresses(), options(&every), s.ttl);
        runs.push_back(take_turns({{"none", without, &servers},
                                   {"idle", with_idle, &servers},
                                   {"info_log", with_usual, &servers},
                                   {"debug_log", with_every, &servers}},
                                  coroutines, s));
    }
    if (written == 0) throw std::runtime_error("the log wrote nothing");
    return {{"instances", s.instances}, {"runs", std::move(runs)}};
}

} // namespace holdfast::bench
