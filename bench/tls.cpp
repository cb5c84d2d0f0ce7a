#include "tls.hpp"

#include "support/fleet.hpp"
#include "turns.hpp"
#include "workload.hpp"

namespace holdfast::bench {

namespace json = boost::json;

json::object tls_scenario(turn_settings const& s) {
    test::server_options each;
    each.tls = true;
    test::fleet const servers(s.instances, each);
    json::array runs;
    for (auto const coroutines : s.coroutines) {
        workload with(servers.urls(), s.client(), s.ttl);
        workload without(servers.plain_urls(), s.client(), s.ttl);
        runs.push_back(
            take_turns({{"tls", with, &servers}, {"plain", without, &servers}}, coroutines, s));
    }
    return {{"instances", s.instances}, {"tls", true}, {"runs", std::move(runs)}};
}

} // namespace holdfast::bench
