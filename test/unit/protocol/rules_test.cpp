// The arithmetic of Redlock, against tables made by hand.
#include "protocol/rules.hpp"

#include "unit/protocol/protocol_values.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <utility>

using namespace holdfast::protocol;
using namespace std::chrono_literals;

namespace {

using holdfast::test::at;

} // namespace

BOOST_AUTO_TEST_SUITE(rules)

BOOST_AUTO_TEST_CASE(a_quorum_is_a_majority_of_the_configured) {
    constexpr std::array<std::pair<unsigned, unsigned>, 8> table{
        {{1, 1}, {2, 2}, {3, 2}, {4, 3}, {5, 3}, {6, 4}, {7, 4}, {32, 17}}};
    for (auto const& [n, quorum] : table) {
        for (unsigned reachable = 0; reachable <= n; ++reachable) {
            BOOST_TEST(redlock_rules::quorum(n, reachable) == quorum);
        }
    }
}

BOOST_AUTO_TEST_CASE(two_quorums_always_share_an_instance) {
    for (unsigned n = 1; n <= instance_set::capacity; ++n) {
        BOOST_TEST(2 * redlock_rules::quorum(n, n) > n);
        BOOST_TEST(redlock_rules::quorum(n, n) <= n);
    }
}

BOOST_AUTO_TEST_CASE(the_drift_allowance_is_a_hundredth_and_two_milliseconds) {
    BOOST_TEST((redlock_rules::drift(10ms) == 2'100us));
    BOOST_TEST((redlock_rules::drift(100ms) == 3ms));
    BOOST_TEST((redlock_rules::drift(10s) == 102ms));
    BOOST_TEST((redlock_rules::drift(24h) == 864s + 2ms));
}

BOOST_AUTO_TEST_CASE(validity_counts_from_the_send) {
    for (auto const took : {0ms, 1ms, 500ms, 9'000ms, 60'000ms}) {
        BOOST_TEST((redlock_rules::deadline(at(0s), at(took), 10s) == at(10s - 102ms)));
    }
    BOOST_TEST((redlock_rules::deadline(at(5s), at(6s), 100ms) == at(5s + 97ms)));
}

BOOST_AUTO_TEST_CASE(a_quorum_at_the_deadline_is_too_late) {
    BOOST_TEST(redlock_rules::in_time(at(0s) - 1ns, at(0s)));
    BOOST_TEST(!redlock_rules::in_time(at(0s), at(0s)));
    BOOST_TEST(!redlock_rules::in_time(at(1ns), at(0s)));
}

BOOST_AUTO_TEST_CASE(a_release_is_owed_wherever_a_key_may_be) {
    auto const maybe = instance_set::first(5) - instance_set::only(1);
    for (unsigned granted = 0; granted <= 5; ++granted) {
        auto const where = redlock_rules::to_release(maybe, maybe & instance_set::first(granted));
        BOOST_TEST((where == maybe));
    }
}

BOOST_AUTO_TEST_CASE(a_lost_key_is_given_back_only_after_the_extension_has_won) {
    BOOST_TEST(redlock_rules::may_heal(true));
    BOOST_TEST(!redlock_rules::may_heal(false));
}

BOOST_AUTO_TEST_CASE(the_loss_is_told_some_milliseconds_before_the_deadline) {
    BOOST_TEST((loss_margin(10ms) == 500us));
    BOOST_TEST((loss_margin(60ms) == 3ms));
    BOOST_TEST((loss_margin(100ms) == 5ms));
    BOOST_TEST((loss_margin(1s) == 50ms));
    BOOST_TEST((loss_margin(10s) == 50ms));
    BOOST_TEST((loss_margin(24h) == 50ms));
}

BOOST_AUTO_TEST_CASE(the_watchdog_wakes_after_a_third_of_the_ttl) {
    BOOST_TEST((renewal_period(10ms) == duration(10ms) / 3));
    BOOST_TEST((renewal_period(9s) == 3s));
}

BOOST_AUTO_TEST_CASE(a_spread_period_is_at_most_a_fifth_shorter_and_never_longer) {
    for (auto const ttl : {duration(10ms), duration(9s), duration(24h)}) {
        auto const period = renewal_period(ttl);
        auto const most = static_cast<std::uint64_t>(period.count() / 5);
        BOOST_TEST((spread_renewal_period(ttl, 0) == period));
        BOOST_TEST((spread_renewal_period(ttl, most) == period - duration(period.count() / 5)));
        for (auto const random : {std::uint64_t{1}, most / 2, most + 1, ~std::uint64_t{0}}) {
            BOOST_TEST((spread_renewal_period(ttl, random) <= period));
            BOOST_TEST((spread_renewal_period(ttl, random) >= period - period / 5));
        }
    }
}

BOOST_AUTO_TEST_CASE(a_renewal_comes_at_the_latest_one_period_on) {
    for (auto const ttl : {duration(10ms), duration(9s), duration(24h)}) {
        auto const slot = ttl / 1024;
        for (duration sent = 0s; sent < ttl; sent += ttl / 97) {
            auto const due = at(sent) + ttl / 3;
            auto const renewed = renewal_time(at(sent), ttl / 3, ttl);
            BOOST_TEST((renewed <= due));
            BOOST_TEST((renewed > due - slot));
            BOOST_TEST((renewed > at(sent)));
        }
    }
}

BOOST_AUTO_TEST_CASE(renewals_due_within_a_thousandth_of_the_ttl_come_together) {
    constexpr duration ttl = 1024s;
    // A slot has one second: from 1300 s to just before 1301 s.
    auto const together = renewal_time(time_point(1'000s), 300s, ttl);
    BOOST_TEST((together == time_point(1'300s)));
    BOOST_TEST((renewal_time(time_point(1'000s + 1ns), 300s, ttl) == together));
    BOOST_TEST((renewal_time(time_point(1'001s - 1ns), 300s, ttl) == together));
    BOOST_TEST((renewal_time(time_point(1'001s), 300s, ttl) == time_point(1'301s)));
    BOOST_TEST((renewal_time(time_point(1'000s - 1ns), 300s, ttl) == time_point(1'299s)));
}

BOOST_AUTO_TEST_CASE(a_failed_renewal_is_tried_again_after_a_tenth_of_the_ttl) {
    BOOST_TEST((renewal_retry(10ms) == 1ms));
    BOOST_TEST((renewal_retry(5ms) == 1ms));
    BOOST_TEST((renewal_retry(3s) == 300ms));
    BOOST_TEST((renewal_retry(10s) == 1s));
    BOOST_TEST((renewal_retry(24h) == 1s));
}

BOOST_AUTO_TEST_CASE(several_renewals_fit_before_the_loss_is_told) {
    for (duration ttl = 10ms; ttl <= 24h; ttl = ttl * 3 / 2) {
        auto const told = redlock_rules::deadline(at(0s), at(0s), ttl) - loss_margin(ttl);
        BOOST_TEST((told > at(renewal_period(ttl) + 3 * renewal_retry(ttl))));
    }
}

BOOST_AUTO_TEST_SUITE_END()
