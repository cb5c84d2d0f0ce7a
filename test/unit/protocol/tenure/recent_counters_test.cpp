#include "protocol/tenure/recent_counters.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>

namespace {

using namespace holdfast::protocol;
using namespace std::chrono_literals;

constexpr std::uint64_t key = 7, other_key = 8;
constexpr std::uint64_t rival_key = key + recent_counters::capacity; ///< wants the same place
constexpr std::uint64_t hint = 17'000'000'000'000;
constexpr time_point start(1h);

struct counters : recent_counters {
    counters()
        : recent_counters(24h) {
        reserve();
    }
    /// A tenure is won with the number that its hint asks for.
    count_plan win(std::uint64_t of, std::uint64_t at_hint, time_point now) {
        auto const plan = next(of, at_hint, now);
        won(of, plan, plan.hint, now);
        return plan;
    }
};

} // namespace

BOOST_AUTO_TEST_SUITE(recent_counters)

BOOST_AUTO_TEST_CASE(the_first_tenure_of_a_key_renews_its_counter) {
    counters c;
    auto const plan = c.win(key, hint, start);
    BOOST_TEST(plan.hint == hint);
    BOOST_TEST((plan.how == counting::renewed));
}

BOOST_AUTO_TEST_CASE(later_ones_renew_it_after_a_quarter_of_its_life) {
    counters c;
    c.win(key, hint, start);
    BOOST_TEST((c.win(key, hint + 1, start + 1s).how == counting::known));
    BOOST_TEST((c.win(key, hint + 2, start + 6h - 1ns).how == counting::known));
    BOOST_TEST((c.win(key, hint + 3, start + 6h).how == counting::renewed));
    BOOST_TEST((c.win(key, hint + 4, start + 6h + 1s).how == counting::known));
}

BOOST_AUTO_TEST_CASE(a_tenure_that_is_not_won_renews_nothing) {
    counters c;
    c.next(key, hint, start);
    BOOST_TEST((c.next(key, hint + 1, start + 1s).how == counting::renewed));
}

BOOST_AUTO_TEST_CASE(the_hint_is_above_the_last_number) {
    counters c;
    c.win(key, hint, start);
    BOOST_TEST(c.win(key, hint, start).hint == hint + 1);
    BOOST_TEST(c.next(key, hint, start).hint == hint + 2);
    BOOST_TEST(c.next(key, hint, start).hint == hint + 2); // nothing was won
    BOOST_TEST(c.next(key, hint + 2, start).hint == hint + 2);
    BOOST_TEST(c.next(key, hint + 9, start).hint == hint + 9);
}

// The clock was ahead for a moment, or is behind that of another client.
BOOST_AUTO_TEST_CASE(a_hint_far_below_the_last_number_is_left_to_a_script) {
    counters c;
    c.win(key, hint + 9, start);
    BOOST_TEST(c.next(key, hint, start).hint == hint + 10);
    BOOST_TEST((c.next(key, hint, start).how == counting::known));
    c.win(key, hint + 11, start);
    auto const plan = c.next(key, hint + 1, start);
    BOOST_TEST(plan.hint == hint + 1);
    BOOST_TEST((plan.how == counting::by_script));
}

BOOST_AUTO_TEST_CASE(while_others_have_the_key_most_tries_write_nothing) {
    counters c;
    for (auto round = 0; round < 3; ++round) {
        BOOST_TEST((c.next(key, hint, start).how == counting::renewed));
        c.refused(key);
        for (auto n = 0U; n < counters::by_script; ++n)
            BOOST_TEST((c.next(key, hint, start).how == counting::by_script));
    }
}

// The ttl was not renewed at the instance that has come back since.
BOOST_AUTO_TEST_CASE(a_try_that_began_before_an_instance_came_back_renews_nothing) {
    for (auto const how : {counting::known, counting::renewed, counting::by_script}) {
        counters c;
        c.forget(start + 1s);
        c.won(key, {hint, how}, hint, start);
        BOOST_TEST((c.next(key, hint + 1, start + 2s).how == counting::renewed));
        c.forget(start + 3s);
        c.won(key, {hint, how}, hint, start + 3s);
        BOOST_TEST((c.next(key, hint + 1, start + 4s).how == counting::renewed));
    }
    // Also if the clock began a short time ago.
    counters young;
    young.won(key, {hint, counting::known}, hint, time_point(1s));
    BOOST_TEST((young.next(key, hint + 1, time_point(2s)).how == counting::renewed));
}

BOOST_AUTO_TEST_CASE(after_numbers_above_the_hint_a_script_counts_for_a_while) {
    counters c;
    c.win(key, hint, start);
    auto const behind = c.next(key, hint + 1, start);
    c.won(key, behind, hint + 50, start);
    for (auto n = 0U; n < counters::by_script; ++n) {
        auto const plan = c.win(key, hint + 51 + n, start);
        BOOST_TEST((plan.how == counting::by_script));
    }
    BOOST_TEST((c.win(key, hint + 100, start).how == counting::known));
}

BOOST_AUTO_TEST_CASE(a_script_that_counts_above_its_hint_is_no_reason_for_more_scripts) {
    counters c;
    c.win(key, hint, start);
    auto plan = c.next(key, hint + 1, start);
    c.won(key, plan, hint + 50, start);
    for (auto n = 0U; n < counters::by_script; ++n) {
        plan = c.next(key, hint + 60, start);
        c.won(key, plan, plan.hint + 1, start);
    }
    BOOST_TEST((c.next(key, hint + 61, start).how == counting::known));
}

BOOST_AUTO_TEST_CASE(a_clock_that_has_no_number_leaves_the_count_to_a_script) {
    counters c;
    BOOST_TEST((c.next(key, 0, start).how == counting::by_script));
}

BOOST_AUTO_TEST_CASE(no_hint_is_above_the_greatest_number) {
    counters c;
    c.win(key, fence_limit - 2, start);
    BOOST_TEST(c.win(key, fence_limit - 2, start).hint == fence_limit - 1);
    auto const plan = c.next(key, fence_limit - 2, start);
    BOOST_TEST(plan.hint == fence_limit - 2);
    BOOST_TEST((plan.how == counting::by_script));
}

BOOST_AUTO_TEST_CASE(another_key_takes_the_place) {
    counters c;
    c.win(key, hint, start);
    BOOST_TEST((c.next(other_key, hint, start).how == counting::renewed));
    auto const plan = c.win(rival_key, hint, start);
    BOOST_TEST(plan.hint == hint);
    BOOST_TEST((plan.how == counting::renewed));
    BOOST_TEST((c.next(key, hint, start).how == counting::renewed));
    BOOST_TEST((c.next(rival_key, hint, start).how == counting::known));
}

BOOST_AUTO_TEST_CASE(an_instance_that_may_have_missed_a_renewal_ends_all) {
    counters c;
    c.win(key, hint, start);
    c.forget(start);
    auto const plan = c.next(key, hint, start);
    BOOST_TEST(plan.hint == hint);
    BOOST_TEST((plan.how == counting::renewed));
}

BOOST_AUTO_TEST_SUITE_END()
