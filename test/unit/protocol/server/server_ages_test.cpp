// Restarts before the first contact, found by the ages of the instances.
#include "protocol/server/server_ages.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <limits>

namespace protocol = holdfast::protocol;
using namespace std::chrono_literals;
using protocol::duration;
using protocol::time_point;

namespace {

constexpr time_point now{1'000'000h};
constexpr duration max_ttl = 60s;
constexpr duration tick{1};

} // namespace

BOOST_AUTO_TEST_SUITE(server_ages)

BOOST_AUTO_TEST_CASE(one_server_older_than_the_longest_lease_is_enough) {
    for (bool const young_first : {true, false}) {
        protocol::server_ages ages(max_ttl);
        if (young_first) ages.on_age(now - 5s, now);
        BOOST_TEST(!ages.some_old());
        ages.on_age(now - max_ttl, now);
        if (!young_first) ages.on_age(now - 5s, now);
        BOOST_TEST(ages.some_old());
    }
}

BOOST_AUTO_TEST_CASE(where_all_are_young_none_has_restarted) {
    protocol::server_ages young(max_ttl), none(max_ttl);
    for (unsigned i = 0; i < 3; ++i) young.on_age(now - i * 20s, now);
    BOOST_TEST(!young.some_old());
    BOOST_TEST(!none.some_old());
}

BOOST_AUTO_TEST_CASE(a_server_is_young_until_max_ttl_after_its_start) {
    BOOST_TEST(protocol::is_young(now, now, max_ttl));
    BOOST_TEST(protocol::is_young(now, now + max_ttl - tick, max_ttl));
    BOOST_TEST(!protocol::is_young(now, now + max_ttl, max_ttl));
}

BOOST_AUTO_TEST_CASE(a_primary_that_is_named_for_longer_than_it_runs_has_restarted) {
    BOOST_TEST(protocol::restarted_since(now - 1h, now));
    BOOST_TEST(protocol::restarted_since(now - 2s - tick, now));
    BOOST_TEST(!protocol::restarted_since(now - 2s, now)); // a fresh one, told with its error
    BOOST_TEST(!protocol::restarted_since(now, now));
    BOOST_TEST(!protocol::restarted_since(now + 1s, now));
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
