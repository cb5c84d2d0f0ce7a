// The pauses before new connections.
#include "protocol/server/reconnect.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>

using namespace holdfast::protocol;
using namespace std::chrono_literals;

namespace {

constexpr duration longest = 100ms;
constexpr duration tick{1};

/// Random bits that give the longest pause of the interval (0, limit].
constexpr std::uint64_t most(duration limit) {
    return static_cast<std::uint64_t>(limit.count()) - 1;
}

/// True if the next pause is from (0, limit]. Asking counts as a failure.
bool is_up_to(reconnect_policy& p, duration limit) {
    auto longer = p;
    // The next random value gives the shortest pause again.
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

BOOST_AUTO_TEST_CASE(a_person_gets_a_second_and_then_twice_as_long_each_time) {
    reconnect_policy p(longest);
    p.ended(0ns, fault::setup);
    for (auto const pause : {1s, 2s, 4s, 8s, 16s, 30s, 30s}) {
        auto shorter = p;
        BOOST_TEST((p.next(0) == pause));
        // Jitter makes the pause up to a quarter shorter.
        auto const quarter = static_cast<std::uint64_t>(duration(pause).count() / 4);
        BOOST_TEST((shorter.next(quarter) == pause - duration(pause) / 4));
        p.ended(0ns, fault::setup);
    }
    for (auto n = 0; n < 100; ++n) p.next(0);
    BOOST_TEST((p.next(0) == 30s));
}

BOOST_AUTO_TEST_CASE(in_ten_seconds_a_person_is_waited_for_with_five_connections_at_most) {
    for (auto const f : {fault::setup, fault::unclear}) {
        for (std::uint64_t seed = 0; seed < 1'000; ++seed) {
            reconnect_policy p(longest);
            duration now{0};
            auto connections = 0;
            for (auto random = seed; now <= 10s; random = random * 6364136223846793005U + 1) {
                ++connections;
                p.ended(0ns, f);
                now += p.next(random);
            }
            BOOST_TEST(connections <= 5);
        }
    }
}

BOOST_AUTO_TEST_CASE(pauses_are_those_of_the_last_fault) {
    reconnect_policy p(longest);
    for (auto n = 0; n < 5; ++n) {
        p.ended(0ns);
        p.next(0);
    }
    p.ended(0ns, fault::setup);
    BOOST_TEST((p.next(0) == 1s));
    p.ended(0ns, fault::setup);
    BOOST_TEST((p.next(0) == 2s));
    p.ended(0ns, fault::broken);
    BOOST_TEST(is_up_to(p, 20ms));
    p.ended(0ns, fault::setup);
    BOOST_TEST((p.next(0) == 1s));
}

BOOST_AUTO_TEST_CASE(a_changed_setup_is_tried_at_once_and_counts_anew) {
    reconnect_policy p(longest);
    BOOST_TEST(!p.setup_changed()); // there was no fault of the setup
    for (auto n = 0; n < 4; ++n) {
        p.ended(0ns, fault::setup);
        p.next(0);
    }
    BOOST_TEST(p.setup_changed());
    p.ended(0ns, fault::setup);
    BOOST_TEST((p.next(0) == 1s));
    p.ended(0ns, fault::busy);
    BOOST_TEST(!p.setup_changed());
}

BOOST_AUTO_TEST_CASE(a_busy_instance_is_left_alone_for_five_seconds_at_most) {
    reconnect_policy p(longest);
    for (auto const pause : {20ms, 40ms, 80ms, 160ms, 320ms, 640ms, 1280ms, 2560ms, 5000ms}) {
        p.ended(0ns, fault::busy);
        BOOST_TEST(is_up_to(p, pause));
    }
    // The options may allow longer pauses.
    reconnect_policy patient(60s);
    for (auto n = 0; n < 20; ++n) {
        patient.ended(0ns, fault::busy);
        patient.next(0);
    }
    BOOST_TEST(is_up_to(patient, 60s));
}

BOOST_AUTO_TEST_CASE(a_failure_that_may_be_no_mistake_is_tried_again_every_five_seconds) {
    reconnect_policy p(longest);
    for (auto const pause : {1s, 2s, 4s, 5s, 5s}) {
        p.ended(0ns, fault::unclear);
        BOOST_TEST((p.next(0) == pause));
    }
}

// A frozen server, or one that restarts behind a proxy, comes back as soon as any other.
BOOST_AUTO_TEST_CASE(a_setup_with_which_it_was_up_is_right) {
    reconnect_policy p(longest);
    p.ended(tick);
    BOOST_TEST(is_up_to(p, 20ms));
    p.ended(0ns, fault::unclear);
    BOOST_TEST(is_up_to(p, 40ms));
    p.ended(0ns, fault::setup); // the certificate may expire, for example
    BOOST_TEST((p.next(0) == 1s));
}

BOOST_AUTO_TEST_CASE(a_setup_that_is_unclear_may_be_fixed_too) {
    reconnect_policy p(longest);
    for (auto n = 0; n < 4; ++n) {
        p.ended(0ns, fault::unclear);
        p.next(0);
    }
    BOOST_TEST(p.setup_changed());
    p.ended(0ns, fault::unclear);
    BOOST_TEST((p.next(0) == 1s));
}

BOOST_AUTO_TEST_CASE(a_handshake_may_take_less_than_the_connection) {
    BOOST_TEST((handshake_limit(1s, 1s) == 750ms));
    BOOST_TEST((handshake_limit(1s, 800ms) == 750ms));
    BOOST_TEST((handshake_limit(1s, 300ms) == 300ms));
    BOOST_TEST((handshake_limit(1s, 0s) == tick));
    BOOST_TEST((handshake_limit(1s, -1s) == tick));
    BOOST_TEST((handshake_limit(1ms, 1ms) == 750us));
}

BOOST_AUTO_TEST_SUITE_END()
