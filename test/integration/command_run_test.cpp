// `holdfast run`: commands under a lock, signals, losses, and a terminal.
#include "integration/attempt.hpp"
#include "integration/child.hpp"
#include "integration/command_programs.hpp"
#include "integration/nothing_left.hpp"
#include "integration/on_terminal.hpp"
#include "integration/program.hpp"
#include "integration/test_client.hpp"
#include "support/fleet.hpp"
#include "support/redis_cli.hpp"
#include "support/text.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

/// With single quotes in the shell.
outcome run_beside(fleet const& servers, std::string const& options, std::string const& command) {
    return run_program(program("HOLDFAST_COMMAND") + " run k --instances '" + servers.url_list() +
                       "' " + options + " -- " + command);
}

/// The servers have just been started, and have forgotten nothing.
outcome run_under(fleet const& servers, std::string const& options, std::string const& command) {
    return run_beside(servers, "--new-servers " + options, command);
}

/// Of a process that is no child of this one: the state in proc(5).
bool is_stopped(pid_t id) {
    std::ifstream file("/proc/" + std::to_string(id) + "/stat");
    std::string number, name, state;
    file >> number >> name >> state;
    return state == "T";
}

} // namespace

BOOST_AUTO_TEST_SUITE(command_run)

BOOST_AUTO_TEST_CASE(the_command_runs_under_the_lock_and_its_exit_code_is_passed_on) {
    fleet servers(3);
    auto const o = run_under(servers, "--fence-env",
                             "sh -c 'echo key $HOLDFAST_KEY fence $HOLDFAST_FENCE; exit 7'");
    BOOST_TEST(o.status == 7, o.said);
    BOOST_TEST(contains(o.said, "key k fence 1"), o.said);
    BOOST_TEST(is_free(servers));
    auto const plain = run_under(servers, "", "sh -c 'echo [$HOLDFAST_FENCE]'");
    BOOST_TEST(plain.status == 0);
    BOOST_TEST(contains(plain.said, "[]"), plain.said);
    BOOST_TEST(run_under(servers, "", "sh -c 'kill -KILL $$'").status == 128 + SIGKILL);
    BOOST_TEST(is_free(servers));
}

BOOST_AUTO_TEST_CASE(a_command_that_cannot_be_executed_gives_the_lock_back) {
    fleet servers(1);
    auto o = run_under(servers, "", "/nowhere/at/all");
    BOOST_TEST(o.status == 127, o.said);
    BOOST_TEST(contains(o.said, "/nowhere/at/all: No such file"), o.said);
    o = run_under(servers, "", "/etc/passwd");
    BOOST_TEST(o.status == 126, o.said);
    BOOST_TEST(is_free(servers));
}

BOOST_AUTO_TEST_CASE(a_held_lock_is_waited_for_or_not) {
    fleet servers(3);
    child holder("HOLDFAST_COMMAND", shell(servers, {}, "echo held; read line"));
    BOOST_TEST(holder.line() == "held");
    auto o = run_under(servers, "--no-wait", "true");
    BOOST_TEST(o.status == 124, o.said);
    BOOST_TEST(contains(o.said, "held by "), o.said);
    // A short wait may be over before the servers have answered.
    for (std::string const wait : {"50ms", "1s", "10s"}) {
        o = run_under(servers, "--wait " + wait, "true");
        if (o.status == 124) break;
    }
    BOOST_TEST(o.status == 124, o.said);
    child next("HOLDFAST_COMMAND", shell(servers, {}, "echo mine"));
    holder.say("go");
    BOOST_TEST(next.line() == "mine");
    BOOST_TEST(holder.status() == 0);
    BOOST_TEST(next.status() == 0);
    BOOST_TEST(is_free(servers));
}

BOOST_AUTO_TEST_CASE(without_a_quorum_the_command_does_not_run) {
    fleet servers(3);
    servers.kill(2);
    auto const o = run_under(servers, "--timeout 300ms", "echo ran");
    BOOST_TEST(o.status == 123, o.said);
    BOOST_TEST(!contains(o.said, "ran\n"), o.said);
}

BOOST_AUTO_TEST_CASE(signals_are_passed_on) {
    fleet servers(3);
    for (auto const number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) {
        auto const name = std::to_string(number);
        child c("HOLDFAST_COMMAND", shell(servers, {},
                                          "trap 'echo caught; exit 9' " + name + "; echo ready; " +
                                              "while :; do read x || :; done"));
        BOOST_TEST(c.line() == "ready");
        c.send_signal(number);
        BOOST_TEST(c.line() == "caught");
        BOOST_TEST(c.status() == 9);
        BOOST_TEST(is_free(servers));
    }
}

BOOST_AUTO_TEST_CASE(a_signal_ends_the_wait_and_leaves_nothing) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    auto held = client.hold("k");
    child c("HOLDFAST_COMMAND", shell(servers, {}, "echo ran"));
    auto const waits = [&] {
        auto const list = redis_cli(servers[0]).command({"CLIENT", "LIST"}).string();
        return contains(list, "holdfast-command");
    };
    BOOST_REQUIRE(client.until(waits));
    c.send_signal(SIGTERM);
    BOOST_TEST(c.status() == 128 + SIGTERM);
    BOOST_TEST(held.held());
    BOOST_TEST(client.releases(held));
    BOOST_TEST(is_free(servers));
}

BOOST_AUTO_TEST_CASE(a_lost_lock_ends_the_command_and_its_children) {
    fleet servers(3);
    // The shell's child has the output, and would go on after its shell.
    child c("HOLDFAST_COMMAND",
            shell(servers, {"--ttl", "2s"},
                  "sh -c 'echo $$; trap \"\" HUP; tail -f /dev/null' ; echo over"));
    auto const id = static_cast<pid_t>(std::stoi(c.line()));
    delete_everywhere(servers);
    BOOST_TEST(c.status() == 122);
    BOOST_TEST(is_gone(id));
}

BOOST_AUTO_TEST_CASE(a_command_that_ignores_the_loss_is_killed_by_the_deadline) {
    fleet servers(3);
    child c("HOLDFAST_COMMAND",
            shell(servers, {"--ttl", "2s"},
                  "trap '' TERM; echo $$; while :; do tail -f /dev/null; done"));
    auto const id = static_cast<pid_t>(std::stoi(c.line()));
    delete_everywhere(servers);
    BOOST_TEST(c.status() == 122);
    BOOST_TEST(is_gone(id));
}

BOOST_AUTO_TEST_CASE(servers_that_stop_answering_end_the_command_in_time) {
    fleet servers(3);
    child c("HOLDFAST_COMMAND",
            shell(servers, {"--ttl", "2s", "--timeout", "200ms"}, "echo $$; tail -f /dev/null"));
    auto const id = static_cast<pid_t>(std::stoi(c.line()));
    servers.freeze(2);
    BOOST_TEST(c.status() == 122);
    BOOST_TEST(is_gone(id));
    servers.thaw_all();
}

BOOST_AUTO_TEST_CASE(the_command_does_not_outlive_a_killed_holdfast) {
    fleet servers(1);
    child c("HOLDFAST_COMMAND", shell(servers, {}, "echo $$; exec tail -f /dev/null"));
    auto const id = static_cast<pid_t>(std::stoi(c.line()));
    c.kill();
    BOOST_TEST(is_gone(id));
}

// The shell ends at once; its child does not.
BOOST_AUTO_TEST_CASE(a_descendant_that_ignores_the_loss_is_killed_too) {
    fleet servers(3);
    child c("HOLDFAST_COMMAND",
            shell(servers, {"--ttl", "2s"},
                  "(trap '' TERM; exec tail -f /dev/null) & echo $!; trap 'exit 0' TERM; wait"));
    auto const id = static_cast<pid_t>(std::stoi(c.line()));
    delete_everywhere(servers);
    BOOST_TEST(c.status() == 122);
    BOOST_TEST(is_gone(id));
}

// Nobody reads the messages.
BOOST_AUTO_TEST_CASE(messages_that_nobody_takes_delay_nothing) {
    fleet servers(3);
    // Beyond the pipe's capacity, a write would wait for ever; after the end of `true`, it fails.
    for (std::string const reader : {"tail -f /dev/null", "true"}) {
        auto const fifo = "'" + servers[0].folder() + '/' + reader.substr(0, 4) + "'";
        auto const script = "mkfifo " + fifo + "; (exec 9<>" + fifo + "; exec " + reader +
                            ") & reader=$!; exec 2<>" + fifo +
                            "; dd if=/dev/zero bs=65536 count=1 >&2 2>/dev/null & filler=$!; " +
                            program("HOLDFAST_COMMAND") +
                            " run k --new-servers --ttl 2s --instances '" + servers.url_list() +
                            "' -- sh -c 'echo $$; exec tail -f /dev/null'; "
                            "status=$?; kill $reader $filler 2>/dev/null; echo status $status";
        child c("HOLDFAST_SHELL", {"-c", script});
        auto const id = static_cast<pid_t>(std::stoi(c.line()));
        delete_everywhere(servers);
        BOOST_TEST(c.line() == "status 122");
        BOOST_TEST(is_gone(id));
    }
}

BOOST_AUTO_TEST_CASE(a_command_that_is_stopped_elsewhere_keeps_its_lock) {
    fleet servers(1);
    child c("HOLDFAST_COMMAND",
            shell(servers, {"--ttl", "1s"}, "echo $$; read x; echo still here"));
    auto const id = static_cast<pid_t>(std::stoi(c.line()));
    ::kill(id, SIGSTOP);
    // Renewals go on for longer than the ttl.
    redis_cli probe(servers[0]);
    for (int i = 0; i < 6; ++i) {
        BOOST_TEST(wait_until([&] { return probe.pttl("k") < 900ms; }));
        BOOST_TEST(wait_until([&] { return probe.pttl("k") > 900ms; }));
    }
    BOOST_TEST(is_stopped(id)); // nobody else has woken it
    ::kill(id, SIGCONT);
    c.say("go");
    BOOST_TEST(c.line() == "still here");
    BOOST_TEST(c.status() == 0);
}

BOOST_AUTO_TEST_CASE(the_command_gets_its_arguments_as_they_are) {
    fleet servers(1);
    auto const o =
        run_under(servers, "", "printf '<%s>' '[a,b]' '[]' '[ -f /tmp/x ]' '{}' '' -- --ttl '%%'");
    BOOST_TEST(o.said == "<[a,b]><[]><[ -f /tmp/x ]><{}><><--><--ttl><%%>", o.said);
}

BOOST_AUTO_TEST_CASE(the_fence_of_an_outer_lock_is_not_that_of_an_inner_one) {
    fleet servers(1);
    auto const inner = program("HOLDFAST_COMMAND") + " run inner --new-servers --instances '" +
                       servers.url_list() + "' -- sh -c 'echo $HOLDFAST_KEY [$HOLDFAST_FENCE]'";
    auto const o = run_under(servers, "--fence-env", inner);
    BOOST_TEST(contains(o.said, "inner []"), o.said);
}

// As under nohup(1); and a parent may have blocked everything.
BOOST_AUTO_TEST_CASE(the_handling_of_signals_at_the_start_is_kept) {
    fleet servers(1);
    auto const command = program("HOLDFAST_COMMAND") + " run k --new-servers --instances '" +
                         servers.url_list() +
                         "' -- sh -c 'kill -HUP $PPID; kill -HUP $$; echo alive'";
    auto const o = run_program("trap '' HUP; " + command);
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST(contains(o.said, "alive"), o.said);
    sigset_t every, before;
    ::sigfillset(&every);
    BOOST_REQUIRE(::pthread_sigmask(SIG_BLOCK, &every, &before) == 0);
    auto const blocked = run_under(servers, "", "echo ran");
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    BOOST_TEST(blocked.status == 0, blocked.said);
    BOOST_TEST(contains(blocked.said, "ran"), blocked.said);
}

//
// On a terminal
//

BOOST_AUTO_TEST_CASE(the_command_reads_from_the_terminal_and_gets_its_signals) {
    fleet servers(1);
    on_terminal t(shell(servers, {}, "echo ready; read x; echo got $x; read y"));
    BOOST_TEST(t.shows("ready"), t.shown());
    t.type("hello\n");
    BOOST_TEST(t.shows("got hello"), t.shown());
    t.type("\x03");
    BOOST_TEST(t.status() == 128 + SIGINT);
    BOOST_TEST(is_free(servers));
}

// Nobody could wake it: a shell without job control ignores Ctrl-Z in the same way.
BOOST_AUTO_TEST_CASE(where_no_shell_waits_a_stop_has_no_effect) {
    fleet servers(1);
    on_terminal t(shell(servers, {}, "echo ready; read x; echo got $x"));
    BOOST_TEST(t.shows("ready"), t.shown());
    t.type("\x1a");
    t.type("hello\n");
    BOOST_TEST(t.shows("got hello"), t.shown());
    BOOST_TEST(t.status() == 0);
}

// Under a shell with job control.
BOOST_AUTO_TEST_CASE(a_command_that_is_stopped_gives_the_terminal_back) {
    fleet servers(1);
    auto const command = program("HOLDFAST_COMMAND") +
                         " run k --new-servers --ttl 60s --instances '" + servers.url_list() +
                         "' -- sh -c 'echo ready; read x; echo got $x'";
    on_terminal t({"--norc", "-i"}, "/bin/bash");
    t.type("PS1='prompt$ '\n");
    t.type(command + "; echo first $((1+1))\n");
    BOOST_TEST(t.shows("ready\r\n"), t.shown());
    t.type("\x1a");
    BOOST_TEST(t.shows("Stopped"), t.shown());
    t.type("fg\n");
    t.type("again\n");
    BOOST_TEST(t.shows("got again"), t.shown());
    t.type("exit 5\n");
    BOOST_TEST(t.status() == 5);
}

BOOST_AUTO_TEST_CASE(a_person_who_waits_is_told_for_whom) {
    fleet servers(3);
    auto const random = std::string(":0123456789abcdef0123456789abcdef");
    auto const set = [&](std::string const& holder) {
        for (server& s : servers) redis_cli(s).set("k", holder + random, 90s);
    };
    set("first");
    on_terminal t(shell(servers, {}, "echo it runs"));
    BOOST_TEST(t.shows("waiting for \"k\": held by first, "), t.shown());
    BOOST_TEST(t.shows(" s left unless the holder extends it"), t.shown());
    set("second");
    BOOST_TEST(t.shows("waiting for \"k\": held by second, "), t.shown());
    BOOST_TEST(!contains(t.shown(), "it runs"), t.shown());
    delete_everywhere(servers);
    BOOST_TEST(t.status() == 0);
    BOOST_TEST(contains(t.shown(), "it runs"), t.shown());
    // Once for each.
    BOOST_TEST(t.shown().find("first") == t.shown().rfind("first"), t.shown());
}

BOOST_AUTO_TEST_CASE(without_a_terminal_the_holder_is_named_only_on_demand) {
    fleet servers(1);
    redis_cli(servers[0]).set("k", "another's", 60s);
    auto const silent = run_under(servers, "--wait 2s", "true");
    BOOST_TEST(silent.status == 124, silent.said);
    BOOST_TEST(!contains(silent.said, "waiting for"), silent.said);
    auto const told = run_under(servers, "--wait 2s --verbose", "true");
    BOOST_TEST(told.status == 124, told.said);
    BOOST_TEST(contains(told.said, "waiting for \"k\": held by "), told.said);
}

//
// Servers that may have been restarted
//

BOOST_AUTO_TEST_CASE(a_command_does_not_start_beside_the_holder_of_before_a_restart) {
    fleet servers(1);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    auto held = client.hold("k", unwatched(60s));
    servers[0].kill();
    servers[0].restart();
    for (std::string const wait : {"--no-wait", "--wait 1s"}) {
        auto const o = run_beside(servers, wait, "echo it runs");
        BOOST_TEST(held.held());
        BOOST_TEST(o.status == 123, o.said);
        BOOST_TEST(!contains(o.said, "it runs"), o.said);
        BOOST_TEST(contains(o.said, "it may have been restarted"), o.said);
        BOOST_TEST(contains(o.said, "--new-servers"), o.said);
    }
    BOOST_TEST(run_under(servers, "--no-wait", "echo it runs").status == 0);
}

BOOST_AUTO_TEST_CASE(a_command_waits_until_its_servers_are_old_enough) {
    fleet servers(3);
    auto const o = run_beside(servers, "--max-ttl 3s --ttl 2s", "echo it runs");
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST(contains(o.said, "it runs"), o.said);
    // Now they are older than max_ttl, in whole seconds.
    for (server& instance : servers) {
        redis_cli cli(instance);
        BOOST_REQUIRE(wait_until([&] { return std::stol(cli.info("uptime_in_seconds")) > 3; }));
    }
    auto const later = run_beside(servers, "--max-ttl 3s --ttl 2s --no-wait", "echo it runs");
    BOOST_TEST(later.status == 0, later.said);
    BOOST_TEST(!contains(later.said, "restarted"), later.said);
}

BOOST_AUTO_TEST_CASE(with_a_time_to_wait_a_command_waits_for_its_servers) {
    fleet servers(1);
    servers.kill(1);
    auto const run = program("HOLDFAST_COMMAND") + " run k --new-servers --instances '" +
                     servers.url_list() + "' ";
    for (std::string const wait : {"", "--no-wait ", "--wait 300ms "}) {
        auto const o = run_program(run + wait + "-- echo it runs");
        BOOST_TEST(o.status == 123, o.said);
        BOOST_TEST(contains(o.said, "cannot be reached"), o.said);
    }
    child c("HOLDFAST_SHELL", {"-c", "exec 2>&1; " + run + "--wait 60s -- echo it runs"});
    auto const said = c.line();
    BOOST_TEST(contains(said, "cannot be reached; waiting for the instances"), said);
    servers[0].restart();
    BOOST_TEST(c.line() == "it runs");
    BOOST_TEST(c.status() == 0);
}

BOOST_AUTO_TEST_CASE(a_signal_ends_the_wait_for_votes) {
    fleet servers(1);
    auto const o =
        run_program("timeout --preserve-status -s TERM 5 " + program("HOLDFAST_COMMAND") +
                    " run k --instances '" + servers.url_list() + "' -- echo it runs");
    BOOST_TEST(o.status == 128 + SIGTERM, o.said);
    BOOST_TEST(contains(o.said, "waiting for their votes"), o.said);
    BOOST_TEST(!contains(o.said, "it runs"), o.said);
}

BOOST_AUTO_TEST_SUITE_END()
