#include "cluster.hpp"

#include "support/cluster_group.hpp"
#include "support/fleet.hpp"
#include "turns.hpp"
#include "workload.hpp"

#include <chrono>
#include <utility>

namespace holdfast::bench {

namespace json = boost::json;

json::object cluster_scenario(turn_settings const& s) {
    test::cluster_group_options options;
    options.primaries = 3;
    options.replicas = 0;
    options.shiftable_clocks = false;
    options.node_timeout = std::chrono::seconds(15);
    test::cluster_group cluster(options);
    test::fleet const single(1);
    json::array runs;
    for (auto const coroutines : s.coroutines) {
        workload on_cluster({cluster.url()}, s.client(), s.ttl);
        workload on_server(single.addresses(), s.client(), s.ttl);
        runs.push_back(take_turns({{"cluster", on_cluster}, {"server", on_server}}, coroutines, s));
    }
    return {{"primaries", options.primaries}, {"runs", std::move(runs)}};
}

} // namespace holdfast::bench
