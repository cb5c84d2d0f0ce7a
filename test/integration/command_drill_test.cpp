// holdfast doctor --drill, with an operator that does what it says, and one that does something
// else.
#include "integration/child.hpp"
#include "integration/command_programs.hpp"
#include "support/cluster_group.hpp"
#include "support/fleet.hpp"
#include "support/redis_cli.hpp"
#include "support/sentinel_group.hpp"
#include "support/text.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

/// What the drill has printed, and its exit status.
struct drill_result {
    std::string said;
    int status = 0;
};

/// `act(line)`: does what a line says, for `stop` and `start`.
drill_result drill(std::string const& instances, std::function<void(std::string const&)> const& act,
                   std::vector<std::string> const& options = {}) {
    std::vector<std::string> arguments{"doctor", "--drill",   "--ttl", "3s",          "--max-ttl",
                                       "3s",     "--timeout", "1s",    "--instances", instances};
    arguments.insert(arguments.end(), options.begin(), options.end());
    child program("HOLDFAST_COMMAND", arguments);
    drill_result r;
    for (auto line = program.line(60s); !line.empty(); line = program.line(60s)) {
        r.said += line + '\n';
        if (line.starts_with("stop ") || line.starts_with("start ")) act(line);
    }
    r.status = program.status();
    return r;
}

/// Stops and starts the servers that the line names.
void obey(fleet& servers, std::string const& line) {
    for (std::size_t i = 0; i < servers.size(); ++i) {
        if (!contains(line, servers[i].shown())) continue;
        line.starts_with("stop") ? servers[i].kill() : servers[i].restart();
    }
}

void is_passed(drill_result const& r, std::string const& checks) {
    BOOST_TEST(r.status == 0, r.said);
    BOOST_TEST(contains(r.said, "passed: " + checks + " checks"), r.said);
}
void fails(drill_result const& r, std::string const& cause) {
    BOOST_TEST(r.status == 2, r.said);
    BOOST_TEST(contains(r.said, "FAILED: " + cause), r.said);
    BOOST_TEST(!contains(r.said, "passed:"), r.said);
}

} // namespace

BOOST_AUTO_TEST_SUITE(command_drill)

BOOST_AUTO_TEST_CASE(three_instances_lose_one_and_then_two) {
    fleet servers(3);
    auto const r = drill(servers.url_list(), [&](std::string const& line) { obey(servers, line); });
    is_passed(r, "13");
    BOOST_TEST(contains(r.said, "stop  " + servers[2].shown() + '\n'), r.said);
    BOOST_TEST(
        contains(r.said, "stop  " + servers[0].shown() + " and " + servers[1].shown() + '\n'),
        r.said);
    BOOST_TEST(contains(r.said, "ok    the lease goes on: for twice its ttl"), r.said);
    BOOST_TEST(contains(r.said, "ok    the holder hears of the loss"), r.said);
    BOOST_TEST(contains(r.said, "ok    no client gets the lock"), r.said);
    for (std::size_t i = 0; i < servers.size(); ++i)
        BOOST_TEST(!redis_cli(servers[i]).exists("holdfast-doctor"));
}

BOOST_AUTO_TEST_CASE(one_instance_is_stopped) {
    fleet servers(1);
    auto const r = drill(servers.url_list(), [&](std::string const& line) { obey(servers, line); });
    is_passed(r, "7");
}

BOOST_AUTO_TEST_CASE(sentinel_promotes_a_replica_meanwhile) {
    sentinel_group group;
    std::size_t victim = 0;
    auto const r = drill(group.url(), [&](std::string const& line) {
        if (line.starts_with("stop")) {
            BOOST_TEST(contains(line, "the primary 127.0.0.1:"), line);
            auto const before = group.majority();
            BOOST_REQUIRE(before.has_value());
            victim = group.primary();
            group.member(victim).kill();
            group.wait_for_switch(*before);
        } else {
            group.member(victim).restart();
            group.wait_until_settled();
        }
    });
    BOOST_TEST(r.status == 0, r.said);
    BOOST_TEST(contains(r.said, "ok    a client gets the lock again"), r.said);
}

BOOST_AUTO_TEST_CASE(a_replica_of_a_cluster_takes_over_meanwhile) {
    cluster_group cluster;
    std::size_t victim = 0;
    auto const r = drill(cluster.url(), [&](std::string const& line) {
        if (line.starts_with("stop")) {
            BOOST_TEST(contains(line, "the primary that has the key of "), line);
            victim = cluster.owner_of("holdfast-doctor");
            cluster.node(victim).kill();
            cluster.wait_for_other_owner(cluster.slot_of("holdfast-doctor"), victim, 30s);
        } else {
            cluster.node(victim).restart();
            cluster.wait_until_agreed(30s);
        }
    });
    BOOST_TEST(r.status == 0, r.said);
    BOOST_TEST(contains(r.said, "ok    a client gets the lock again"), r.said);
}

// As if the servers that are up had lost it.
BOOST_AUTO_TEST_CASE(a_lease_that_is_lost_too_early_fails_the_drill) {
    fleet servers(3);
    auto const r = drill(servers.url_list(), [&](std::string const& line) {
        obey(servers, line);
        for (std::size_t i = 0; i < 2; ++i) redis_cli(servers[i]).del("holdfast-doctor");
    });
    fails(r, "the lease is lost, though a quorum is up");
}

BOOST_AUTO_TEST_CASE(a_lock_that_another_program_holds_fails_the_drill) {
    fleet servers(1);
    BOOST_REQUIRE(redis_cli(servers[0]).set_if_absent("busy", "another", 60s));
    fails(drill(servers.url_list(), [](std::string const&) {}, {"--key", "busy"}),
          "the lock cannot be acquired");
}

BOOST_AUTO_TEST_CASE(wrong_use_says_why) {
    fleet servers(1);
    check_refused(servers, {{"doctor --drill --json", "--drill takes locks, and prints no JSON"},
                            {"doctor --drill --no-lock", "--drill takes locks"},
                            {"doctor --drill --ttl 2m", "longer"}});
}

BOOST_AUTO_TEST_SUITE_END()
