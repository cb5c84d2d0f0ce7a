// The command holdfast list, as a process.
#include "integration/command_programs.hpp"
#include "integration/program.hpp"
#include "integration/test_client.hpp"
#include "support/fleet.hpp"
#include "support/text.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <string>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(command_list)

BOOST_AUTO_TEST_CASE(held_locks_are_shown_with_their_holders) {
    fleet servers(3);
    auto options = patient();
    options.holder_label = "web-7";
    test_client holder(servers, options);
    BOOST_REQUIRE(holder.all_up());
    auto const none = holdfast_command("list" + on(servers));
    BOOST_TEST(none.status == 0, none.said);
    BOOST_TEST(none.said == "KEY  STATE  HOLDER  TOKEN  TTL LEFT\n");
    std::vector<lease> leases;
    for (auto i = 0; i < 40; ++i) leases.push_back(holder.hold("seat:" + std::to_string(i)));
    auto room = holder.hold("room:1");
    BOOST_REQUIRE(holder.sees(servers, "room:1", true));
    redis_cli(servers[1]).set("seat:left-over", "x");
    auto const o = holdfast_command("list seat:" + on(servers));
    BOOST_TEST(o.status == 0, o.said);
    for (auto i = 0; i < 40; ++i)
        BOOST_TEST(contains(o.said, "seat:" + std::to_string(i) + ' '), o.said);
    BOOST_TEST(contains(o.said, " held "), o.said);
    BOOST_TEST(contains(o.said, "web-7"), o.said);
    BOOST_TEST(contains(o.said, " s\n"), o.said);
    BOOST_TEST(!contains(o.said, "room:1"), o.said);
    BOOST_TEST(!contains(o.said, "left-over"), o.said);
    auto const everything = holdfast_command("list --all" + on(servers));
    BOOST_TEST(everything.status == 0, everything.said);
    BOOST_TEST(contains(everything.said, "seat:left-over"), everything.said);
    BOOST_TEST(contains(everything.said, "room:1"), everything.said);
    // With a prefix of all clients, the keys are those behind it.
    auto const behind = holdfast_command("list --prefix seat: 3" + on(servers));
    BOOST_TEST(contains(behind.said, "seat:39 "), behind.said);
    BOOST_TEST(!contains(behind.said, "seat:4 "), behind.said);
    auto const limited = holdfast_command("list seat: --limit 5" + on(servers));
    BOOST_TEST(limited.status == 3, limited.said);
    BOOST_TEST(limited.said.ends_with("the list may lack locks: stopped at 5 keys\n"),
               limited.said);
}

BOOST_AUTO_TEST_CASE(json_has_the_keys_and_how_far_each_instance_was_scanned) {
    fleet servers(3);
    test_client holder(servers);
    BOOST_REQUIRE(holder.all_up());
    auto held = holder.hold("seat:1", {.ttl = 60s, .fencing = true});
    BOOST_REQUIRE(holder.sees(servers, "seat:1", true));
    auto const o = output_of("list --json" + on(servers));
    BOOST_TEST(o.status == 0, o.said);
    auto const all = boost::json::parse(o.said).as_object();
    BOOST_TEST(all.at("complete").as_bool());
    BOOST_TEST(!all.at("limited").as_bool());
    BOOST_REQUIRE(all.at("keys").as_array().size() == 1U);
    auto const& key = all.at("keys").as_array()[0].as_object();
    BOOST_TEST(key.at("key").as_string() == "seat:1");
    BOOST_TEST(key.at("state").as_string() == "held");
    BOOST_TEST(key.at("ttl_left_ms").as_int64() > 0);
    BOOST_TEST(!key.contains("instances"));
    BOOST_TEST(all.at("instances").as_array().size() == 3U);
    BOOST_TEST(holder.releases(held));
}

BOOST_AUTO_TEST_CASE(an_instance_that_is_down_makes_the_list_incomplete) {
    fleet servers(3);
    test_client holder(servers);
    BOOST_REQUIRE(holder.all_up());
    auto held = holder.hold("seat:1");
    BOOST_REQUIRE(holder.sees(servers, "seat:1", true));
    servers[2].kill();
    auto const o = holdfast_command("list" + on(servers));
    BOOST_TEST(o.status == 3, o.said);
    BOOST_TEST(contains(o.said, "seat:1 "), o.said);
    BOOST_TEST(contains(o.said, "the list may lack locks: " + servers[2].shown()), o.said);
    // It is told beside a limit, too.
    redis_cli(servers[0]).set("seat:2", "x");
    auto const both = holdfast_command("list --limit 1" + on(servers));
    BOOST_TEST(both.status == 3, both.said);
    BOOST_TEST(contains(both.said, "locks: stopped at 1 keys; " + servers[2].shown()), both.said);
    BOOST_TEST(holder.releases(held));
}

BOOST_AUTO_TEST_CASE(wrong_usage_ends_125) {
    for (std::string const arguments :
         {"list", "list -i 127.0.0.1:1 --limit 0", "list -i 127.0.0.1:1 --limit 100001",
          "list -i 127.0.0.1:1 --for 0ms", "list a b -i 127.0.0.1:1"})
        BOOST_TEST(holdfast_command(arguments).status == 125, arguments);
}

BOOST_AUTO_TEST_SUITE_END()
