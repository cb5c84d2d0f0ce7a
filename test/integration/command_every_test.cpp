// `holdfast run --at-most-every`: jobs that timers of several machines start.
#include "integration/child.hpp"
#include "integration/command_programs.hpp"
#include "integration/foreign_client.hpp"
#include "integration/on_terminal.hpp"
#include "integration/program.hpp"
#include "integration/test_client.hpp"
#include "support/fleet.hpp"
#include "support/redis_cli.hpp"
#include "support/text.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <csignal>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

/// With single quotes in the shell.
outcome run_hourly(fleet const& servers, std::string const& options, std::string const& command) {
    return holdfast_command("run k --at-most-every 1h --new-servers" + on(servers) + options +
                            " -- " + command);
}

std::vector<std::string> hourly() {
    return {"--at-most-every", "1h"};
}

} // namespace

BOOST_AUTO_TEST_SUITE(command_every)

BOOST_AUTO_TEST_CASE(a_command_runs_once_in_an_interval) {
    fleet servers(3);
    auto const first = run_hourly(servers, "--fence-env --label one",
                                  "sh -c 'echo key $HOLDFAST_KEY fence $HOLDFAST_FENCE; exit 7'");
    BOOST_TEST(first.status == 7, first.said);
    BOOST_TEST(contains(first.said, "key k fence 1"), first.said);
    BOOST_TEST(is_free(servers));
    // It failed, and had its turn all the same. Without a terminal, nothing is said.
    auto const second = run_hourly(servers, "", "echo it runs");
    BOOST_TEST(second.status == 0);
    BOOST_TEST(second.said == "");
    auto const told = run_hourly(servers, "--verbose", "echo it runs");
    BOOST_TEST(told.status == 0);
    BOOST_TEST(told.said.starts_with("holdfast: \"k\": began "), told.said);
    BOOST_TEST(contains(told.said, " ago at one, due in "), told.said);
    auto const mark = holdfast_command("inspect k:last" + on(servers));
    BOOST_TEST(mark.status == 1, mark.said);
    BOOST_TEST((contains(mark.said, "ttl left  60 min") || contains(mark.said, "ttl left  59 min")),
               mark.said);
    // Another key has an interval of its own, and so has a lock alone.
    BOOST_TEST(
        holdfast_command("run other --at-most-every 1h --new-servers" + on(servers) + "-- echo ran")
            .said == "ran\n");
    BOOST_TEST(holdfast_command("run k --new-servers" + on(servers) + "-- echo ran").said ==
               "ran\n");
    delete_everywhere(servers, "k:last");
    BOOST_TEST(run_hourly(servers, "", "echo it runs").said == "it runs\n");
}

BOOST_AUTO_TEST_CASE(a_person_is_told_why_nothing_runs) {
    fleet servers(1);
    BOOST_TEST(run_hourly(servers, "", "true").status == 0);
    on_terminal t(shell(servers, hourly(), "echo it runs"));
    BOOST_TEST(t.status() == 0);
    BOOST_TEST(contains(t.shown(), "\"k\": began "), t.shown());
    BOOST_TEST(!contains(t.shown(), "it runs"), t.shown());
}

BOOST_AUTO_TEST_CASE(a_run_that_is_under_way_is_no_error) {
    fleet servers(3);
    child runs("HOLDFAST_COMMAND", shell(servers, hourly(), "echo runs; read x"));
    BOOST_TEST(runs.line() == "runs");
    auto const silent = run_hourly(servers, "", "echo it runs");
    BOOST_TEST(silent.status == 0);
    BOOST_TEST(silent.said == "");
    // Also if it takes longer than the interval.
    delete_everywhere(servers, "k:last");
    auto const told = run_hourly(servers, "--verbose", "echo it runs");
    BOOST_TEST(told.status == 0);
    BOOST_TEST(contains(told.said, "held"), told.said);
    runs.say("go");
    BOOST_TEST(runs.status() == 0);
    BOOST_TEST(is_free(servers));
}

BOOST_AUTO_TEST_CASE(a_command_that_cannot_be_started_has_not_had_its_turn) {
    fleet servers(3);
    auto const missing = run_hourly(servers, "", "/nowhere/at/all");
    BOOST_TEST(missing.status == 127, missing.said);
    BOOST_TEST(is_free(servers, "k:last"));
    BOOST_TEST(is_free(servers));
    BOOST_TEST(run_hourly(servers, "", "echo it runs").said == "it runs\n");
}

BOOST_AUTO_TEST_CASE(a_lost_lock_ends_the_command_of_an_interval) {
    fleet servers(3);
    for (std::string const script :
         {"echo $$; exec tail -f /dev/null",
          "trap '' TERM; echo $$; while :; do tail -f /dev/null; done"}) {
        delete_everywhere(servers, "k:last");
        auto options = hourly();
        options.insert(options.end(), {"--ttl", "2s"});
        child c("HOLDFAST_COMMAND", shell(servers, options, script));
        auto const id = static_cast<pid_t>(std::stoi(c.line()));
        delete_everywhere(servers);
        BOOST_TEST(c.status() == 122);
        BOOST_TEST(is_gone(id));
        BOOST_TEST(copies(servers, "k:last") == 3U);
    }
}

// Another holder may come as soon as the key is gone.
BOOST_AUTO_TEST_CASE(the_key_of_an_interval_goes_after_its_command) {
    fleet servers(3);
    auto options = hourly();
    options.insert(options.end(), {"--ttl", "2s", "--timeout", "200ms"});
    child c("HOLDFAST_COMMAND",
            shell(servers, options, "trap '' TERM; echo $$; while :; do tail -f /dev/null; done"));
    auto const id = static_cast<pid_t>(std::stoi(c.line()));
    servers.freeze(2);
    redis_cli awake(servers[2]);
    BOOST_TEST(wait_until([&] { return !awake.exists("k"); }));
    BOOST_TEST(::kill(id, 0) != 0);
    BOOST_TEST(c.status() == 122);
    servers.thaw_all();
}

BOOST_AUTO_TEST_CASE(the_command_of_an_interval_keeps_its_lock_and_gets_signals) {
    fleet servers(1);
    auto options = hourly();
    options.insert(options.end(), {"--ttl", "1s"});
    child c("HOLDFAST_COMMAND",
            shell(servers, options,
                  "trap 'echo caught; exit 9' TERM; echo ready; while :; do read x || :; done"));
    BOOST_TEST(c.line() == "ready");
    redis_cli probe(servers[0]);
    for (int i = 0; i < 3; ++i) {
        BOOST_TEST(wait_until([&] { return probe.pttl("k") < 900ms; }));
        BOOST_TEST(wait_until([&] { return probe.pttl("k") > 900ms; }));
    }
    c.send_signal(SIGTERM);
    BOOST_TEST(c.line() == "caught");
    BOOST_TEST(c.status() == 9);
    BOOST_TEST(is_free(servers));
}

BOOST_AUTO_TEST_CASE(an_outage_is_an_error_of_an_interval_and_nothing_begins) {
    fleet servers(3);
    servers.kill(2);
    auto const o = run_hourly(servers, "--timeout 300ms", "echo it runs");
    BOOST_TEST(o.status == 123, o.said);
    BOOST_TEST(!contains(o.said, "it runs"), o.said);
    BOOST_TEST(contains(o.said, " up, 2 are needed"), o.said);
    for (server& s : servers) {
        if (!s.running()) s.restart();
    }
    BOOST_TEST(run_hourly(servers, "", "echo it runs").said == "it runs\n");
}

BOOST_AUTO_TEST_CASE(the_command_of_an_interval_waits_for_votes_or_a_signal) {
    fleet servers(3);
    auto const young = "run k --at-most-every 1h" + on(servers);
    auto const ended = run_program("timeout --preserve-status -s TERM 5 " +
                                   program("HOLDFAST_COMMAND") + ' ' + young + "-- echo it runs");
    BOOST_TEST(ended.status == 128 + SIGTERM, ended.said);
    BOOST_TEST(contains(ended.said, "waiting for their votes"), ended.said);
    auto const o = holdfast_command(young + "--max-ttl 3s --ttl 2s -- echo it runs");
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST(contains(o.said, "it runs"), o.said);
}

BOOST_AUTO_TEST_CASE(wrong_intervals_are_told) {
    for (auto const& [options, told] :
         {std::pair<std::string, std::string>{"--at-most-every 1h --wait 5s", "--wait"},
          {"--at-most-every 1h --no-wait", "--no-wait"},
          {"--at-most-every 500ms", "500 ms"},
          {"--at-most-every 1", "unit"}}) {
        auto const o = holdfast_command("run k -i 127.0.0.1:1 " + options + " -- true");
        BOOST_TEST(o.status == 125, options << ": " << o.said);
        BOOST_TEST(contains(o.said, told), options << ": " << o.said);
    }
}

BOOST_AUTO_TEST_SUITE_END()
