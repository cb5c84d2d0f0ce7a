// Runs the examples of the first two folders. Their output and their exit status must be right.
#include "integration/child.hpp"
#include "integration/nothing_left.hpp"
#include "integration/program.hpp"
#include "support/fleet.hpp"
#include "support/lock_monitor.hpp"
#include "support/redis_cli.hpp"
#include "support/server.hpp"
#include "support/swept_folder.hpp"
#include "support/text.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

/// The program with the instances at the end of its command line. It may take a minute.
outcome run_example(char const* variable, fleet const& instances, std::string const& first = {}) {
    auto command = "timeout 60 " + program(variable) + ' ' + first;
    for (auto const& url : instances.urls()) command += " '" + url + "'";
    return run_program(command);
}

int number_before(std::string const& text, std::string const& words) {
    std::smatch found;
    BOOST_REQUIRE_MESSAGE(std::regex_search(text, found, std::regex("(\\d+) " + words)), text);
    return std::stoi(found[1]);
}

/// A process of the leader example. Its lines begin with its name.
struct machine {
    machine(std::string const& its_name, fleet const& instances)
        : name(its_name)
        , process("HOLDFAST_LEADER", arguments(its_name, instances)) {}

    static std::vector<std::string> arguments(std::string const& name, fleet const& instances) {
        std::vector<std::string> all{name};
        for (auto const& url : instances.urls()) all.push_back(url);
        return all;
    }
    /// Reads until a line begins so; returns the rest of it. Empty if none comes in time.
    std::string after(std::string const& beginning) {
        for (;;) {
            auto const line = process.line();
            if (line.empty()) return {};
            if (line.starts_with(name + beginning)) return line.substr((name + beginning).size());
        }
    }
    std::uint64_t next_fence() {
        auto const fence = after(" leads with fence ");
        BOOST_REQUIRE_MESSAGE(!fence.empty(), name << " does not lead");
        return std::stoull(fence);
    }

    std::string name;
    child process;
};

} // namespace

BOOST_AUTO_TEST_SUITE(small_examples)

BOOST_AUTO_TEST_CASE(hello_gets_its_lock_and_gives_it_back) {
    fleet instances(3);
    auto const o = run_example("HOLDFAST_HELLO", instances);
    BOOST_TEST(o.status == 0, o.said);
    std::regex const lines("seat 12 is ours for another [0-9]+ ms, and longer if we stay\n"
                           "given back\n");
    BOOST_TEST(std::regex_match(o.said, lines), o.said);
    check_nothing_left(instances);
}

BOOST_AUTO_TEST_CASE(hello_without_an_address_needs_no_server) {
    auto const o = run_program("timeout 60 " + program("HOLDFAST_HELLO"));
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST(contains(o.said, "given back\n"), o.said);
}

BOOST_AUTO_TEST_CASE(time_limits_tells_how_each_wait_ends) {
    fleet instances(3);
    auto const o = run_example("HOLDFAST_TIME_LIMITS", instances);
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST(o.said == "try_acquire: another holder has it\n"
                         "try_acquire_for(100ms): still held after 100 ms\n"
                         "acquire(cancel_after(100ms)): cancelled\n"
                         "acquire(bind_cancellation_slot): cancelled\n"
                         "try_acquire after the release: acquired\n");
    check_nothing_left(instances);
}

BOOST_AUTO_TEST_CASE(completion_tokens_acquires_in_each_way) {
    fleet instances(3);
    auto const o = run_example("HOLDFAST_COMPLETION_TOKENS", instances);
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST(o.said == "callback: held\n"
                         "callback: released\n"
                         "future: held\n"
                         "future: released\n"
                         "as_tuple: held\n"
                         "as_tuple: contended, as it should be\n"
                         "as_tuple: released\n");
    check_nothing_left(instances);
}

BOOST_AUTO_TEST_CASE(client_per_thread_loses_no_count) {
    fleet instances(3);
    auto const o = run_example("HOLDFAST_CLIENT_PER_THREAD", instances);
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST(o.said == "4 threads counted to 200 of 200\n");
    check_nothing_left(instances);
}

BOOST_AUTO_TEST_CASE(hung_holders_do_not_keep_their_locks) {
    fleet instances(3);
    auto const o = run_example("HOLDFAST_HUNG_HOLDER", instances);
    BOOST_TEST(o.status == 0, o.said);
    std::regex const lines("max_hold: expired after [0-9]+ ms\n"
                           "max_hold: the next holder has it\n"
                           "extend_while: three steps in [0-9]+ ms, held\n"
                           "extend_while: expired [0-9]+ ms after the last step\n");
    BOOST_TEST(std::regex_match(o.said, lines), o.said);
    check_nothing_left(instances, std::chrono::seconds(2));
}

BOOST_AUTO_TEST_CASE(an_expensive_value_is_computed_once_by_all_machines) {
    fleet instances(3);
    server store;
    std::string command = program("HOLDFAST_CACHE") + ' ' + store.address();
    for (auto const& url : instances.urls()) command += " '" + url + "'";
    command = "timeout 60 " + command;
    auto const o = run_program(command + " & " + command + "; status=$?; wait $! && exit $status");
    BOOST_TEST(o.status == 0, o.said);
    auto const cut = o.said.find('\n');
    BOOST_REQUIRE(cut != o.said.npos);
    auto const first = o.said.substr(0, cut), second = o.said.substr(cut + 1);
    BOOST_TEST(number_before(first, "read it") == 50);
    BOOST_TEST(number_before(second, "read it") == 50);
    BOOST_TEST(number_before(first, "computed it") + number_before(second, "computed it") == 1);
    redis_cli in_store(store);
    BOOST_TEST(in_store.get("report").value_or("") == "the report of today");
    check_nothing_left(instances);
}

// Two processes at once, on the same accounts.
BOOST_AUTO_TEST_CASE(transfers_lose_nothing) {
    fleet instances(3);
    server store;
    std::string command = program("HOLDFAST_TRANSFER") + ' ' + store.address();
    for (auto const& url : instances.urls()) command += " '" + url + "'";
    command = "timeout 60 " + command;
    auto const o = run_program(command + " & " + command + "; status=$?; wait $! && exit $status");
    BOOST_TEST(o.status == 0, o.said);
    for (auto const* const line : {"40 transfers done\n", "a late write turned away\n"})
        BOOST_TEST(o.said.find(line) != o.said.rfind(line), o.said);
    BOOST_TEST(!contains(o.said, "was taken"), o.said);
    redis_cli in_store(store);
    // Each process gave 1 from carol to alice in the end.
    for (auto const& [account, amount] :
         {std::pair<char const*, char const*>{"alice", "102"}, {"bob", "100"}, {"carol", "98"}}) {
        auto const balance = in_store.command({"HGET", account, "balance"}).string();
        BOOST_TEST(balance == amount, account << " has " << balance);
    }
    check_nothing_left(instances);
}

// Two processes at once, with the same ten desks.
BOOST_AUTO_TEST_CASE(at_most_ten_jobs_work_and_each_has_its_desk) {
    fleet instances(3);
    server store;
    std::string command = program("HOLDFAST_TEN_WORKERS") + ' ' + store.address();
    for (auto const& url : instances.urls()) command += " '" + url + "'";
    command = "timeout 60 " + command;
    auto const o = run_program(command + " & " + command + "; status=$?; wait $! && exit $status");
    BOOST_TEST(o.status == 0, o.said);
    for (auto const* const line :
         {"30 jobs are done", ", 0 were disturbed\n", "a late write turned away\n"})
        BOOST_TEST(o.said.find(line) != o.said.rfind(line), o.said);
    check_nothing_left(instances, std::chrono::seconds(15));
}

// Two processes at once, on the same page.
BOOST_AUTO_TEST_CASE(a_page_is_read_by_many_and_never_torn) {
    fleet instances(3);
    server store;
    std::string command = program("HOLDFAST_CONFIG_PAGE") + ' ' + store.address();
    for (auto const& url : instances.urls()) command += " '" + url + "'";
    command = "timeout 60 " + command;
    auto const o = run_program(command + " & " + command + "; status=$?; wait $! && exit $status");
    BOOST_TEST(o.status == 0, o.said);
    for (auto const* const line : {" times, torn 0 times\n", "a late write turned away\n"})
        BOOST_TEST(o.said.find(line) != o.said.rfind(line), o.said);
    redis_cli in_store(store);
    for (auto const* const field : {"host", "port", "path"})
        BOOST_TEST(in_store.command({"HGET", "page", field}).string() == "the end");
    // A downgraded writer opens no turn: the note of readers that it has refused goes with its ttl.
    check_nothing_left(instances, std::chrono::seconds(15));
}

// Twice, as the second run must have greater fences than the row has from the first.
BOOST_AUTO_TEST_CASE(a_row_with_a_fence_rejects_a_late_holder,
                     *boost::unit_test::precondition([](auto) {
                         return std::getenv("HOLDFAST_FENCED_SQL") != nullptr;
                     })) {
    fleet instances(3);
    swept_folder folder;
    for (int run = 1; run <= 2; ++run) {
        auto const o = run_example("HOLDFAST_FENCED_SQL", instances, folder.path("stock.db"));
        BOOST_TEST(o.status == 0, o.said);
        BOOST_TEST(o.said == "10 pieces: written\n"
                             "9 pieces: written\n"
                             "11 pieces: rejected, too late\n");
    }
    check_nothing_left(instances);
    auto const missing = folder.path("missing/stock.db");
    auto const o = run_example("HOLDFAST_FENCED_SQL", instances, missing);
    BOOST_TEST(o.status == 1, o.said);
    BOOST_TEST(contains(o.said, missing), o.said);
}

BOOST_AUTO_TEST_CASE(tracing_makes_spans_in_the_trace_of_each_request) {
    fleet instances(3);
    auto const o = run_example("HOLDFAST_TRACING", instances);
    BOOST_TEST(o.status == 0, o.said);
    for (auto const* const trace : {"\"traceId\":\"4bf92f3577b34da6a3ce929d0e0e4736\"",
                                    "\"traceId\":\"0af7651916cd43dd8448eb211c80319c\""}) {
        std::istringstream lines(o.said);
        std::string names;
        for (std::string line; std::getline(lines, line);) {
            if (!contains(line, trace)) continue;
            auto const name = line.find("\"name\":\"") + 8;
            names += line.substr(name, line.find('"', name) - name) + ' ';
            BOOST_TEST(contains(line, "\"lock.key\":\"seat:7\""), line);
            BOOST_TEST(!contains(line, "\"lock.fence\":0}"), line);
        }
        BOOST_TEST(names == "acquire extend hold ", o.said);
    }
    check_nothing_left(instances);
}

BOOST_AUTO_TEST_CASE(examples_end_and_say_why_when_there_is_no_server) {
    fleet instances(1);
    instances.kill(1);
    for (char const* const name :
         {"HOLDFAST_HELLO", "HOLDFAST_TIME_LIMITS", "HOLDFAST_COMPLETION_TOKENS",
          "HOLDFAST_CLIENT_PER_THREAD", "HOLDFAST_HUNG_HOLDER"}) {
        auto const o = run_example(name, instances);
        BOOST_TEST(o.status == 1, name << ": " << o.said);
        BOOST_TEST(contains(o.said, "cannot be reached"), name << ": " << o.said);
    }
}

BOOST_AUTO_TEST_CASE(examples_name_the_argument_that_is_wrong) {
    for (char const* const name :
         {"HOLDFAST_HELLO", "HOLDFAST_TIME_LIMITS", "HOLDFAST_COMPLETION_TOKENS",
          "HOLDFAST_CLIENT_PER_THREAD", "HOLDFAST_HUNG_HOLDER"}) {
        auto const o = run_program(program(name) + " 127.0.0.1:no-port");
        BOOST_TEST(o.status == 1, name << ": " << o.said);
        BOOST_TEST(contains(o.said, "the port is not a number"), name << ": " << o.said);
    }
    for (char const* const name :
         {"HOLDFAST_LEADER", "HOLDFAST_CACHE", "HOLDFAST_FENCED", "HOLDFAST_TRANSFER"}) {
        auto const o = run_program(program(name) + " only-this");
        BOOST_TEST(o.status == 1, name << ": " << o.said);
        BOOST_TEST(contains(o.said, "usage: "), name << ": " << o.said);
    }
}

BOOST_AUTO_TEST_CASE(a_leader_that_dies_hangs_or_ends_is_followed_by_the_next) {
    fleet instances(3);
    machine a("a", instances);
    auto const first = a.next_fence();
    BOOST_TEST(a.after(" has done step 2").empty()); // the line has no more
    machine b("b", instances);

    a.process.kill();
    auto const second = b.next_fence();
    BOOST_TEST(second > first);

    // The machine hangs, and goes on when another one leads.
    machine c("c", instances);
    b.process.stop();
    auto const third = c.next_fence();
    BOOST_TEST(third > second);
    b.process.go_on();
    auto const told = b.after(" does not lead: ");
    BOOST_TEST(contains(told, "lease"), told);

    c.process.send_signal(SIGTERM);
    BOOST_TEST(c.after(" has ended").empty());
    BOOST_TEST(c.process.status() == 0);
    BOOST_TEST(b.next_fence() > third);
    b.process.send_signal(SIGINT);
    BOOST_TEST(b.process.status() == 0);
    check_nothing_left(instances);
}

BOOST_AUTO_TEST_CASE(a_leader_waits_for_the_end_of_an_outage) {
    fleet instances(3);
    machine a("a", instances);
    auto const before = a.next_fence();
    instances.freeze(2);
    BOOST_TEST(!a.after(" does not lead: ").empty());
    instances.thaw_all();
    BOOST_TEST(a.next_fence() > before);
    a.process.send_signal(SIGTERM);
    BOOST_TEST(a.process.status() == 0);
    // The majority that granted the last lease has nothing. The third instance may have executed an
    // attempt of before the thaw, whose connection had been given up: the ttl removes its key.
    auto clean = 0;
    for (server& instance : instances) clean += lock_monitor(instance).none();
    BOOST_TEST(clean >= 2);
    check_nothing_left(instances, 2s);
}

BOOST_AUTO_TEST_SUITE_END()
