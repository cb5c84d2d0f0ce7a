// An event loop that stands still: it is told, and so is the lease that it cost.
#include <holdfast/observer.hpp>

#include "integration/test_client.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <optional>
#include <sstream>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

struct stall_log final : observer {
    void on_stall(stall_event const& e) override { stalls.push_back(e); }
    void on_lost(lost_event const& e) override { lost = e; }
    std::vector<stall_event> stalls;
    std::optional<lost_event> lost;
};

client_options observed(stall_log& log) {
    auto o = patient();
    o.observer = &log;
    return o;
}

} // namespace

BOOST_AUTO_TEST_SUITE(stalls)

BOOST_AUTO_TEST_CASE(a_lease_that_expired_says_that_the_loop_stood_still) {
    fleet servers(3);
    stall_log log;
    test_client client(servers, observed(log));
    auto held = client.hold("k", {.ttl = 500ms});
    BOOST_TEST(held.stalled().count() == 0);
    stand_still(800ms);
    BOOST_TEST(!held.held());
    BOOST_TEST(held.ended_by() == lease_end::expired);
    std::optional<lease_end> how;
    held.wait_end([&](error e, lease_end end) {
        BOOST_TEST(!e);
        how = end;
    });
    BOOST_REQUIRE(client.until([&] { return how.has_value(); }));
    BOOST_TEST(*how == lease_end::expired);
    // The extension was due after a third of the ttl, so the stall was shorter than the pause.
    BOOST_TEST((held.stalled() >= 300ms));
    BOOST_REQUIRE(log.lost.has_value());
    BOOST_TEST((log.lost->stalled == held.stalled()));
    BOOST_TEST((client.locks.stats().longest_stall >= held.stalled()));
    std::ostringstream text;
    text << held;
    BOOST_TEST(contains(text.str(), "expired, as the event loop stood still for"), text.str());
}

BOOST_AUTO_TEST_CASE(a_lease_that_expired_without_a_stall_does_not_say_so) {
    fleet servers(3);
    stall_log log;
    test_client client(servers, observed(log));
    auto held = client.hold("k", unwatched(400ms));
    BOOST_REQUIRE(client.until([&] { return log.lost.has_value(); }));
    BOOST_TEST(held.ended_by() == lease_end::expired);
    // A busy machine may stall too.
    if (log.stalls.empty()) BOOST_TEST((log.lost->stalled == 0ns));
}

// The deadline is near the stall, but the lease outlives it.
BOOST_AUTO_TEST_CASE(a_lease_that_was_not_lost_has_no_stall_behind_it) {
    fleet servers(1);
    stall_log log;
    test_client client(servers, observed(log));
    auto held = client.hold("k", {.ttl = renewed_ttl});
    stand_still(renewed_ttl / 3 * 2);
    BOOST_REQUIRE(client.until([&] { return !log.stalls.empty(); }));
    BOOST_TEST(held.ended_by() == lease_end::none);
    BOOST_TEST(held.stalled().count() == 0);
    BOOST_TEST(client.releases(held));
    BOOST_TEST(held.stalled().count() == 0);
}

BOOST_AUTO_TEST_CASE(a_stall_before_a_lease_has_not_ended_it) {
    fleet servers(3);
    stall_log log;
    test_client client(servers, observed(log));
    auto first = client.hold("first", {.ttl = 500ms});
    stand_still(800ms);
    BOOST_REQUIRE(client.until([&] { return !log.stalls.empty(); }));
    auto held = client.hold("k", {.ttl = 500ms, .max_hold = 300ms});
    BOOST_REQUIRE(client.until([&] { return held.ended_by() == lease_end::expired; }));
    BOOST_TEST((held.stalled() == 0ns));
}

BOOST_AUTO_TEST_CASE(a_loop_that_is_blocked_again_and_again_is_told_a_few_times) {
    fleet servers(1);
    stall_log log;
    test_client client(servers, observed(log));
    // The client has work: the extensions. After a second each is due.
    auto held = client.hold("k", {.ttl = renewed_ttl});
    for (int i = 0; i < 4; ++i) {
        stand_still(renewed_ttl / 2);
        BOOST_REQUIRE(client.renews(1));
    }
    BOOST_TEST(held.held());
    BOOST_TEST(!log.stalls.empty());
    BOOST_TEST(log.stalls.size() <= 3U);
    for (auto const& each : log.stalls) BOOST_TEST((each.length >= stall_threshold));
    BOOST_TEST((client.locks.stats().longest_stall >= stall_threshold));
    (void)client.releases(held);
}

BOOST_AUTO_TEST_SUITE_END()
