// The times at which the client asks for the credentials of an instance again.
#include "protocol/server/credential_schedule.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>

using namespace holdfast::protocol;
using namespace std::chrono_literals;

namespace {

constexpr time_point now{1h};

duration pause(duration lifetime, std::uint64_t random) {
    credential_schedule s;
    s.obtained(now, lifetime, random);
    return s.due() - now;
}

} // namespace

BOOST_AUTO_TEST_SUITE(credential_schedule)

BOOST_AUTO_TEST_CASE(long_lived_ones_are_renewed_three_minutes_and_more_before_their_end) {
    for (duration const lifetime : {duration(15min), duration(1h), duration(24h)}) {
        BOOST_TEST((pause(lifetime, 0) == lifetime - 4min - 30s));
        auto const most = static_cast<std::uint64_t>(duration(90s).count());
        BOOST_TEST((pause(lifetime, most) == lifetime - 6min));
        for (std::uint64_t random = 1; random != 0 && random < ~std::uint64_t{0} / 3; random *= 3) {
            BOOST_TEST((pause(lifetime, random) >= lifetime - 6min));
            BOOST_TEST((pause(lifetime, random) <= lifetime - 4min - 30s));
        }
    }
}

BOOST_AUTO_TEST_CASE(short_lived_ones_leave_a_fifth_of_their_time) {
    BOOST_TEST((pause(60s, 0) == 42s));
    BOOST_TEST((pause(60s, static_cast<std::uint64_t>(duration(6s).count())) == 36s));
    BOOST_TEST((pause(10min, 0) == 7min));
}

BOOST_AUTO_TEST_CASE(the_source_is_not_asked_more_than_once_a_second) {
    for (duration const lifetime : {duration(0), duration(1), duration(1s), duration(-5s)}) {
        BOOST_TEST((pause(lifetime, 0) == 1s));
        BOOST_TEST((pause(lifetime, ~std::uint64_t{0}) == 1s));
    }
}

BOOST_AUTO_TEST_CASE(those_that_last_are_not_asked_for_again) {
    for (duration const lifetime : {duration::max(), duration(24h * 366 * 10)}) {
        basic_credential_schedule<credential_rules> s;
        s.obtained(now, 1min, 0);
        s.obtained(now, lifetime, 0);
        BOOST_TEST((s.due() == time_point::max()));
    }
}

BOOST_AUTO_TEST_CASE(after_a_failure_the_pauses_grow_until_there_are_some) {
    basic_credential_schedule<credential_rules> s;
    BOOST_TEST((s.due() == time_point::max()));
    for (auto const after : {1s, 2s, 4s, 8s, 16s, 30s, 30s}) {
        s.failed(now);
        BOOST_TEST((s.due() == now + after));
    }
    for (auto n = 0; n < 100; ++n) s.failed(now);
    BOOST_TEST((s.due() == now + 30s));
    s.obtained(now, 1h, 0);
    s.failed(now);
    BOOST_TEST((s.due() == now + 1s));
}

BOOST_AUTO_TEST_SUITE_END()
