// The commands on several keys: all of them or none.
#include "integration/child.hpp"
#include "integration/command_programs.hpp"
#include "integration/foreign_client.hpp"
#include "integration/nothing_left.hpp"
#include "integration/on_terminal.hpp"
#include "integration/program.hpp"
#include "integration/test_client.hpp"
#include "support/fleet.hpp"
#include "support/redis_cli.hpp"
#include "support/text.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;

namespace {

/// `words`: the command, its keys and options. The servers have forgotten nothing.
outcome run_on(fleet const& servers, std::string const& words, std::string const& command) {
    return holdfast_command(words + " --new-servers" + on(servers) + "-- " + command);
}

/// A server that has just learned the scripts may be without the keys: the acquire has ended
/// before.
template <class Has>
bool quorum_of(fleet& servers, Has has) {
    std::size_t all = 0;
    for (server& s : servers) all += has(redis_cli(s)) ? 1 : 0;
    return all > servers.size() / 2;
}

std::vector<std::string> lines_of(std::string const& text) {
    std::vector<std::string> all;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
}

} // namespace

BOOST_AUTO_TEST_SUITE(command_sets)

BOOST_AUTO_TEST_CASE(the_command_runs_under_all_keys) {
    fleet servers(3);
    auto const script = "sh -c 'echo \"[$HOLDFAST_KEY] $HOLDFAST_FENCE\"; "
                        "echo \"$HOLDFAST_KEYS\"; exit 7'";
    auto o = run_on(servers, "run to:2 from:1 --prefix p: --fence-env", script);
    BOOST_TEST(o.status == 7, o.said);
    auto const lines = lines_of(o.said);
    BOOST_REQUIRE_MESSAGE(lines.size() == 3U, o.said);
    BOOST_TEST(lines[0].starts_with("[p:from:1 p:to:2] 1"), o.said);
    BOOST_TEST(lines[1] == "p:from:1");
    BOOST_TEST(lines[2] == "p:to:2");
    // A lock on one key has the variable, too.
    o = run_on(servers, "run k", "sh -c 'echo \"[$HOLDFAST_KEYS]\"'");
    BOOST_TEST(o.said == "[k]\n");
    // One token has both keys.
    child c("HOLDFAST_COMMAND", {"run", "b", "a", "--new-servers", "--instances",
                                 servers.url_list(), "--", "sh", "-c", "echo in; read x"});
    BOOST_TEST(c.line() == "in");
    BOOST_TEST(quorum_of(servers, [](redis_cli cli) {
        auto const token = cli.get("a");
        return token && token == cli.get("b");
    }));
    c.say("go");
    BOOST_TEST(c.status() == 0);
    check_nothing_left(servers);
}

BOOST_AUTO_TEST_CASE(a_refused_run_names_the_key_in_the_way_and_takes_none) {
    fleet servers(3);
    foreign_client(servers).hold("b");
    auto o = run_on(servers, "run a b c --no-wait", "echo ran");
    BOOST_TEST(o.status == 124, o.said);
    BOOST_TEST(contains(o.said, "lock \"a b c\" not acquired: \"b\" held"), o.said);
    BOOST_TEST(!contains(o.said, "ran\n"), o.said);
    for (auto const* const key : {"a", "c"}) BOOST_TEST(copies(servers, key) == 0U);
    o = run_on(servers, "acquire a b --wait 300ms", "");
    BOOST_TEST(o.status == 124, o.said);
    BOOST_TEST(contains(o.said, "\"b\" held"), o.said);
    on_terminal t({"run", "a", "b", "--new-servers", "--instances", servers.url_list(), "--", "sh",
                   "-c", "echo ran"});
    BOOST_TEST(t.shows("waiting for \"b\": held by a client without a label, "), t.shown());
    BOOST_TEST(!contains(t.shown(), "waiting for \"a\""), t.shown());
    foreign_client(servers).del("b");
    BOOST_TEST(t.status() == 0);
    BOOST_TEST(t.shows("ran"), t.shown());
}

BOOST_AUTO_TEST_CASE(the_loss_of_one_key_ends_the_command) {
    fleet servers(3);
    child c("HOLDFAST_COMMAND",
            {"run", "a", "b", "--new-servers", "--instances", servers.url_list(), "--ttl", "2s",
             "--", "sh", "-c", "echo $$; exec tail -f /dev/null"});
    auto const id = static_cast<pid_t>(std::stoi(c.line()));
    delete_everywhere(servers, "b");
    BOOST_TEST(c.status() == 122);
    BOOST_TEST(is_gone(id));
    BOOST_TEST(is_free(servers, "a"));
}

BOOST_AUTO_TEST_CASE(one_token_has_all_keys) {
    fleet servers(3);
    auto const token = token_of(servers, "b a --ttl 50s --label script --fence");
    BOOST_TEST(
        quorum_of(servers, [](redis_cli cli) { return cli.exists("a") && cli.exists("b"); }));
    auto o = holdfast_command("extend a b --ttl 55s" + token + on(servers));
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST(o.said == "extended a b\n");
    for (auto const* const key : {"a", "b"}) {
        BOOST_TEST(quorum_of(
            servers, [&](redis_cli cli) { return cli.pttl(key) > std::chrono::seconds(50); }));
    }
    o = holdfast_command("adopt b a --fence-env" + token + on(servers) +
                         "-- sh -c 'echo $HOLDFAST_KEY $HOLDFAST_FENCE'");
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST(o.said.starts_with("a b 1"), o.said);
    check_nothing_left(servers);
    o = holdfast_command("adopt a b" + token + on(servers) + "-- echo ran");
    BOOST_TEST(o.status == 122, o.said);
    BOOST_TEST(!contains(o.said, "ran\n"), o.said);
}

BOOST_AUTO_TEST_CASE(json_of_acquire_has_each_key) {
    fleet servers(1);
    auto const o = output_of("acquire b a --json --new-servers" + on(servers));
    BOOST_REQUIRE_MESSAGE(o.status == 0, o.said);
    auto const all = boost::json::parse(o.said).as_object();
    BOOST_TEST(all.at("key").as_string() == "a b");
    auto const& keys = all.at("keys").as_array();
    BOOST_REQUIRE(keys.size() == 2U);
    BOOST_TEST((keys[0].as_string() == "a" && keys[1].as_string() == "b"));
}

BOOST_AUTO_TEST_CASE(a_token_releases_every_key) {
    fleet servers(3);
    auto const token = token_of(servers, "b a");
    auto o = holdfast_command("release a b" + token + on(servers));
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST(o.said == "released a\nreleased b\n");
    for (auto const* const key : {"a", "b"}) BOOST_TEST(copies(servers, key) == 0U);
    // What is left is released, and the rest is told.
    auto const again = token_of(servers, "b a");
    delete_everywhere(servers, "a");
    o = holdfast_command("release a b" + again + on(servers));
    BOOST_TEST(o.status == 1, o.said);
    BOOST_TEST(contains(o.said, "released b\n"), o.said);
    BOOST_TEST(contains(o.said, "not released, because free: a\n"), o.said);
    BOOST_TEST(copies(servers, "b") == 0U);
    // The key of another is not touched.
    auto const third = token_of(servers, "b a");
    delete_everywhere(servers, "a");
    foreign_client(servers).hold("a");
    o = holdfast_command("release a b" + third + on(servers));
    BOOST_TEST(o.status == 2, o.said);
    BOOST_TEST(contains(o.said, "not all have this token: a\n"), o.said);
    BOOST_TEST(copies(servers, "a") == 3U);
    BOOST_TEST(copies(servers, "b") == 0U);
    servers.kill(2);
    o = holdfast_command("release a b --timeout 300ms" + third + on(servers));
    BOOST_TEST(o.status == 3, o.said);
}

BOOST_AUTO_TEST_CASE(an_extension_without_one_of_the_keys_is_a_loss) {
    fleet servers(3);
    auto const token = token_of(servers, "b a");
    delete_everywhere(servers, "b");
    auto o = holdfast_command("extend a b" + token + on(servers));
    BOOST_TEST(o.status == 2, o.said);
    BOOST_TEST(contains(o.said, "not extended, because not all have this token: a b\n"), o.said);
    delete_everywhere(servers, "a");
    o = holdfast_command("extend a b" + token + on(servers));
    BOOST_TEST(o.status == 1, o.said);
    BOOST_TEST(contains(o.said, "not extended, because free: a b\n"), o.said);
}

BOOST_AUTO_TEST_CASE(inspect_has_a_line_for_each_key) {
    fleet servers(3);
    auto o = holdfast_command("inspect a b" + on(servers));
    BOOST_TEST(o.status == 0, o.said);
    token_of(servers, "b a --label script");
    foreign_client(servers).hold("d");
    o = holdfast_command("inspect a b c d" + on(servers));
    BOOST_TEST(o.status == 1, o.said);
    auto const lines = lines_of(o.said);
    BOOST_REQUIRE_MESSAGE(lines.size() == 5U, o.said);
    BOOST_TEST(lines[0] == "KEY  STATE  HOLDER  TOKEN             TTL LEFT");
    BOOST_TEST(lines[1].starts_with("a    held   script  "), o.said);
    BOOST_TEST(lines[2].starts_with("b    held   script  "), o.said);
    BOOST_TEST(lines[3].starts_with("c    free   -       - "), o.said);
    BOOST_TEST(lines[4].starts_with("d    held   -       "), o.said);
    // Keys of one lease have one token.
    auto const token = [](std::string const& line) { return line.substr(20, 16); };
    BOOST_TEST(token(lines[1]) == token(lines[2]));
    BOOST_TEST(token(lines[1]) != token(lines[4]));
    o = output_of("inspect a c --json" + on(servers));
    auto const objects = lines_of(o.said);
    BOOST_REQUIRE_MESSAGE(objects.size() == 2U, o.said);
    BOOST_TEST(boost::json::parse(objects[1]).at("state").as_string() == "free");
    // The worst of them decides.
    for (server& s : servers) redis_cli(s).command({"RPUSH", "list", "v"});
    BOOST_TEST(holdfast_command("inspect a list c" + on(servers)).status == 2);
    servers.kill(2);
    BOOST_TEST(holdfast_command("inspect a c --timeout 300ms" + on(servers)).status == 3);
}

BOOST_AUTO_TEST_CASE(watch_has_a_line_for_each_change_of_each_key) {
    fleet servers(1);
    child c("HOLDFAST_COMMAND",
            {"watch", "a", "b", "--count", "4", "--instances", servers.url_list()});
    std::vector<std::string> first{c.line(), c.line()};
    std::ranges::sort(first, {}, [](auto const& line) { return line.substr(line.find(" free")); });
    BOOST_TEST(contains(first[0], " free key=a holder=- "), first[0]);
    BOOST_TEST(contains(first[1], " free key=b holder=- "), first[1]);
    foreign_client other(servers);
    other.hold("b");
    auto line = c.line();
    BOOST_TEST(contains(line, " held key=b holder=- "), line);
    other.hold("a");
    line = c.line();
    BOOST_TEST(contains(line, " held key=a holder=- "), line);
    BOOST_TEST(c.status() == 0);
}

BOOST_AUTO_TEST_CASE(wrong_keys_are_told_and_end_125) {
    std::string many;
    for (int i = 0; i < 65; ++i) many += " k" + std::to_string(i);
    for (auto const& [arguments, told] :
         {std::pair<std::string, std::string>{"run a b a -i 127.0.0.1:1 -- true",
                                              "\"a\" is given twice"},
          {"inspect a a -i 127.0.0.1:1", "\"a\" is given twice"},
          {"run" + many + " -i 127.0.0.1:1 -- true", "more than 64 keys"},
          {"run -i 127.0.0.1:1 -- true", "key is required"},
          {"acquire a '' -i 127.0.0.1:1", "the key is empty"},
          {"run '{a}' '{a}:fence' -i 127.0.0.1:1 -- true", "fence counter"},
          {"run a b --at-most-every 1h -i 127.0.0.1:1 -- true", "--at-most-every is for one key"},
          {"release a b --force -i 127.0.0.1:1", "--force is for one key"},
          {"lead a b -i 127.0.0.1:1 -- true", "the command follows after --: holdfast lead KEY ["},
          {"run a b -i 127.0.0.1:1", "it follows after --: holdfast run KEY ... [OPTIONS] --"}}) {
        auto const o = holdfast_command(arguments);
        BOOST_TEST(o.status == 125, arguments << ": " << o.said);
        BOOST_TEST(contains(o.said, told), arguments << ": " << o.said);
    }
    for (auto const* const each : {"run", "acquire", "inspect", "watch", "release"}) {
        auto const help = holdfast_command(std::string(each) + " --help").said;
        BOOST_TEST(contains(help, std::string("Usage: holdfast ") + each + " KEY ... [OPTIONS]"));
        BOOST_TEST(!contains(help, "key2"), help);
    }
}

// Names of commands, lists and options that are none.
BOOST_AUTO_TEST_CASE(a_key_may_look_like_another_word) {
    fleet servers(1);
    auto const o = holdfast_command("inspect a watch '[a,b]' '{}' 'b c' --json" + on(servers));
    BOOST_TEST(o.status == 0, o.said);
    auto const objects = lines_of(o.said);
    BOOST_REQUIRE_MESSAGE(objects.size() == 5U, o.said);
    for (auto const& [i, key] :
         {std::pair<std::size_t, char const*>{1, "watch"}, {2, "[a,b]"}, {3, "{}"}, {4, "b c"}})
        BOOST_TEST(boost::json::parse(objects[i]).at("key").as_string() == key);
    std::string many;
    for (int i = 0; i < 64; ++i) many += " k" + std::to_string(i);
    auto const all = holdfast_command("run" + many + " --new-servers" + on(servers) +
                                      "-- sh -c 'echo \"$HOLDFAST_KEYS\"'");
    BOOST_TEST(lines_of(all.said).size() == 64U, all.said);
    check_nothing_left(servers);
}

BOOST_AUTO_TEST_SUITE_END()
