// The command holdfast with --read and --write, and what it shows of readers.
#include "integration/child.hpp"
#include "integration/command_programs.hpp"
#include "integration/foreign_client.hpp"
#include "integration/nothing_left.hpp"
#include "integration/on_terminal.hpp"
#include "integration/program.hpp"
#include "integration/readers_writers.hpp"
#include "integration/test_client.hpp"
#include "support/fleet.hpp"
#include "support/redis_cli.hpp"
#include "support/text.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;

namespace {

/// The key of the readers' turn goes by itself.
constexpr std::chrono::seconds turn_is_over(5);

/// `holdfast run k --read` or `--write`, which says when it runs and ends with the next line of its
/// input.
std::vector<std::string> run_with(fleet const& servers, std::string const& access,
                                  std::string const& label = "web-1") {
    return shell(servers, {access, "--label", label}, "echo in; read x");
}

boost::json::object parsed(std::string const& text) {
    boost::system::error_code ec;
    auto const value = boost::json::parse(text, ec);
    BOOST_REQUIRE_MESSAGE(!ec && value.is_object(), text);
    return value.as_object();
}

/// Inspects until the text is shown: an instance may get a command late.
outcome shown(fleet const& servers, std::string_view text) {
    outcome o;
    BOOST_TEST(wait_until([&] {
                   o = command_on(servers, "inspect k");
                   return contains(o.said, text);
               }),
               o.said);
    return o;
}

} // namespace

BOOST_AUTO_TEST_SUITE(command_readers)

BOOST_AUTO_TEST_CASE(commands_that_read_run_together_and_one_that_writes_alone) {
    fleet servers(3);
    child one("HOLDFAST_COMMAND", run_with(servers, "--read", "web-1"));
    child two("HOLDFAST_COMMAND", run_with(servers, "--read", "web-2"));
    BOOST_TEST(one.line() == "in");
    BOOST_TEST(two.line() == "in");
    auto o = command_on(servers, "run k --write --no-wait --new-servers", "-- echo ran");
    BOOST_TEST(o.status == 124, o.said);
    BOOST_TEST(contains(o.said, "held by readers"), o.said);
    // So is one that knows nothing of readers.
    o = command_on(servers, "run k --no-wait --new-servers", "-- echo ran");
    BOOST_TEST(o.status == 124, o.said);
    child writer("HOLDFAST_COMMAND", run_with(servers, "--write", "web-3"));
    shown(servers, "a writer of web-3");
    one.say("go");
    BOOST_TEST(one.status() == 0);
    two.say("go");
    BOOST_TEST(two.status() == 0);
    BOOST_TEST(writer.line() == "in");
    o = command_on(servers, "run k --read --no-wait --new-servers", "-- echo ran");
    BOOST_TEST(o.status == 124, o.said);
    BOOST_TEST(contains(o.said, "held by web-3"), o.said);
    writer.say("go");
    BOOST_TEST(writer.status() == 0);
    check_nothing_left(servers, turn_is_over);
}

BOOST_AUTO_TEST_CASE(inspect_names_the_readers_and_who_waits) {
    fleet servers(3);
    child one("HOLDFAST_COMMAND", run_with(servers, "--read", "web-1"));
    BOOST_TEST(one.line() == "in");
    child writer("HOLDFAST_COMMAND", run_with(servers, "--write", "web-3"));
    auto const o = shown(servers, "a writer of web-3");
    BOOST_TEST(o.status == 1, o.said);
    for (auto const* const form :
         {"\nstate     held\n", "\nholder    1 reader\n", "\nttl left  [0-9]{2}\\.[0-9] s\n",
          "\nwaiting   a writer of web-3\n", "\nREADER +TOKEN +TTL LEFT\n",
          "\nweb-1 +[0-9a-f]{16} +[0-9]{2}\\.[0-9] s\n", " readers +1 reader +- "})
        BOOST_TEST(std::regex_search(o.said, std::regex(form)), form << " in " << o.said);
    auto const all = parsed(command_on(servers, "inspect k --json").said);
    BOOST_TEST(all.at("state").as_string() == "held");
    BOOST_TEST(all.at("shared").as_bool());
    BOOST_TEST(all.at("reader_count").as_int64() == 1);
    auto const& reader = all.at("readers").as_array().at(0).as_object();
    BOOST_TEST(reader.at("holder").as_string() == "web-1");
    BOOST_TEST(reader.at("ttl_left_ms").as_int64() > 0);
    BOOST_TEST(all.at("writer").as_object().at("holder").as_string() == "web-3");
    // Two of three have granted the read. The other may not have been connected.
    std::vector<boost::json::object> readers_at;
    for (auto const& each : all.at("instances").as_array())
        if (each.at("found").as_string() == "readers") readers_at.push_back(each.as_object());
    BOOST_TEST(readers_at.size() >= 2U);
    for (auto const& each : readers_at) {
        BOOST_TEST(each.at("reader_count").as_int64() == 1);
        BOOST_TEST(each.at("turn").as_string() == "none");
        BOOST_TEST(each.at("turn_left_ms").is_null());
    }
    auto const table = command_on(servers, "list").said;
    BOOST_TEST(std::regex_search(table, std::regex("\nk +held +1 reader +- +[0-9]")), table);
    BOOST_TEST(!contains(table, "{k}"), table);
    one.say("go");
    BOOST_TEST(one.status() == 0);
    writer.say("go");
    BOOST_TEST(writer.status() == 0);
}

BOOST_AUTO_TEST_CASE(watch_tells_how_many_read) {
    fleet servers(3);
    child c("HOLDFAST_COMMAND", {"watch", "k", "--instances", servers.url_list()});
    BOOST_TEST(contains(c.line(), " free holder=- "));
    child one("HOLDFAST_COMMAND", run_with(servers, "--read"));
    BOOST_TEST(one.line() == "in");
    auto line = c.line();
    while (!line.empty() && !contains(line, " held ")) line = c.line();
    BOOST_TEST(contains(line, " held holder=1_reader token=- fence=- answers="), line);
    child writer("HOLDFAST_COMMAND", run_with(servers, "--write", "web-3"));
    while (!line.empty() && !contains(line, "writer=")) line = c.line();
    BOOST_TEST(line.ends_with(" writer=web-3"), line);
    one.say("go");
    writer.say("go");
    BOOST_TEST(one.status() == 0);
    BOOST_TEST(writer.status() == 0);
    c.send_signal(SIGTERM);
    BOOST_TEST(c.status() == 0);
}

BOOST_AUTO_TEST_CASE(a_person_who_waits_sees_the_readers) {
    fleet servers(3);
    child one("HOLDFAST_COMMAND", run_with(servers, "--read"));
    BOOST_TEST(one.line() == "in");
    on_terminal t({"run", "k", "--write", "--new-servers", "--instances", servers.url_list(), "--",
                   "sh", "-c", "echo ran"});
    BOOST_TEST(t.shows("waiting for \"k\": held by 1 reader, "), t.shown());
    BOOST_TEST(t.shows(" left unless they extend it"), t.shown());
    one.say("go");
    BOOST_TEST(t.status() == 0);
    BOOST_TEST(one.status() == 0);
}

BOOST_AUTO_TEST_CASE(a_token_of_a_reader_is_one_of_several) {
    fleet servers(3);
    auto const first = token_of(servers, "k --read --ttl 40s --label one");
    auto const second = token_of(servers, "k --read --ttl 40s --label two --fence");
    auto o = command_on(servers, "extend k --ttl 50s", first);
    BOOST_TEST(o.status == 2, o.said);
    BOOST_TEST(contains(o.said, "for the token of a reader, give --read"), o.said);
    o = command_on(servers, "extend k --read --ttl 50s", first);
    BOOST_TEST(o.status == 0, o.said);
    o = command_on(servers, "release k", first);
    BOOST_TEST(o.status == 2, o.said);
    o = command_on(servers, "release k --read", first);
    BOOST_TEST(o.status == 0, o.said);
    shown(servers, "holder    1 reader");
    o = command_on(servers, "adopt k --read --fence-env",
                   second + "-- sh -c 'test \"$HOLDFAST_FENCE\" -gt 0 && echo $HOLDFAST_KEY'");
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST(o.said == "k\n");
    BOOST_TEST(is_free(servers));
    o = command_on(servers, "extend k --read", second);
    BOOST_TEST(o.status == 1, o.said);
    check_nothing_left(servers, turn_is_over);
}

// As a program with several readers hands one of them over.
BOOST_AUTO_TEST_CASE(a_token_of_a_shared_reader_frees_nothing) {
    fleet servers(3);
    test_client client(servers);
    auto handed = reads_everywhere(client, servers), stays = reads(client);
    auto const token = handed.token();
    BOOST_TEST(token.shared);
    handed.detach();
    auto const given = "--token '" + token.value + " shared' ";
    check_refused(servers,
                  {{"release k --read " + given, "other readers share the one of the token"},
                   {"adopt k --write " + given, "the token is that of a shared reader"}});
    auto const o = command_on(servers, "adopt k --read", given + "-- echo ran");
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST(o.said == "ran\n");
    BOOST_TEST(!client.extend(stays));
    for (server& each : servers) BOOST_TEST(readers_at(each) == 1);
    BOOST_TEST(client.releases(stays));
}

BOOST_AUTO_TEST_CASE(a_token_of_a_writer_is_that_of_any_lock) {
    fleet servers(3);
    auto const token = token_of(servers, "k --write --ttl 40s");
    auto o = command_on(servers, "extend k --write --ttl 50s", token);
    BOOST_TEST(o.status == 0, o.said);
    o = command_on(servers, "extend k --ttl 50s", token);
    BOOST_TEST(o.status == 0, o.said);
    o = command_on(servers, "adopt k --write", token + "-- echo ran");
    BOOST_TEST(o.said == "ran\n");
    BOOST_TEST(is_free(servers));
    auto const another = token_of(servers, "k --write");
    o = command_on(servers, "release k --write", another);
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST(is_free(servers));
}

BOOST_AUTO_TEST_CASE(force_ends_all_readers) {
    fleet servers(3);
    auto const token = token_of(servers, "k --read --ttl 40s");
    auto const o = command_on(servers, "release k --force --yes");
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST(contains(o.said, "outcome=released state=held holder=\"1 reader\""), o.said);
    BOOST_TEST(is_free(servers));
    BOOST_TEST(command_on(servers, "extend k --read", token).status == 1);
}

BOOST_AUTO_TEST_CASE(wrong_use_says_why) {
    fleet servers(1);
    check_refused(
        servers,
        {
            {"run a b --read", "--read, --write and --permits are for one key"},
            {"run a b --write", "--read, --write and --permits are for one key"},
            {"run a --read --write", "excludes"},
            {"run a --read --at-most-every 1h", "not for --read"},
            {"acquire a b --write", "--read, --write and --permits are for one key"},
            {"extend a b --read --token t", "--read, --write and --permits are for one key"},
            {"adopt a b --read --token t", "--read, --write and --permits are for one key"},
            {"release a b --read --token t", "--read, --write and --permits are for one key"},
            {"release a --read --force", "without --read, --write or --permits"},
            {"lead a --read", "lead has no option --read"},
        });
}

BOOST_AUTO_TEST_SUITE_END()
