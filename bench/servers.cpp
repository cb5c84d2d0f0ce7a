#include "servers.hpp"

#include "support/fleet.hpp"
#include "support/redis_cli.hpp"
#include "turns.hpp"
#include "workload.hpp"

#include <stdexcept>
#include <utility>

namespace holdfast::bench {

namespace json = boost::json;

namespace {

test::fleet start(unsigned count, std::string const& kind) {
    auto const found = test::find_server(kind);
    if (!found) throw std::invalid_argument("there is no server " + kind);
    return test::fleet(count, {.kind = *found});
}

/// The addresses for a user who has all rights but that to the native compare-and-delete.
std::vector<std::string> without_native(test::fleet const& servers) {
    std::vector<std::string> all;
    for (test::server& s : servers) {
        auto const rules = test::access::without(s.rules(), '+' + test::native_delete(s.kind()));
        if (!test::redis_cli(s).command(test::access::set_user("script", rules)).is_ok())
            throw std::runtime_error("ACL SETUSER was refused");
        all.push_back(test::access::url(s.address(), "script"));
    }
    return all;
}

} // namespace

json::object servers_scenario(std::string const& kind, turn_settings const& s) {
    std::string const base = "redis-7.0";
    auto const ours = start(s.instances, kind);
    auto const theirs = start(s.instances, base);
    auto const has_native = !test::native_delete((*ours.begin()).kind()).empty();
    auto const scripted =
        has_native ? without_native(ours) : std::vector<std::string>(ours.plain_urls());
    json::array runs;
    for (auto const coroutines : s.coroutines) {
        workload as_it_is(ours.plain_urls(), s.client(), s.ttl);
        workload by_script(scripted, s.client(), s.ttl);
        workload other(theirs.plain_urls(), s.client(), s.ttl);
        std::vector<way> ways{{kind, as_it_is, &ours}, {base, other, &theirs}};
        if (has_native) ways.push_back({kind + "-script", by_script, &ours});
        runs.push_back(take_turns(ways, coroutines, s));
    }
    return {{"instances", s.instances}, {"server", kind}, {"runs", std::move(runs)}};
}

} // namespace holdfast::bench
