// The pause before the next try. The tests pass the random bits, so the results are exact.
#include "protocol/backoff.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <set>

using namespace holdfast::protocol;
using namespace std::chrono_literals;

namespace {

constexpr auto most = std::numeric_limits<std::uint64_t>::max();

/// The longest pause of an attempt, found by the largest remainder of each possible limit.
duration longest(duration base, duration cap, unsigned attempt) {
    duration found{0};
    // The limit is base * 2^k for some k, or the cap. Its largest remainder is limit - 1.
    for (auto limit = base; limit < cap; limit *= 2) {
        found = std::max(
            found, full_jitter(base, cap, attempt, static_cast<std::uint64_t>(limit.count()) - 1));
    }
    return std::max(found,
                    full_jitter(base, cap, attempt, static_cast<std::uint64_t>(cap.count()) - 1));
}

} // namespace

BOOST_AUTO_TEST_SUITE(backoff)

BOOST_AUTO_TEST_CASE(the_interval_doubles_from_one_attempt_to_the_next_up_to_the_cap) {
    BOOST_TEST((longest(2ms, 50ms, 0) == 2ms));
    BOOST_TEST((longest(2ms, 50ms, 1) == 4ms));
    BOOST_TEST((longest(2ms, 50ms, 2) == 8ms));
    BOOST_TEST((longest(2ms, 50ms, 3) == 16ms));
    BOOST_TEST((longest(2ms, 50ms, 4) == 32ms));
    BOOST_TEST((longest(2ms, 50ms, 5) == 50ms));
    BOOST_TEST((longest(2ms, 50ms, 6) == 50ms));
}

BOOST_AUTO_TEST_CASE(a_pause_is_never_zero_and_never_beyond_the_cap) {
    for (unsigned attempt : {0U, 1U, 5U, 31U, 32U, 63U, 64U, 1'000U, ~0U}) {
        for (std::uint64_t const random :
             {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{49'999'999},
              std::uint64_t{50'000'000}, most - 1, most}) {
            auto const pause = full_jitter(2ms, 50ms, attempt, random);
            BOOST_TEST((pause >= 1ns));
            BOOST_TEST((pause <= 50ms));
        }
    }
}

BOOST_AUTO_TEST_CASE(the_first_pause_is_capped_too) {
    BOOST_TEST((longest(2ms, 1ms, 0) == 1ms));
    BOOST_TEST((full_jitter(20ms, 1ms, 0, most) <= 1ms));
}

BOOST_AUTO_TEST_CASE(the_whole_interval_is_random) {
    // Exactly one remainder gives each nanosecond of the interval.
    std::set<duration> seen;
    for (std::uint64_t random = 0; random < 800; ++random)
        seen.insert(full_jitter(100ns, 1us, 3, random));
    BOOST_TEST(seen.size() == 800U);
    BOOST_TEST((*seen.begin() == 1ns));
    BOOST_TEST((*seen.rbegin() == 800ns));
}

BOOST_AUTO_TEST_CASE(the_same_bits_give_the_same_pause) {
    BOOST_TEST((full_jitter(2ms, 50ms, 3, 12'345) == 12'346ns));
    BOOST_TEST((full_jitter(2ms, 50ms, 3, 16'000'000 + 12'345) == 12'346ns));
}

BOOST_AUTO_TEST_CASE(an_interval_of_nothing_still_lets_time_pass) {
    BOOST_TEST((full_jitter(0ns, 0ns, 0, most) == 1ns));
}

BOOST_AUTO_TEST_CASE(a_cap_of_a_minute_does_not_overflow) {
    BOOST_TEST((longest(20ms, 60s, 1'000) == 60s));
}

BOOST_AUTO_TEST_CASE(refused_releases_are_tried_again_less_and_less_often) {
    BOOST_TEST((refused_release_pause(0) == std::chrono::milliseconds(10)));
    BOOST_TEST((refused_release_pause(3) == std::chrono::milliseconds(80)));
    for (auto const n : {7U, 8U, 1'000'000U}) {
        BOOST_TEST((refused_release_pause(n) == std::chrono::seconds(1)));
    }
}

BOOST_AUTO_TEST_SUITE_END()
