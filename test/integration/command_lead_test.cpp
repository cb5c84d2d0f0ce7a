// `holdfast lead`: one command runs in a fleet, and another follows when its leader is gone.
#include "integration/child.hpp"
#include "integration/command_programs.hpp"
#include "integration/nothing_left.hpp"
#include "integration/program.hpp"
#include "integration/proxy_group.hpp"
#include "integration/test_client.hpp"
#include "support/access.hpp"
#include "support/fleet.hpp"
#include "support/redis_cli.hpp"
#include "support/text.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <fcntl.h>
#include <fstream>
#include <memory>
#include <string>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

/// `holdfast lead k ... -- sh -c script`, with messages in the output. On servers that have
/// forgotten nothing.
std::vector<std::string> lead(std::string const& instances, std::string const& options,
                              std::string const& script) {
    return {"-c",
            "exec 2>&1; exec " + program("HOLDFAST_COMMAND") +
                " lead k --new-servers --instances '" + instances + "' " + options +
                " -- sh -c \"$0\"",
            script};
}

struct candidate : child {
    candidate(std::string const& instances, std::string const& options, std::string const& script)
        : child("HOLDFAST_SHELL", lead(instances, options, script)) {}
    candidate(fleet const& servers, std::string const& options, std::string const& script)
        : candidate(servers.url_list(), options, script) {}

    /// The process of a command whose first line is its number.
    pid_t command() {
        auto const said = line();
        BOOST_REQUIRE_MESSAGE(!said.empty() && said.find_first_not_of("0123456789") == said.npos,
                              "no command: " << said);
        return static_cast<pid_t>(std::stoi(said));
    }
    void says(std::string const& text) {
        auto const said = line();
        BOOST_TEST(contains(said, text), '"' << said << "\" instead of: " << text);
    }
    /// The same after other lines.
    void says_at_last(std::string const& text) {
        for (auto said = line(); !contains(said, text); said = line())
            BOOST_REQUIRE_MESSAGE(!said.empty(), "never said: " << text);
    }
};

/// Commands that end after a TERM wait here until the test lets one of them go on.
class last_words {
public:
    explicit last_words(fleet& servers)
        : path_(servers[0].folder() + "/end") {
        BOOST_REQUIRE(::mkfifo(path_.c_str(), 0600) == 0);
        pipe_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
        BOOST_REQUIRE(pipe_ >= 0);
    }
    ~last_words() { ::close(pipe_); }
    last_words(last_words const&) = delete;
    last_words& operator=(last_words const&) = delete;

    /// A part of a script: says "ending" after a TERM, and at its end "over".
    std::string script() const {
        return "trap 'echo ending; read x <" + path_ + "; echo over; exit 3' TERM; ";
    }
    void let_one_end() { BOOST_REQUIRE(::write(pipe_, "x\n", 2) == 2); }

private:
    std::string path_;
    int pipe_ = -1;
};

/// A leader that does not end would keep the test waiting.
outcome run_lead(std::string const& arguments) {
    return run_program("timeout 20 " + program("HOLDFAST_COMMAND") + " lead k " + arguments);
}

outcome lead_to_the_end(fleet const& servers, std::string const& options,
                        std::string const& command) {
    return run_lead("--new-servers" + on(servers) + options + " -- " + command);
}

/// Says its number, and works until a signal ends it.
constexpr char const* works = "echo $$; exec tail -f /dev/null";

/// A part of a script, for any number of commands: says whether it runs alone. The kernel unlocks
/// the file when the command has ended, in whatever way.
std::string alone(fleet& servers) {
    return "exec 9>>'" + servers[0].folder() + "/alone'; flock -n 9 && how=alone || how=overlaps; ";
}

} // namespace

BOOST_AUTO_TEST_SUITE(command_lead)

BOOST_AUTO_TEST_CASE(a_leader_runs_its_command_and_ends_with_its_exit_code) {
    fleet servers(3);
    auto const o = lead_to_the_end(servers, "--fence-env",
                                   "sh -c 'echo key $HOLDFAST_KEY fence $HOLDFAST_FENCE; exit 7'");
    BOOST_TEST(o.status == 7, o.said);
    BOOST_TEST(contains(o.said, "key k fence 1"), o.said);
    BOOST_TEST(is_free(servers));
    BOOST_TEST(lead_to_the_end(servers, "", "true").status == 0);
    BOOST_TEST(lead_to_the_end(servers, "", "sh -c 'kill -KILL $$'").status == 128 + SIGKILL);
    check_nothing_left(servers);
}

BOOST_AUTO_TEST_CASE(a_command_that_cannot_be_executed_ends_its_leader) {
    fleet servers(1);
    for (std::string const options : {"", "--restart always"}) {
        auto o = lead_to_the_end(servers, options, "/nowhere/at/all");
        BOOST_TEST(o.status == 127, o.said);
        BOOST_TEST(contains(o.said, "/nowhere/at/all: No such file"), o.said);
        o = lead_to_the_end(servers, options, "/etc/passwd");
        BOOST_TEST(o.status == 126, o.said);
    }
    check_nothing_left(servers);
}

BOOST_AUTO_TEST_CASE(wrong_usage_names_the_value) {
    for (auto const& [arguments, told] :
         {std::pair<std::string, std::string>{"--restart sometimes -- true", "sometimes"},
          {"--restart -- true", "--restart"},
          {"--ttl 3 -- true", "--ttl"},
          {"--ttl 2h -- true", "--ttl is 2h, and --max-ttl is 1m"},
          {"--ttl 5ms -- true", "5 ms"},
          {"", "it follows after --: holdfast lead KEY [OPTIONS] -- COMMAND"}}) {
        auto const o = run_lead("-i 127.0.0.1:1 " + arguments);
        BOOST_TEST(o.status == 125, arguments << ": " << o.said);
        BOOST_TEST(contains(o.said, told), arguments << ": " << o.said);
    }
    BOOST_TEST(contains(holdfast_command("lead --help").said, "Exit codes of lead"));
}

BOOST_AUTO_TEST_CASE(a_key_that_is_no_lock_ends_a_candidate) {
    fleet servers(1);
    redis_cli(servers[0]).command({"RPUSH", "k", "v"});
    auto const o = lead_to_the_end(servers, "", "echo ran");
    BOOST_TEST(o.status == 123, o.said);
    BOOST_TEST(!contains(o.said, "\nran"), o.said);
}

// The kernel kills the command of the one that dies.
BOOST_AUTO_TEST_CASE(when_a_leader_is_killed_another_one_leads) {
    fleet servers(3);
    auto const script = alone(servers) + "echo $$; echo $how with $HOLDFAST_FENCE; read x";
    candidate first(servers, "--fence-env", script);
    auto const id = first.command();
    first.says("alone with ");
    candidate second(servers, "--fence-env", script);
    first.kill();
    second.command();
    second.says("alone with ");
    BOOST_TEST(is_gone(id));
    second.say("go");
    BOOST_TEST(second.status() == 0);
    check_nothing_left(servers);
}

// The ttl is longer than a line is waited for.
BOOST_AUTO_TEST_CASE(a_signal_goes_to_the_command_and_its_end_lets_another_one_lead) {
    fleet servers(3);
    for (auto const number : {SIGTERM, SIGINT, SIGHUP}) {
        candidate first(servers, "--ttl 60s --restart always",
                        "trap 'echo caught; exit 9' " + std::to_string(number) +
                            "; echo ready; while :; do read x || :; done");
        first.says("ready");
        candidate second(servers, "--ttl 60s", "echo next");
        first.send_signal(number);
        first.says("caught");
        if (number == SIGHUP) { // a daemon reads its configuration again
            first.says("the command has ended with 9, and starts again in 1s");
            first.says("ready");
            first.send_signal(SIGTERM);
            BOOST_TEST(first.status() == 128 + SIGTERM);
        } else {
            BOOST_TEST(first.status() == 9);
        }
        second.says("next");
        BOOST_TEST(second.status() == 0);
    }
    check_nothing_left(servers);
}

BOOST_AUTO_TEST_CASE(a_signal_that_ends_the_command_ends_its_leader) {
    fleet servers(1);
    for (auto const number : {SIGTERM, SIGHUP, SIGUSR1}) {
        candidate c(servers, "--restart always", works);
        c.command();
        c.send_signal(number);
        BOOST_TEST(c.status() == 128 + number);
        BOOST_TEST(is_free(servers));
    }
    candidate on_a_terminal(servers, "--restart always", works);
    ::kill(on_a_terminal.command(), SIGINT); // as Ctrl-C does
    BOOST_TEST(on_a_terminal.status() == 128 + SIGINT);
}

BOOST_AUTO_TEST_CASE(a_signal_ends_a_campaign) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    auto held = client.hold("k");
    for (auto const number : {SIGTERM, SIGINT, SIGHUP}) {
        candidate c(servers, "--verbose", works);
        c.says("waiting for \"k\": held by ");
        c.send_signal(SIGUSR1); // means nothing to it
        c.send_signal(number);
        BOOST_TEST(c.status() == 128 + number);
    }
    BOOST_TEST(held.held());
    BOOST_TEST(client.releases(held));
    check_nothing_left(servers);
}

BOOST_AUTO_TEST_CASE(a_leader_that_loses_its_lock_ends_its_command_and_leads_again) {
    fleet servers(3);
    last_words end(servers);
    candidate c(servers, "--ttl 2s",
                alone(servers) + end.script() +
                    "echo $$; echo $how; while :; do read x || :; done");
    auto const id = c.command();
    c.says("alone");
    test_client other(servers);
    delete_everywhere(servers);
    auto const both = c.line() + '\n' + c.line(); // of two processes, in any order
    BOOST_TEST(contains(both, "the lock is lost, the command has to end: k"), both);
    BOOST_TEST(contains(both, "ending"), both);
    // The leader does not ask for the lock again before its command has ended.
    auto [e, l] = other.try_acquire("k");
    BOOST_TEST(!e, e.what());
    BOOST_TEST(other.releases(l));
    end.let_one_end();
    c.says("over");
    auto const next = c.command();
    c.says("alone");
    BOOST_TEST(is_gone(id));
    BOOST_TEST(next != id);
    c.send_signal(SIGTERM);
    c.says("ending");
    BOOST_TEST(!is_free(servers));
    end.let_one_end();
    c.says("over");
    BOOST_TEST(c.status() == 3);
    check_nothing_left(servers);
}

// Nothing watches the lock meanwhile.
BOOST_AUTO_TEST_CASE(a_leader_that_stood_still_ends_its_command_and_leads_again) {
    fleet servers(3);
    candidate c(servers, "--ttl 500ms", alone(servers) + "echo $how; " + works);
    c.says("alone");
    auto const id = c.command();
    c.stop();
    BOOST_TEST(is_free(servers));
    c.go_on();
    auto said = c.line();
    if (contains(said, "the lock is lost")) said = c.line();
    BOOST_TEST(said == "alone");
    BOOST_TEST(c.command() != id);
    BOOST_TEST(is_gone(id));
    c.send_signal(SIGTERM);
    BOOST_TEST(c.status() == 128 + SIGTERM);
    check_nothing_left(servers);
}

BOOST_AUTO_TEST_CASE(each_outage_ends_the_command_and_is_told_once_and_waited_out) {
    fleet servers(3);
    candidate c(servers, "--ttl 2s --max-ttl 2s --timeout 200ms", works);
    for (auto const round : {1, 2}) {
        BOOST_TEST_INFO("outage " << round);
        auto const id = c.command();
        servers.kill(3);
        c.says("the lock is lost, the command has to end: k");
        c.says("; waiting for the instances");
        BOOST_TEST(is_gone(id));
        for (server& s : servers) s.restart();
        c.says("enough instances can vote again");
    }
    auto const id = c.command();
    c.send_signal(SIGTERM);
    BOOST_TEST(c.status() == 128 + SIGTERM);
    BOOST_TEST(is_gone(id));
    check_nothing_left(servers);
}

BOOST_AUTO_TEST_CASE(a_lack_that_lasts_is_told_once) {
    fleet servers(1, {.refuses = true, .missing_rules = {"+set"}});
    redis_cli admin(servers[0]);
    candidate c(servers, "", works);
    c.says("; trying again");
    auto const refusals = [&] {
        auto const stats = admin.command({"INFO", "commandstats"}).string();
        auto const at = stats.find("rejected_calls=", stats.find("cmdstat_set:"));
        return at == stats.npos ? 0 : std::stoi(stats.substr(at + 15));
    };
    BOOST_REQUIRE(wait_until([&] { return refusals() >= 2; }, 20s));
    BOOST_REQUIRE(admin.command({"ACL", "SETUSER", std::string(access::user), "+set"}).is_ok());
    c.says("enough instances can vote again");
    c.command();
    c.send_signal(SIGTERM);
    BOOST_TEST(c.status() == 128 + SIGTERM);
}

BOOST_AUTO_TEST_CASE(a_signal_ends_the_wait_for_servers) {
    fleet servers(1);
    auto const instances = servers.url_list();
    servers.kill(1);
    candidate c(instances, "", works);
    c.says("; waiting for the instances");
    c.send_signal(SIGTERM);
    BOOST_TEST(c.status() == 128 + SIGTERM);
}

BOOST_AUTO_TEST_CASE(servers_that_may_have_been_restarted_are_waited_for) {
    fleet servers(1);
    auto const o = run_lead("--max-ttl 3s" + on(servers) + "-- echo ran");
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST(contains(o.said, "; waiting for their votes; if the servers are new"), o.said);
    BOOST_TEST(contains(o.said, "\nran\n"), o.said);
}

//
// Commands that end
//

BOOST_AUTO_TEST_CASE(a_command_that_has_ended_is_started_again_on_demand) {
    fleet servers(1);
    auto const counted = "echo >>'" + servers[0].folder() + "/runs'; n=$(wc -l <'" +
                         servers[0].folder() + "/runs'); echo run $n; ";
    candidate c(servers, "--restart on-failure", counted + "[ $n -eq 3 ] || exit 4");
    c.says("run 1");
    c.says("the command has ended with 4, and starts again in 1s");
    c.says("run 2");
    c.says("the command has ended with 4, and starts again in 2s");
    BOOST_TEST(redis_cli(servers[0]).exists("k")); // it leads on
    c.says("run 3");
    BOOST_TEST(c.status() == 0);
    check_nothing_left(servers);

    candidate always(servers, "--restart always", "echo done");
    always.says("done");
    always.says("the command has ended with 0, and starts again in 1s");
    always.says("done");
    always.says("the command has ended with 0, and starts again in 2s");
    always.send_signal(SIGTERM); // ends the pause
    BOOST_TEST(always.status() == 128 + SIGTERM);
    check_nothing_left(servers);
}

BOOST_AUTO_TEST_CASE(a_leader_that_loses_its_lock_between_two_runs_starts_none) {
    fleet servers(1);
    candidate c(servers, "--restart always --verbose", "echo $$; exit 4");
    c.says("leads: k");
    c.command();
    c.says("the command has ended with 4, and starts again in 1s");
    redis_cli(servers[0]).set("k", "another", 60s);
    c.says("waiting for \"k\": held by ");
    delete_everywhere(servers);
    c.says("leads: k");
    c.command();
    c.says("the command has ended with 4, and starts again in 1s");
    c.send_signal(SIGTERM);
    BOOST_TEST(c.status() == 128 + SIGTERM);
    check_nothing_left(servers);
}

//
// One at a time
//

// The first one is cut off, and its command ignores SIGTERM. The second one starts when the key has
// expired.
BOOST_AUTO_TEST_CASE(the_command_of_a_leader_that_is_cut_off_has_ended_when_another_one_leads) {
    fleet servers(3);
    for (auto const hangs : {false, true}) {
        proxy_group proxies(servers);
        std::string urls;
        for (auto const& each : proxies.all) urls += each.url() + ' ';
        auto const script = alone(servers) + "trap '' TERM; echo $how; exec tail -f /dev/null";
        candidate first(urls, "--ttl 2s", script);
        first.says("alone");
        candidate second(servers, "--ttl 2s", script);
        for (auto& each : proxies.all) hangs ? each.hold_requests() : each.down();
        second.says("alone");
        second.kill();
        first.kill();
        BOOST_TEST(is_free(servers));
    }
}

// Three candidates. In turn, the one that leads is killed, is ended, or loses the servers.
BOOST_AUTO_TEST_CASE(no_two_commands_run_at_the_same_time) {
    fleet servers(3);
    last_words end(servers);
    auto const journal = servers[0].folder() + "/journal";
    auto const start = [&](std::size_t i) {
        return std::make_unique<candidate>(servers, "--ttl 2s --timeout 200ms",
                                           alone(servers) + end.script() + "echo " +
                                               std::to_string(i) + " $$ $how >>'" + journal +
                                               "'; while :; do read x || :; done");
    };
    std::array<std::unique_ptr<candidate>, 3> all{start(0), start(1), start(2)};
    std::size_t leader = 0;
    pid_t id = 0;
    std::string how;
    for (std::size_t turn = 0; turn < 6; ++turn) {
        auto const begun = [&] {
            std::ifstream file(journal);
            std::size_t entries = 0;
            for (std::size_t l = 0; file >> l >> id >> how; ++entries) leader = l;
            return entries > turn;
        };
        BOOST_REQUIRE(wait_until(begun, 20s));
        BOOST_TEST(how == "alone", "turn " << turn);
        switch (turn % 3) {
        case 0:
            all[leader]->kill();
            all[leader] = start(leader);
            break;
        case 1:
            all[leader]->send_signal(SIGTERM);
            all[leader]->says_at_last("ending");
            BOOST_TEST(!is_free(servers));
            end.let_one_end();
            BOOST_TEST(all[leader]->status() == 3);
            all[leader] = start(leader);
            break;
        default:
            servers.freeze(3);
            all[leader]->says_at_last("ending");
            end.let_one_end();
            BOOST_TEST(is_gone(id));
            servers.thaw_all();
        }
    }
    for (auto& each : all) each->send_signal(SIGTERM);
    end.let_one_end();
    for (auto& each : all) BOOST_TEST(each->status() != -1);
    // A request of before the last thaw may come late.
    check_nothing_left(servers, 5s);
}

BOOST_AUTO_TEST_SUITE_END()
