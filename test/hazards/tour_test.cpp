// The program example/tour tells each story to a person.
#include "integration/program.hpp"
#include "support/text.hpp"
#include "tour/rows.hpp"

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast::test;

namespace {

/// The part of the text from this title to the next one.
std::string story_in(std::string const& text, std::size_t row) {
    auto const all = tour::rows();
    auto const begin = text.find(std::string(all[row].title) + "\n=");
    if (begin == text.npos) return {};
    auto const next = row + 1 < all.size() ? std::string(all[row + 1].title) + "\n=" : "";
    return text.substr(begin, next.empty() ? text.npos : text.find(next) - begin);
}

} // namespace

BOOST_AUTO_TEST_SUITE(tour)

BOOST_AUTO_TEST_CASE(every_story_is_told_with_its_commands) {
    // Commands of the older way, and of holdfast.
    using texts = std::vector<std::string>;
    std::vector<texts> const commands{
        {"  A  SETNX seat:12 1  -> 1", "A  crashes before EXPIRE", "B  SETNX seat:12 1  -> 0"},
        {"  A  SET seat:12 1 NX EX 1  -> \"OK\"", "  A  DEL seat:12  -> 1"},
        {"  A  GET seat:12  -> ", "A  is stopped before DEL", "  A  DEL seat:12  -> 1"},
        {"  B  GETSET seat:12 1800003660001  -> \"1800000060001\"", "  B  try_acquire()"},
        {"  A  EVAL \"if redis.call('setnx'", "  A  DEL seat:12  -> 1"},
        {"  B  SET seat:12 ", "starts again without its data"},
        {"  B  SENTINEL GET-MASTER-ADDR-BY-NAME orders  -> ", "  B  SET seat:11 "},
        {"  A  CLUSTER KEYSLOT seat:12  -> 6434", "  B  SET seat:12:2 "},
        {"  A to 2  SET seat:12 ", "  A to 2  EVAL ", "-> no connection"},
    };
    BOOST_REQUIRE(commands.size() == ::tour::rows().size());
    auto const o = run_program(program("HOLDFAST_TOUR"));
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST(!contains(o.said, "against expectation"), o.said);
    for (std::size_t row = 0; row < commands.size(); ++row) {
        BOOST_TEST_CONTEXT(::tour::rows()[row].name) {
            auto const story = story_in(o.said, row);
            BOOST_TEST(contains(story, "The older way"), story);
            BOOST_TEST(contains(story, "=> HAZARD: "), story);
            BOOST_TEST(contains(story, "The same schedule with holdfast"), story);
            BOOST_TEST(contains(story, "=> SAFE: "), story);
            BOOST_TEST(contains(story, "acquire()  -> granted"), story);
            for (auto const& text : commands[row]) BOOST_TEST(contains(story, text), text);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_name_chooses_a_story) {
    auto const o = run_program(program("HOLDFAST_TOUR") + " compare-in-client");
    BOOST_TEST(o.status == 0, o.said);
    BOOST_TEST(contains(o.said, "3. GET, compare, DEL in the client\n"), o.said);
    BOOST_TEST(!contains(o.said, "2. "), o.said);
    BOOST_TEST(!contains(o.said, "4. "), o.said);
}

BOOST_AUTO_TEST_CASE(every_name_is_listed) {
    auto const o = run_program(program("HOLDFAST_TOUR") + " --list");
    BOOST_TEST(o.status == 0, o.said);
    std::string names;
    for (auto const& row : ::tour::rows()) names.append(row.name).append("\n");
    BOOST_TEST(o.said == names);
}

BOOST_AUTO_TEST_CASE(an_unknown_name_is_an_error_that_names_it) {
    auto const o = run_program(program("HOLDFAST_TOUR") + " lock-by-hope");
    BOOST_TEST(o.status == 2, o.said);
    BOOST_TEST(contains(o.said, "lock-by-hope"), o.said);
}

BOOST_AUTO_TEST_CASE(without_a_server_the_tour_says_so) {
    auto const o = run_program("HOLDFAST_SERVERS_DIR= HOLDFAST_REDIS_SERVER= PATH=/nonexistent " +
                               program("HOLDFAST_TOUR"));
    BOOST_TEST(o.status == 1, o.said);
    BOOST_TEST(contains(o.said, "install redis-server"), o.said);
}

BOOST_AUTO_TEST_SUITE_END()
