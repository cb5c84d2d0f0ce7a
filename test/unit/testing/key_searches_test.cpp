// The patterns of SCAN in the instance for unit tests.
#include "testing/key_search.hpp"

#include <boost/test/unit_test.hpp>

#include <string>

using holdfast::testing::matches;

BOOST_AUTO_TEST_SUITE(key_searches)

BOOST_AUTO_TEST_CASE(patterns_match_whole_texts) {
    BOOST_TEST(matches("", ""));
    BOOST_TEST(matches("*", ""));
    BOOST_TEST(matches("seat:*", "seat:7"));
    BOOST_TEST(matches("*:*:*", "a:b:c"));
    BOOST_TEST(matches("h?llo", "hello"));
    BOOST_TEST(matches("h[a-e]llo", "hello"));
    BOOST_TEST(matches("h[^a]llo", "hello"));
    BOOST_TEST(matches("\\*\\?\\[\\\\", "*?[\\"));
    BOOST_TEST(!matches("", "k"));
    BOOST_TEST(!matches("seat", "seat:7"));
    BOOST_TEST(!matches("seat:*", "seat"));
    BOOST_TEST(!matches("\\*", "k"));
    BOOST_TEST(!matches("h[^e]llo", "hello"));
    BOOST_TEST(!matches("h?llo", "hllo"));
}

BOOST_AUTO_TEST_CASE(many_stars_take_no_exponential_time) {
    std::string pattern;
    for (auto i = 0; i < 1'000; ++i) pattern += "*a";
    BOOST_TEST(!matches(pattern + "b", std::string(10'000, 'a')));
}

BOOST_AUTO_TEST_SUITE_END()
