// `holdfast release`: by token, and by force, which a person confirms.
#include "integration/foreign_client.hpp"
#include "integration/on_terminal.hpp"
#include "integration/program.hpp"
#include "integration/test_client.hpp"
#include "support/fleet.hpp"
#include "support/redis_cli.hpp"
#include "support/text.hpp"

#include <boost/test/unit_test.hpp>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;

namespace {

outcome run_release(std::string const& key, fleet const& servers, std::string const& options,
                    std::string const& input = "</dev/null") {
    return run_program(program("HOLDFAST_COMMAND") + " release " + key + " --instances '" +
                       servers.url_list() + "' --timeout 500ms " + options + ' ' + input);
}

std::vector<std::string> forced(fleet const& servers) {
    return {"release", "k", "--force", "--instances", servers.url_list()};
}

constexpr char const* question = "Type the key to release it: ";

} // namespace

BOOST_AUTO_TEST_SUITE(command_release)

BOOST_AUTO_TEST_CASE(a_token_releases_its_lock_alone) {
    fleet servers(3);
    foreign_client other(servers);
    auto const right = std::string("--token ") + foreign_client::token;
    other.hold("k");
    auto o = run_release("k", servers, "--token another");
    BOOST_TEST(o.status == 2, o.said);
    BOOST_TEST(contains(o.said, "another token"), o.said);
    BOOST_TEST(copies(servers, "k") == 3U);
    o = run_release("k", servers, right);
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST(contains(o.said, "released k"), o.said);
    BOOST_TEST(copies(servers, "k") == 0U);
    o = run_release("k", servers, right);
    BOOST_TEST(o.status == 1, o.said);
    BOOST_TEST(contains(o.said, "was free"), o.said);
    other.hold("k");
    servers.kill(2);
    o = run_release("k", servers, right);
    BOOST_TEST(o.status == 3, o.said);
    BOOST_TEST(contains(o.said, "too few instances"), o.said);
    BOOST_TEST(!contains(o.said, foreign_client::token), o.said);
}

BOOST_AUTO_TEST_CASE(a_token_comes_from_a_file_or_the_input) {
    fleet servers(1);
    foreign_client other(servers);
    auto const path = servers[0].folder() + "/token";
    std::ofstream(path) << foreign_client::token << '\n';
    other.hold("k");
    auto o = run_release("k", servers, "--token-file '" + path + '\'');
    BOOST_TEST(o.status == 0, o.said);
    other.hold("k");
    o = run_release("k", servers, "--token-file -", "<'" + path + '\'');
    BOOST_TEST(o.status == 0, o.said);
    o = run_release("k", servers, "--token-file -");
    BOOST_TEST(o.status == 125, o.said);
    BOOST_TEST(contains(o.said, "the input cannot be read, or has no token"), o.said);
    o = run_release("k", servers, "--token-file /nowhere/at/all");
    BOOST_TEST(o.status == 125, o.said);
    BOOST_TEST(contains(o.said, "/nowhere/at/all"), o.said);
    std::ofstream(path) << "a\nb\n";
    BOOST_TEST(run_release("k", servers, "--token-file '" + path + '\'').status == 125);
}

BOOST_AUTO_TEST_CASE(wrong_usage_releases_nothing) {
    fleet servers(1);
    foreign_client(servers).hold("k");
    for (auto const* const wrong :
         {"", "--token ''", "--token t --force", "--token t --token-file -",
          "--token-file - --force", "--yes", "--token t --yes"}) {
        auto const o = run_release("k", servers, wrong);
        BOOST_TEST(o.status == 125, wrong << ": " << o.said);
    }
    BOOST_TEST(copies(servers, "k") == 1U);
}

BOOST_AUTO_TEST_CASE(force_without_a_terminal_needs_yes) {
    fleet servers(3);
    foreign_client(servers).hold_for_ever("k");
    auto o = run_release("k", servers, "--force");
    BOOST_TEST(o.status == 4, o.said);
    BOOST_TEST(contains(o.said, "no terminal"), o.said);
    BOOST_TEST(copies(servers, "k") == 3U);
    o = run_release("k", servers, "--force --yes");
    BOOST_TEST(o.status == 0, o.said);
    for (auto const* const word :
         {"state     held", "released k", "event=forced_release key=\"k\" outcome=released "})
        BOOST_TEST(contains(o.said, word), o.said);
    BOOST_TEST(!contains(o.said, foreign_client::token), o.said);
    BOOST_TEST(copies(servers, "k") == 0U);
}

BOOST_AUTO_TEST_CASE(force_releases_no_lock_that_is_free_foreign_or_unknown) {
    fleet servers(3);
    BOOST_TEST(run_release("k", servers, "--force --yes").status == 1);
    for (server& s : servers) redis_cli(s).command({"RPUSH", "list", "v"});
    auto o = run_release("list", servers, "--force --yes");
    BOOST_TEST(o.status == 2, o.said);
    BOOST_TEST(contains(o.said, "is no lock"), o.said);
    BOOST_TEST(copies(servers, "list") == 3U);
    servers.kill(2);
    o = run_release("k", servers, "--force --yes");
    BOOST_TEST(o.status == 3, o.said);
    BOOST_TEST(contains(o.said, "outcome=unconfirmed"), o.said);
}

BOOST_AUTO_TEST_CASE(a_person_confirms_with_the_key) {
    fleet servers(1);
    foreign_client(servers).hold_for_ever("k");
    {
        on_terminal t(forced(servers));
        BOOST_REQUIRE(t.shows(question));
        BOOST_TEST(contains(t.shown(), "Make sure that the holder is dead"), t.shown());
        t.type("yes\n");
        BOOST_TEST(t.status() == 4);
        BOOST_TEST(contains(t.shown(), "not confirmed"), t.shown());
        BOOST_TEST(copies(servers, "k") == 1U);
    }
    {
        on_terminal t(forced(servers));
        BOOST_REQUIRE(t.shows(question));
        t.type("\x04"); // the end of the input
        BOOST_TEST(t.status() == 4);
        BOOST_TEST(copies(servers, "k") == 1U);
    }
    on_terminal t(forced(servers));
    BOOST_REQUIRE(t.shows(question));
    t.type("k\n");
    BOOST_TEST(t.status() == 0);
    BOOST_TEST(contains(t.shown(), "released k"), t.shown());
    BOOST_TEST(copies(servers, "k") == 0U);
}

// The person has confirmed another lock than the one that is there now.
BOOST_AUTO_TEST_CASE(a_lock_that_came_after_the_question_is_safe) {
    fleet servers(3);
    foreign_client(servers).hold_for_ever("k");
    on_terminal t(forced(servers));
    BOOST_REQUIRE(t.shows(question));
    for (server& s : servers) redis_cli(s).set("k", "of-the-next");
    t.type("k\n");
    BOOST_TEST(t.status() == 2);
    BOOST_TEST(contains(t.shown(), "outcome=had_gone"), t.shown());
    BOOST_TEST(copies(servers, "k") == 3U);
}

BOOST_AUTO_TEST_SUITE_END()
