// The command holdfast, as a process: inspect, doctor, and wrong usage.
#include <holdfast/version.hpp>

#include "integration/command_programs.hpp"
#include "integration/program.hpp"
#include "integration/restricted.hpp"
#include "integration/test_client.hpp"
#include "support/cluster_group.hpp"
#include "support/fleet.hpp"
#include "support/text.hpp"
#include "support/variable.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <fstream>
#include <string>
#include <string_view>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

/// The output of a command with --json, which is one line.
boost::json::object json_of(outcome const& o) {
    boost::system::error_code ec;
    auto const value = boost::json::parse(o.said, ec);
    BOOST_REQUIRE_MESSAGE(!ec && value.is_object(), o.said);
    return value.as_object();
}

bool has_finding(outcome const& o, std::string_view level, std::string_view text) {
    auto const all = json_of(o);
    for (auto const& each : all.at("findings").as_array()) {
        auto const& f = each.as_object();
        if (f.at("severity").as_string() == level && contains(f.at("text").as_string(), text))
            return true;
    }
    return false;
}

} // namespace

BOOST_AUTO_TEST_SUITE(command)

BOOST_AUTO_TEST_CASE(wrong_usage_is_told_and_ends_125) {
    for (auto const& [arguments, told] :
         {std::pair<std::string, std::string>{"", "Usage: holdfast"},
          {"frobnicate", "frobnicate"},
          {"inspect", "key"},
          {"inspect k", "no instances are given"},
          {"inspect k -i 127.0.0.1:0", "address 1 of the list"},
          {"inspect k -f /nowhere/at/all", "\"/nowhere/at/all\" cannot be read"},
          {"inspect '' -i 127.0.0.1:1", "the key is empty"},
          {"inspect k -i 127.0.0.1:1 --timeout 5", "unit"},
          {"inspect k -i 127.0.0.1:1 --timeout 0ms", "instance_timeout is 0 ms"},
          {"run k -i 127.0.0.1:1",
           "it follows after --: holdfast run KEY ... [OPTIONS] -- COMMAND"},
          {"run k -i 127.0.0.1:1 --", "it follows after --: holdfast run KEY ... [OPTIONS] -- "},
          {"run k true -i 127.0.0.1:1", "no command is given; it follows after --"},
          {"run k -i 127.0.0.1:1 --ttl 2h -- true", "--ttl is 2h, and --max-ttl is 1m"},
          {"run k -i 127.0.0.1:1 --wait 5s --no-wait -- true", "--wait"}}) {
        auto const o = holdfast_command(arguments);
        BOOST_TEST(o.status == 125, arguments << ": " << o.said);
        BOOST_TEST(contains(o.said, told), arguments << ": " << o.said);
    }
    auto const help = holdfast_command("run --help");
    BOOST_TEST(help.status == 0);
    BOOST_TEST(contains(help.said, "122 the lock was lost"), help.said);
    BOOST_TEST(contains(help.said, "Usage: holdfast run KEY ... [OPTIONS] -- COMMAND"), help.said);
    BOOST_TEST(contains(help.said, "-- ends the options. All that follows is"), help.said);
    {
        variable const longest("HOLDFAST_MAX_TTL", "3h");
        BOOST_TEST(holdfast_command("run k -i 127.0.0.1:1 --ttl 2h -- true").status == 123);
    }
    BOOST_TEST(holdfast_command("--version").said == HOLDFAST_VERSION_STRING "\n");
}

BOOST_AUTO_TEST_CASE(instances_come_from_the_environment_or_a_file) {
    fleet servers(3);
    {
        variable const given("HOLDFAST_INSTANCES", servers.url_list());
        BOOST_TEST(holdfast_command("inspect k").status == 0);
    }
    // The command line goes before the environment.
    {
        variable const elsewhere("HOLDFAST_INSTANCES", "127.0.0.1:1");
        BOOST_TEST(holdfast_command("inspect k" + on(servers)).status == 0);
    }
    auto const path = servers[0].folder() + "/instances";
    std::ofstream(path) << "# the first room\n"
                        << servers[0].url() << "\n\n"
                        << servers[1].url() << "  # next door\n"
                        << servers[2].url() << '\n';
    auto const o = holdfast_command("inspect k --json -f '" + path + '\'');
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST(json_of(o).at("instances").as_array().size() == 3U);
    {
        variable const elsewhere("HOLDFAST_INSTANCES", "127.0.0.1:1");
        BOOST_TEST(holdfast_command("inspect k -f '" + path + '\'').status == 0);
    }
    BOOST_TEST(holdfast_command("inspect k -i a -f b").status == 125);
}

BOOST_AUTO_TEST_CASE(inspect_tells_the_state_by_its_exit_code) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    BOOST_TEST(holdfast_command("inspect k" + on(servers)).status == 0);
    auto held = client.hold("k", {.ttl = 60s, .fencing = true});
    BOOST_REQUIRE(client.sees(servers, "k", true));
    auto o = holdfast_command("inspect k" + on(servers));
    BOOST_TEST(o.status == 1, o.said);
    for (auto const* const word : {"held", "fence", "since", "quorum    2 of 3", "present"})
        BOOST_TEST(contains(o.said, word), o.said);
    o = holdfast_command("inspect k --json" + on(servers));
    auto const all = json_of(o);
    BOOST_TEST(all.at("state").as_string() == "held");
    BOOST_TEST(all.at("ttl_left_ms").as_int64() > 0);
    BOOST_TEST(all.at("fence").to_number<std::uint64_t>() <= held.fence());
    BOOST_TEST(!contains(o.said, redis_cli(servers[0]).get("k").value()), o.said);
    for (server& s : servers) redis_cli(s).set("left", "by a dead host");
    o = holdfast_command("inspect left" + on(servers));
    BOOST_TEST(o.status == 1, o.said);
    BOOST_TEST(contains(o.said, "ttl left  never expires"), o.said);
    redis_cli(servers[0]).command({"RPUSH", "list", "v"});
    redis_cli(servers[1]).command({"RPUSH", "list", "v"});
    BOOST_TEST(holdfast_command("inspect list" + on(servers)).status == 2);
    servers.kill(2);
    o = holdfast_command("inspect other --json" + on(servers));
    BOOST_TEST(o.status == 3, o.said);
    BOOST_TEST(json_of(o).at("state").as_string() == "unknown");
}

BOOST_AUTO_TEST_CASE(an_output_that_cannot_be_written_is_not_free_and_not_well) {
    fleet servers(1);
    for (auto const* const each : {"inspect k", "inspect k --json"}) {
        auto const o = run_program("( " + program("HOLDFAST_COMMAND") + ' ' + each + on(servers) +
                                   " >/dev/full )");
        BOOST_TEST(o.status == 3, o.said);
        BOOST_TEST(contains(o.said, "the output cannot be written: No space left"), o.said);
    }
    for (auto const* const each : {"doctor", "doctor --json"}) {
        auto const o = run_program("( " + program("HOLDFAST_COMMAND") + ' ' + each + on(servers) +
                                   " >/dev/full )");
        BOOST_TEST(o.status == 2, o.said);
        BOOST_TEST(contains(o.said, "the output cannot be written: No space left"), o.said);
    }
}

// A key may hold any byte; the terminal and JSON get text.
BOOST_AUTO_TEST_CASE(a_strange_key_is_printed_safely) {
    fleet servers(1);
    auto const o = holdfast_command("inspect \"$(printf 'a\\033[31m\\377')\" --json" + on(servers));
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST(json_of(o).at("key").as_string() == "a\\x1b[31m\\xff");
}

BOOST_AUTO_TEST_CASE(doctor_is_content_with_good_servers) {
    fleet servers(3, {.arguments = fsync_always});
    auto const o = holdfast_command("doctor --json" + on(servers));
    BOOST_TEST(o.status == 0, o.said);
    auto const all = json_of(o);
    BOOST_TEST(all.at("worst").as_string() == "none", o.said);
    for (auto const& each : all.at("instances").as_array()) {
        auto const& i = each.as_object();
        BOOST_TEST(i.at("state").as_string() == "up");
        BOOST_TEST(i.at("durable").as_bool());
        BOOST_TEST(i.at("round_trip_us").is_int64());
        BOOST_TEST(std::abs(i.at("clock_offset_us").as_int64()) < 1'000'000);
    }
    BOOST_TEST(contains(holdfast_command("doctor" + on(servers)).said, "Nothing is wrong."));
    for (auto& s : servers) BOOST_TEST(!redis_cli(s).exists("holdfast-doctor"));
}

BOOST_AUTO_TEST_CASE(doctor_finds_faults) {
    fleet servers(4);
    servers[3].kill();
    redis_cli(servers[2]).config("maxmemory", "100mb");
    redis_cli(servers[2]).config("maxmemory-policy", "allkeys-lru");
    auto const o = holdfast_command("doctor --json --timeout 500ms" + on(servers));
    BOOST_TEST(o.status == 2, o.said);
    BOOST_TEST(has_finding(o, "fault", "is down"), o.said);
    BOOST_TEST(has_finding(o, "warning", "allkeys-lru"), o.said);
    BOOST_TEST(has_finding(o, "warning", "an even number of instances"), o.said);
    BOOST_TEST(has_finding(o, "fault", "no lock can be acquired"), o.said);
    BOOST_TEST(has_finding(o, "fault", "a lock was tried, and failed"), o.said);
    // Where the pages are that it names.
    auto const text = holdfast_command("doctor --timeout 500ms" + on(servers));
    BOOST_TEST(contains(text.said, "See doc/errors.md"), text.said);
    BOOST_TEST(contains(text.said, "share/doc/holdfast"), text.said);
    // The address alone, without user and password.
    BOOST_TEST(!contains(o.said, servers[0].url()), o.said);
}

BOOST_AUTO_TEST_CASE(doctor_names_missing_rights_by_command) {
    on_each_server([](server_kind const& kind) {
        restricted r(kind);
        r.give({"~*", "+info", "+set", "+eval", "+evalsha", "+get", "+pexpire"});
        auto const o = holdfast_command("doctor --json --instances '" + r.redis.url() + '\'');
        BOOST_TEST(o.status == 2, o.said);
        BOOST_TEST(has_finding(o, "warning", "CLIENT TRACKING"), o.said);
        BOOST_TEST(has_finding(o, "warning", "TIME"), o.said);
        BOOST_TEST(has_finding(o, "fault", "DEL"), o.said);
    });
}

BOOST_AUTO_TEST_CASE(doctor_sees_clocks_that_are_apart) {
    fleet servers({{}, {}, {.shiftable_clock = true}});
    servers[2].shift_clock(3s);
    auto const o = holdfast_command("doctor --json" + on(servers));
    BOOST_TEST(o.status == 1, o.said);
    BOOST_TEST(has_finding(o, "warning", "its clock is 3.0 s ahead"), o.said);
}

// For example because its disk is full. The other instances outvote it.
BOOST_AUTO_TEST_CASE(doctor_finds_an_instance_that_refuses_to_write) {
    fleet servers(3);
    redis_cli(servers[1]).config("min-replicas-to-write", "1");
    auto const o = holdfast_command("doctor --json" + on(servers));
    BOOST_TEST(o.status == 2, o.said);
    BOOST_TEST(has_finding(o, "fault", "a lock was tried there alone, and failed"), o.said);
    BOOST_TEST(has_finding(o, "fault", "NOREPLICAS"), o.said);
    BOOST_TEST(!has_finding(o, "fault", "a lock was tried, and failed"), o.said);
}

// The key's node has answered all questions meanwhile.
BOOST_AUTO_TEST_CASE(doctor_waits_for_each_node_of_a_cluster) {
    cluster_group cluster({.replicas = 0, .node_timeout = 60s});
    auto const owner = cluster.owner_of("holdfast-doctor");
    cluster.node((owner + 1) % 3).freeze();
    auto const o =
        holdfast_command("doctor --json --timeout 1s --instances '" + cluster.url() + '\'');
    cluster.node((owner + 1) % 3).thaw();
    BOOST_TEST(o.status == 2, o.said);
    BOOST_TEST(has_finding(o, "fault", "is down"), o.said);
    BOOST_TEST(!contains(o.said, "is connecting"), o.said);
}

BOOST_AUTO_TEST_CASE(doctor_without_a_lock_writes_nothing) {
    fleet servers(1);
    redis_cli probe(servers[0]);
    auto const writes = [&] { return probe.info("rdb_changes_since_last_save") != "0"; };
    BOOST_TEST(holdfast_command("doctor --no-lock" + on(servers)).status == 0);
    BOOST_TEST(!writes());
    BOOST_TEST(holdfast_command("doctor" + on(servers)).status == 0);
    BOOST_TEST(writes());
}

BOOST_AUTO_TEST_SUITE_END()
