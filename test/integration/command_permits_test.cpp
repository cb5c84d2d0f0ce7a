// What the command holdfast shows of a semaphore, and how it ends one.
#include "integration/child.hpp"
#include "integration/command_programs.hpp"
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

BOOST_AUTO_TEST_SUITE_END()
