// `holdfast watch`: a line for each change of a lock.
#include "integration/child.hpp"
#include "integration/foreign_client.hpp"
#include "integration/program.hpp"
#include "support/fleet.hpp"
#include "support/text.hpp"

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <boost/test/unit_test.hpp>

#include <csignal>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;

namespace {

std::vector<std::string> watch(fleet const& servers, std::vector<std::string> const& options = {}) {
    std::vector<std::string> all{"watch", "k", "--instances", servers.url_list()};
    all.insert(all.end(), options.begin(), options.end());
    return all;
}

outcome run_watch(fleet const& servers, std::string const& options) {
    return run_program(program("HOLDFAST_COMMAND") + " watch k --instances '" + servers.url_list() +
                       "' " + options);
}

/// The next line with this text. The lines before it show the change at some instances only.
std::string line_with(child& c, std::string_view text) {
    for (;;) {
        auto const line = c.line();
        if (line.empty() || contains(line, text)) return line;
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(command_watch)

BOOST_AUTO_TEST_CASE(each_change_is_a_line) {
    for (auto const number : {SIGTERM, SIGINT}) {
        fleet servers(3);
        child c("HOLDFAST_COMMAND", watch(servers));
        auto const first = c.line();
        std::regex const form("20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}"
                              "\\.[0-9]{3}Z free holder=- token=- fence=- answers=3/3");
        BOOST_TEST(std::regex_match(first, form), first);
        foreign_client other(servers);
        other.hold_for_ever("k");
        auto const held = line_with(c, " held ");
        BOOST_TEST(std::regex_search(held, std::regex("holder=- token=[0-9a-f]{16} ")), held);
        BOOST_TEST(!contains(held, foreign_client::token), held);
        other.del("k");
        BOOST_TEST(contains(line_with(c, " free "), "token=-"));
        servers[0].kill();
        BOOST_TEST(contains(line_with(c, " answers=2/3"), " free "));
        servers[1].kill();
        BOOST_TEST(contains(line_with(c, " answers=1/3"), " unknown "));
        c.send_signal(number);
        BOOST_TEST(c.status() == 0);
    }
}

BOOST_AUTO_TEST_CASE(each_line_is_an_object_of_json) {
    fleet servers(1);
    child c("HOLDFAST_COMMAND", watch(servers, {"--json"}));
    auto const parsed = [](std::string const& line) {
        boost::system::error_code ec;
        auto const value = boost::json::parse(line, ec);
        BOOST_REQUIRE_MESSAGE(!ec && value.is_object(), line);
        return value.as_object();
    };
    BOOST_TEST(parsed(c.line()).at("state").as_string() == "free");
    foreign_client(servers).hold("k");
    auto const held = parsed(c.line());
    BOOST_TEST(held.at("state").as_string() == "held");
    BOOST_TEST(held.at("key").as_string() == "k");
    BOOST_TEST(held.at("time").as_string().size() ==
               std::string_view("2026-01-02T03:04:05.678Z").size());
    BOOST_TEST(held.at("instances").as_array().size() == 1U);
}

BOOST_AUTO_TEST_CASE(it_ends_after_a_count_or_a_time) {
    fleet servers(1);
    auto o = run_watch(servers, "--count 1");
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST(o.said.find('\n') == o.said.size() - 1, o.said);
    o = run_watch(servers, "--for 200ms");
    BOOST_TEST(o.status == 0, o.said);
    o = run_watch(servers, "--count 2 --for 200ms");
    BOOST_TEST(o.status == 124, o.said);
    for (auto const* const wrong : {"--count 0", "--count x", "--for 5"})
        BOOST_TEST(run_watch(servers, wrong).status == 125, wrong);
}

// The reader ends while nothing changes.
BOOST_AUTO_TEST_CASE(the_end_of_its_reader_ends_it) {
    fleet servers(1);
    auto const o = run_program("( { " + program("HOLDFAST_COMMAND") + " watch k --instances '" +
                               servers.url_list() + "'; echo ended $? >&2; } | head -n 1 )");
    BOOST_TEST(contains(o.said, " free "), o.said);
    BOOST_TEST(contains(o.said, "ended 0"), o.said);
    BOOST_TEST(!contains(o.said, "holdfast:"), o.said);
}

BOOST_AUTO_TEST_CASE(an_output_that_cannot_be_written_is_told) {
    fleet servers(1);
    auto const o = run_program("( " + program("HOLDFAST_COMMAND") + " watch k --instances '" +
                               servers.url_list() + "' >/dev/full )");
    BOOST_TEST(o.status == 1, o.said);
    BOOST_TEST(contains(o.said, "the output cannot be written: No space left"), o.said);
}

BOOST_AUTO_TEST_SUITE_END()
