// The pauses before new connections.
#include "protocol/reconnect.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>

using namespace holdfast::protocol;
using namespace std::chrono_literals;

namespace {

constexpr duration longest = 100ms;
constexpr duration tick{1};

/// Bits that make the longest pause of an interval up to `limit`.
constexpr std::uint64_t most(duration limit) {
    return static_cast<std::uint64_t>(limit.count()) - 1;
}

/// Whether the next pause is from (0, limit]. Counts as a failure.
bool is_up_to(reconnect_policy& p, duration limit) {
    auto longer = p;
    // One bit more, and it is the shortest again.
    return p.next(most(limit)) == limit && longer.next(most(limit) + 1) == tick;
}

reconnect_policy worn() {
    reconnect_policy p(longest);
    for (auto n = 0; n < 5; ++n) p.next(0);
    BOOST_REQUIRE((p.next(most(longest)) == longest));
    return p;
}

} // namespace

BOOST_AUTO_TEST_SUITE(reconnect)

BOOST_AUTO_TEST_CASE(pauses_double_up_to_the_longest) {
    reconnect_policy p(longest);
    BOOST_TEST(is_up_to(p, 20ms));
    BOOST_TEST(is_up_to(p, 40ms));
    BOOST_TEST(is_up_to(p, 80ms));
    BOOST_TEST(is_up_to(p, 100ms));
    BOOST_TEST(is_up_to(p, 100ms));
}

BOOST_AUTO_TEST_CASE(no_pause_is_longer_than_the_longest_be_it_shorter_than_the_first) {
    for (auto const least : {duration(1ms), duration(tick)}) {
        reconnect_policy p(least);
        BOOST_TEST((p.next(most(least)) == least));
        BOOST_TEST((p.next(most(least)) == least));
    }
}

BOOST_AUTO_TEST_CASE(after_many_failures_the_longest_pause_is_that_of_the_options) {
    reconnect_policy p(60s);
    for (auto n = 0; n < 1000; ++n) p.next(0);
    BOOST_TEST(is_up_to(p, 60s));
}

BOOST_AUTO_TEST_CASE(a_connection_that_was_never_up_shortens_nothing) {
    auto p = worn();
    p.ended(0ns);
    BOOST_TEST(is_up_to(p, longest));
}

BOOST_AUTO_TEST_CASE(only_one_that_was_up_for_the_longest_pause_has_come_to_something) {
    auto p = worn();
    p.ended(longest - tick);
    BOOST_TEST(is_up_to(p, longest));
    p.ended(longest);
    BOOST_TEST(is_up_to(p, 20ms));
    BOOST_TEST(is_up_to(p, 40ms));
}

BOOST_AUTO_TEST_SUITE_END()
