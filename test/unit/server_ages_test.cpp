// Restarts before the first contact, found by the ages of the instances.
#include "protocol/server_ages.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <limits>

namespace protocol = holdfast::protocol;
using namespace std::chrono_literals;
using protocol::duration;
using protocol::instance_set;
using protocol::time_point;

namespace {

constexpr time_point now{1'000'000h};
constexpr duration max_ttl = 60s;
constexpr duration tick{1};

instance_set restarted(protocol::server_ages const& ages, time_point at = now) {
    return ages.restarted(at);
}

} // namespace

BOOST_AUTO_TEST_SUITE(server_ages)

BOOST_AUTO_TEST_CASE(a_young_instance_among_older_ones_has_restarted_in_any_order_of_answers) {
    for (bool const young_first : {true, false}) {
        protocol::server_ages ages(max_ttl);
        if (young_first) ages.told(1, now - 5s, now);
        BOOST_TEST(restarted(ages).empty());
        ages.told(0, now - 1h, now);
        ages.told(2, now - max_ttl, now);
        if (!young_first) ages.told(1, now - 5s, now);
        BOOST_TEST((restarted(ages) == instance_set::only(1)));
    }
}

BOOST_AUTO_TEST_CASE(where_all_are_young_or_all_are_old_none_has_restarted) {
    protocol::server_ages young(max_ttl), old(max_ttl), single(max_ttl);
    for (unsigned i = 0; i < 3; ++i) {
        young.told(i, now - i * 20s, now);
        old.told(i, now - max_ttl - i * 1h, now);
    }
    single.told(0, now - 1s, now);
    BOOST_TEST(restarted(young).empty());
    BOOST_TEST(restarted(old).empty());
    BOOST_TEST(restarted(single).empty());
}

BOOST_AUTO_TEST_CASE(a_restart_counts_until_max_ttl_after_the_start) {
    protocol::server_ages ages(max_ttl);
    ages.told(0, now - max_ttl, now);
    ages.told(1, now - 1s, now);
    auto const over = now - 1s + max_ttl;
    BOOST_TEST((restarted(ages, over - tick) == instance_set::only(1)));
    BOOST_TEST(restarted(ages, over).empty());
}

// Else a fresh deployment would lose votes when its instances grow out of their youth one by one.
BOOST_AUTO_TEST_CASE(only_the_age_at_the_first_contact_counts) {
    protocol::server_ages ages(max_ttl);
    ages.told(0, now - 50s, now);
    ages.told(1, now - 10s, now);
    ages.told(0, now - 50s, now + 15s);
    BOOST_TEST(restarted(ages, now + 15s).empty());
}

BOOST_AUTO_TEST_CASE(an_uptime_may_be_a_second_too_great) {
    BOOST_TEST((protocol::latest_start(now, 0) == now));
    BOOST_TEST((protocol::latest_start(now, 60) == now - 59s));
}

BOOST_AUTO_TEST_CASE(a_number_that_cannot_be_an_uptime_tells_no_start) {
    BOOST_TEST(!protocol::latest_start(now, -1).has_value());
    BOOST_TEST(!protocol::latest_start(now, 4'000'000'000).has_value());
    BOOST_TEST(!protocol::latest_start(now, std::numeric_limits<std::int64_t>::max()).has_value());
    BOOST_TEST(!protocol::latest_start(now, std::numeric_limits<std::int64_t>::min()).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
