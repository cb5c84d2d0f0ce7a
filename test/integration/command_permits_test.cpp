// The command holdfast with --permits, what it shows of a semaphore, and how it ends one.
#include "integration/child.hpp"
#include "integration/command_programs.hpp"
#include "integration/nothing_left.hpp"
#include "integration/on_terminal.hpp"
#include "integration/program.hpp"
#include "support/fleet.hpp"
#include "support/redis_cli.hpp"
#include "support/text.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/test/unit_test.hpp>

#include <csignal>
#include <cstddef>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;

namespace {

/// Gives a permit of the key k, as the library's scripts do.
void give(fleet& servers, std::string const& slot, std::string const& label) {
    auto const token = label + ':' + std::string(32, 'a');
    for (std::size_t i = 0; i < servers.size(); ++i) {
        redis_cli cli(servers[i]);
        auto const now = std::stoll(cli.command({"TIME"}).elements().at(0).string());
        (void)cli.command({"ZADD", "k", slot, token});
        (void)cli.command({"ZADD", "{k}:until", std::to_string((now + 60) * 1'000), token});
        for (auto const* const name : {"k", "{k}:until"})
            (void)cli.command({"PEXPIRE", name, "90000"});
    }
}

std::string said(fleet const& servers, std::string const& words) {
    return holdfast_command(words + on(servers)).said;
}

/// `holdfast run k --permits 2`, which says its slot when it runs, and ends with the next line of
/// its input.
std::vector<std::string> one_of_two(fleet const& servers, std::string const& label = "web-1") {
    return shell(servers, {"--permits", "2", "--label", label}, "echo $HOLDFAST_SLOT; read x");
}

void check_shown(std::string const& text, char const* form) {
    BOOST_TEST(std::regex_search(text, std::regex(form)), form << " in " << text);
}

} // namespace

BOOST_AUTO_TEST_SUITE(command_permits)

BOOST_AUTO_TEST_CASE(inspect_and_list_name_the_slots_and_their_holders) {
    fleet servers(3);
    give(servers, "3", "web-2");
    give(servers, "0", "web-1");
    auto const o = holdfast_command("inspect k" + on(servers));
    BOOST_TEST(o.status == 1, o.said);
    for (auto const* const form :
         {"\nstate     held\n", "\nholder    2 permits\n", "\nttl left  [0-9]{2}\\.[0-9] s\n",
          "\nSLOT +HOLDER +TOKEN +TTL LEFT\n0 +web-1 +[0-9a-f]{16} +[0-9]{2}\\.[0-9] s\n"
          "3 +web-2 +[0-9a-f]{16} +[0-9]{2}\\.[0-9] s\n",
          " permits +2 permits +- "})
        check_shown(o.said, form);
    auto const all = boost::json::parse(said(servers, "inspect k --json")).as_object();
    BOOST_TEST(all.at("state").as_string() == "held");
    BOOST_TEST(!all.at("shared").as_bool());
    BOOST_TEST(all.at("reader_count").is_null());
    BOOST_TEST(all.at("permit_count").as_int64() == 2);
    auto const& permit = all.at("permits").as_array().at(1).as_object();
    BOOST_TEST(permit.at("slot").as_int64() == 3);
    BOOST_TEST(permit.at("holder").as_string() == "web-2");
    BOOST_TEST(permit.at("ttl_left_ms").as_int64() > 0);
    auto const& first = all.at("instances").as_array().at(0).as_object();
    BOOST_TEST(first.at("found").as_string() == "permits");
    BOOST_TEST(first.at("permit_count").as_int64() == 2);
    BOOST_TEST(first.at("permits").as_array().size() == 2U);
    auto const table = said(servers, "list");
    check_shown(table, "\nk +held +2 permits +- +[0-9]");
    BOOST_TEST(!contains(table, "{k}"), table);
}

BOOST_AUTO_TEST_CASE(watch_tells_how_many_permits_are_taken) {
    fleet servers(3);
    child c("HOLDFAST_COMMAND", {"watch", "k", "--instances", servers.url_list()});
    BOOST_TEST(contains(c.line(), " free holder=- "));
    give(servers, "0", "web-1");
    auto line = c.line();
    while (!line.empty() && !contains(line, " held ")) line = c.line();
    BOOST_TEST(contains(line, " held holder=1_permit token=- "), line);
    give(servers, "1", "web-2");
    while (!line.empty() && !contains(line, "holder=2_permits token=- ")) line = c.line();
    BOOST_TEST(!line.empty());
    c.send_signal(SIGTERM);
    BOOST_TEST(c.status() == 0);
}

BOOST_AUTO_TEST_CASE(a_forced_release_ends_all_permits) {
    fleet servers(3);
    give(servers, "0", "web-1");
    give(servers, "1", "web-2");
    auto const o = holdfast_command("release k --force --yes" + on(servers));
    BOOST_TEST(o.status == 0, o.said);
    for (std::size_t i = 0; i < servers.size(); ++i)
        BOOST_TEST(redis_cli(servers[i]).keys().empty());
}

BOOST_AUTO_TEST_CASE(as_many_commands_run_as_there_are_permits) {
    fleet servers(3);
    child one("HOLDFAST_COMMAND", one_of_two(servers, "web-1"));
    auto const slot = one.line();
    child two("HOLDFAST_COMMAND", one_of_two(servers, "web-2"));
    auto const others = two.line();
    BOOST_TEST(((slot == "0" && others == "1") || (slot == "1" && others == "0")),
               slot << " and " << others);
    auto o = command_on(servers, "run k --permits 2 --no-wait --new-servers", "-- echo ran");
    BOOST_TEST(o.status == 124, o.said);
    BOOST_TEST(contains(o.said, "held by web-"), o.said);
    // To a lock of another kind it is no lock.
    o = command_on(servers, "run k --no-wait --new-servers", "-- echo ran");
    BOOST_TEST(o.status == 123, o.said);
    BOOST_TEST(contains(o.said, "semaphore"), o.said);
    child third("HOLDFAST_COMMAND", one_of_two(servers, "web-3"));
    one.say("go");
    BOOST_TEST(one.status() == 0);
    BOOST_TEST(third.line() == slot);
    // Others may have more permits.
    o = command_on(servers, "run k --permits 3 --no-wait --new-servers",
                   "-- sh -c 'echo $HOLDFAST_SLOT'");
    BOOST_TEST(o.said == "2\n");
    for (child* each : {&two, &third}) {
        each->say("go");
        BOOST_TEST(each->status() == 0);
    }
    check_nothing_left(servers);
}

BOOST_AUTO_TEST_CASE(without_permits_a_command_has_no_slot) {
    fleet servers(3);
    auto const o =
        command_on(servers, "run k --new-servers", "-- sh -c 'echo \"[$HOLDFAST_SLOT]\"'");
    BOOST_TEST(o.said == "[]\n");
}

BOOST_AUTO_TEST_CASE(a_person_who_waits_sees_how_many_permits_are_taken) {
    fleet servers(3);
    child one("HOLDFAST_COMMAND", one_of_two(servers)),
        two("HOLDFAST_COMMAND", one_of_two(servers));
    BOOST_TEST(!one.line().empty());
    BOOST_TEST(!two.line().empty());
    on_terminal t({"run", "k", "--permits", "2", "--new-servers", "--instances", servers.url_list(),
                   "--", "sh", "-c", "echo ran"});
    BOOST_TEST(t.shows("waiting for \"k\": held by 2 permits, "), t.shown());
    BOOST_TEST(t.shows(" left unless they extend it"), t.shown());
    one.say("go");
    BOOST_TEST(t.status() == 0);
    two.say("go");
    BOOST_TEST(one.status() == 0);
    BOOST_TEST(two.status() == 0);
}

BOOST_AUTO_TEST_CASE(a_token_of_a_permit_has_its_slot) {
    fleet servers(3);
    auto const first = token_of(servers, "k --permits 2 --ttl 40s");
    auto const second = token_of(servers, "k --permits 2 --ttl 40s --fence");
    auto o = command_on(servers, "acquire k --permits 2 --no-wait --new-servers --json");
    BOOST_TEST(o.status == 124, o.said);
    o = command_on(servers, "extend k --ttl 50s", first);
    BOOST_TEST(o.status == 125, o.said);
    BOOST_TEST(contains(o.said, "the lock is no semaphore"), o.said);
    o = command_on(servers, "extend k --permits 2 --ttl 50s", first);
    BOOST_TEST(o.status == 0, o.said);
    o = command_on(servers, "release k", first);
    BOOST_TEST(o.status == 2, o.said);
    BOOST_TEST(contains(o.said, "for the token of a permit, give --permits"), o.said);
    o = command_on(servers, "release k --permits 2", first);
    BOOST_TEST(o.status == 0, o.said);
    o = command_on(servers, "extend k --permits 2", first);
    BOOST_TEST(o.status == 2, o.said);
    o = command_on(servers, "adopt k --permits 2 --fence-env",
                   second + "-- sh -c 'test \"$HOLDFAST_FENCE\" -gt 0 && echo $HOLDFAST_SLOT'");
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST((o.said == "0\n" || o.said == "1\n"), o.said);
    BOOST_TEST(is_free(servers));
    o = output_of("acquire k --permits 1 --ttl 40s --new-servers --json" + on(servers));
    BOOST_TEST(boost::json::parse(o.said).as_object().at("slot").as_int64() == 0);
    o = output_of("acquire other --ttl 40s --new-servers --json" + on(servers));
    BOOST_TEST(!boost::json::parse(o.said).as_object().contains("slot"));
}

BOOST_AUTO_TEST_CASE(wrong_use_says_why) {
    fleet servers(1);
    check_refused(servers,
                  {
                      {"run a b --permits 2", "--read, --write and --permits are for one key"},
                      {"run a --permits 0", "Value 0 not in range 1 to 10000"},
                      {"run a --permits 1000000", "Value 1000000 not in range"},
                      {"run a --permits many", "Value many not in range"},
                      {"run a --permits 2 --read", "excludes"},
                      {"run a --permits 2 --write", "excludes"},
                      {"run a --permits 2 --at-most-every 1h", "not for --permits"},
                      {"extend a --permits 2 --token t", "the token has no slot"},
                      {"release a --permits 2 --force", "without --read, --write or --permits"},
                      {"lead a --permits 2", "lead has no option --permits"},
                  });
}

BOOST_AUTO_TEST_SUITE_END()
