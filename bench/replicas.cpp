#include "replicas.hpp"

#include "support/fleet.hpp"
#include "support/redis_cli.hpp"
#include "support/wait.hpp"
#include "turns.hpp"
#include "workload.hpp"

#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::bench {

namespace json = boost::json;

namespace {

using namespace std::chrono_literals;

std::vector<test::server_options> replicas_of(test::fleet const& primaries, unsigned each) {
    std::vector<test::server_options> all;
    for (auto const& primary : primaries) {
        for (unsigned i = 0; i < each; ++i) {
            test::server_options replica;
            replica.arguments = {"--replicaof", "127.0.0.1", std::to_string(primary.port())};
            all.push_back(std::move(replica));
        }
    }
    return all;
}

void wait_for_replicas(test::fleet const& primaries, unsigned each) {
    for (auto const& primary : primaries) {
        test::redis_cli cli(primary);
        auto const have_the_key = [&] {
            cli.set("marker", "x");
            return cli.command({"WAIT", std::to_string(each), "1000"}).integer() == each;
        };
        if (!test::wait_until(have_the_key, 20s)) throw std::runtime_error("replicas are missing");
        cli.del("marker");
    }
}

} // namespace

json::object replicas_scenario(unsigned replicas, turn_settings const& s) {
    test::server_options primary;
    primary.arguments = {"--repl-diskless-sync-delay", "0"};
    test::fleet const primaries(s.instances, primary);
    test::fleet const copies(replicas_of(primaries, replicas));
    wait_for_replicas(primaries, replicas);
    auto options = s.client();
    // WAIT may take a quarter of that: a busy machine must not make a replica seem missing.
    options.instance_timeout = 20s;
    json::array runs;
    for (auto const coroutines : s.coroutines) {
        options.replicas = 0;
        workload without(primaries.addresses(), options, s.ttl);
        options.replicas = replicas;
        workload with(primaries.addresses(), options, s.ttl);
        runs.push_back(take_turns({{"waited", with, &primaries}, {"unwaited", without, &primaries}},
                                  coroutines, s));
    }
    return {{"instances", s.instances}, {"replicas", replicas}, {"runs", std::move(runs)}};
}

} // namespace holdfast::bench
