// The times at which an instance's votes do not count, and the messages about them.
#include "redis/server/vote_guard.hpp"

#include "unit/protocol/protocol_values.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

using namespace holdfast::redis;
using namespace std::chrono_literals;
using holdfast::protocol::duration;
using holdfast::protocol::time_point;
using on_restart = holdfast::restart_policy;

namespace {

using holdfast::test::origin;

time_point const t0{1h};
constexpr duration tick{1};
constexpr auto max_ttl = 60'000ms;

} // namespace

BOOST_AUTO_TEST_SUITE(vote_guard)

BOOST_AUTO_TEST_CASE(at_first_its_votes_count) {
    holdfast::redis::vote_guard g(on_restart::observed, max_ttl);
    BOOST_TEST(!g.quarantined(t0));
    BOOST_TEST(g.reason().empty());
    BOOST_TEST(!g.ends(t0));
    BOOST_TEST(!g.connected(origin(1, false), 5, t0));
    BOOST_TEST(!g.quarantined(t0));
}

BOOST_AUTO_TEST_CASE(a_restart_that_may_have_forgotten_begins_a_quarantine_of_max_ttl) {
    holdfast::redis::vote_guard g(on_restart::observed, max_ttl);
    g.connected(origin(1, false), 5, t0);
    BOOST_TEST(g.connected(origin(2, false), 7, t0));
    BOOST_TEST((g.until() == t0 + max_ttl));
    BOOST_TEST(g.reason() ==
               "up for 7 s, without each write on disk: it may have forgotten locks (on_restart); "
               "its votes do not count for max_ttl, 60000 ms");
    BOOST_TEST(g.quarantined(t0 + max_ttl - tick));
    BOOST_TEST(!g.ends(t0 + max_ttl - tick));
    BOOST_TEST(!g.quarantined(t0 + max_ttl));
    BOOST_TEST(g.ends(t0 + max_ttl));
    BOOST_TEST(g.reason().empty());
    BOOST_TEST(!g.ends(t0 + max_ttl)); // reported once
}

BOOST_AUTO_TEST_CASE(on_restart_says_what_counts_as_one) {
    holdfast::redis::vote_guard off(on_restart::off, max_ttl);
    BOOST_TEST(!off.connected(origin(1, false), 5, t0));
    BOOST_TEST(!off.connected(origin(2, false), 5, t0));
    holdfast::redis::vote_guard strict(on_restart::strict, max_ttl);
    BOOST_TEST(strict.connected(origin(1, false), 5, t0));
    holdfast::redis::vote_guard durable(on_restart::strict, max_ttl);
    BOOST_TEST(!durable.connected(origin(1, true), 5, t0));
    BOOST_TEST(!durable.connected(origin(2, true), 5, t0));
}

BOOST_AUTO_TEST_CASE(a_second_restart_prolongs_the_quarantine) {
    holdfast::redis::vote_guard g(on_restart::observed, max_ttl);
    g.connected(origin(1, false), 5, t0);
    g.connected(origin(2, false), 5, t0);
    BOOST_TEST(g.connected(origin(3, false), 5, t0 + 1s));
    BOOST_TEST(!g.ends(t0 + max_ttl));
    BOOST_TEST(g.quarantined(t0 + max_ttl));
    BOOST_TEST(g.ends(t0 + 1s + max_ttl));
}

BOOST_AUTO_TEST_CASE(a_time_as_a_replica_begins_a_quarantine_however_it_is_noticed) {
    auto const all = {
        +[](holdfast::redis::vote_guard& g) {
            g.is_replica();
            return g.connected(origin(1, true), 5, t0);
        },
        +[](holdfast::redis::vote_guard& g) {
            return g.server_checked({.run = 1, .history = 99, .promoted = true, .durable = true},
                                    true, t0);
        },
        +[](holdfast::redis::vote_guard& g) {
            return g.connected({.run = 1, .history = 99, .durable = true}, 5, t0);
        },
    };
    for (auto const notices : all) {
        holdfast::redis::vote_guard off(on_restart::off, max_ttl);
        off.connected(origin(1, true), 5, t0);
        BOOST_TEST(!notices(off));
        BOOST_TEST(!off.quarantined(t0));
        holdfast::redis::vote_guard g(on_restart::observed, max_ttl);
        g.connected(origin(1, true), 5, t0);
        BOOST_TEST(!g.server_checked(origin(1, true), false, t0));
        BOOST_TEST(notices(g));
        BOOST_TEST((g.until() == t0 + max_ttl));
        BOOST_TEST(g.reason() == "it has been a replica, so its data may have been replaced: it "
                                 "may have forgotten locks "
                                 "(on_restart); its votes do not count for max_ttl, 60000 ms");
    }
}

BOOST_AUTO_TEST_CASE(a_server_that_may_evict_is_quarantined_until_max_ttl_after_that) {
    holdfast::redis::vote_guard off(on_restart::off, max_ttl);
    BOOST_TEST(!off.evicts("allkeys-lru", t0));
    BOOST_TEST(!off.quarantined(t0));
    for (auto const how : {on_restart::observed, on_restart::strict}) {
        holdfast::redis::vote_guard g(how, max_ttl);
        BOOST_TEST(!g.evicts("", t0));
        BOOST_TEST(!g.quarantined(t0));
        for (auto const& policy : {"allkeys-lru", "volatile-ttl"}) {
            BOOST_TEST(g.evicts(policy, t0));
            BOOST_TEST((g.until() == time_point::max()));
            BOOST_TEST(g.reason() ==
                       std::string("maxmemory-policy ") + policy +
                           " may evict locks: set noeviction (on_restart); its votes do not "
                           "count for max_ttl, 60000 ms after that");
        }
        // The quarantine has no end until a check shows another policy.
        BOOST_TEST(g.quarantined(t0 + 1000 * max_ttl));
        BOOST_TEST(!g.ends(t0 + 1000 * max_ttl));
        BOOST_TEST(g.evicts("", t0 + 5s));
        BOOST_TEST((g.until() == t0 + 5s + max_ttl));
        BOOST_TEST(g.reason() ==
                   "it may have evicted locks (on_restart); its votes do not count for max_ttl, "
                   "60000 ms");
        BOOST_TEST(!g.evicts("", t0 + 6s));
        BOOST_TEST((g.until() == t0 + 5s + max_ttl));
        BOOST_TEST(g.ends(t0 + 5s + max_ttl));
    }
}

BOOST_AUTO_TEST_CASE(a_server_that_was_emptied_is_quarantined_unless_the_guard_is_off) {
    holdfast::redis::vote_guard off(on_restart::off, max_ttl);
    off.connected(origin(1, true), 5, t0);
    BOOST_TEST(!off.emptied(t0));
    BOOST_TEST(!off.quarantined(t0));
    for (auto const how : {on_restart::observed, on_restart::strict}) {
        // Writes to disk do not help against a flush.
        holdfast::redis::vote_guard g(how, max_ttl);
        g.connected(origin(1, true), 5, t0);
        BOOST_TEST(g.emptied(t0));
        BOOST_TEST((g.until() == t0 + max_ttl));
        BOOST_TEST(g.reason() ==
                   "all its keys were flushed, or replaced by a full resync: it may have forgotten "
                   "locks (on_restart); its votes do not count for max_ttl, 60000 ms");
        // Each flush begins a new quarantine.
        BOOST_TEST(g.emptied(t0 + 1s));
        BOOST_TEST((g.until() == t0 + 1s + max_ttl));
        BOOST_TEST(!g.connected(origin(1, true), 5, t0 + 2s));
    }
}

BOOST_AUTO_TEST_CASE(a_clock_that_jumps_ahead_begins_a_quarantine_when_that_is_heard) {
    holdfast::redis::vote_guard g(on_restart::off, max_ttl);
    BOOST_TEST(!g.on_time(t0, t0, 100s));
    BOOST_TEST(!g.on_time(t0 + 1s, t0 + 1s, 101s));
    BOOST_TEST(g.on_time(t0 + 2s, t0 + 2s + 1ms, 107s));
    BOOST_TEST((g.until() == t0 + 2s + 1ms + max_ttl));
    BOOST_TEST(
        g.reason() ==
        "its clock has jumped ahead by 4999 ms (detect_clock_jumps); its votes do not count for "
        "max_ttl, 60000 ms");
    // From the new time on, the clock counts as correct.
    BOOST_TEST(!g.on_time(t0 + 3s, t0 + 3s, 108s));
}

BOOST_AUTO_TEST_CASE(a_jump_that_was_none_is_excused) {
    holdfast::redis::vote_guard g(on_restart::observed, max_ttl);
    g.on_time(t0, t0, 100s);
    BOOST_TEST(g.on_time(t0 + 1s, t0 + 1s, 102s));
    BOOST_TEST(g.on_time(t0 + 2s, t0 + 2s, 104s)); // the rest of the jump
    BOOST_TEST(g.quarantined(t0 + 2s));
    g.excuse_jump(t0 + 2s);
    BOOST_TEST(!g.quarantined(t0 + 2s));
    BOOST_TEST(g.ends(t0 + 2s));
    BOOST_TEST(g.reason().empty());
    // The excuse does not end the quarantine of an earlier jump.
    BOOST_TEST(!g.on_time(t0 + 3s, t0 + 3s, 105s));
    BOOST_TEST(g.on_time(t0 + 4s, t0 + 4s, 116s));
    auto const until = g.until();
    BOOST_TEST(!g.on_time(t0 + 5s, t0 + 5s, 117s));
    BOOST_TEST(g.on_time(t0 + 6s, t0 + 6s, 128s));
    g.excuse_jump(t0 + 6s);
    BOOST_TEST((g.until() == until));
    BOOST_TEST(g.reason().starts_with("its clock has jumped"));
    g.connected(origin(1, false), 5, t0 + 7s);
    g.connected(origin(2, false), 5, t0 + 8s);
    BOOST_TEST(g.reason().starts_with("up for 5 s"));
}

BOOST_AUTO_TEST_CASE(a_clock_that_jumps_back_harms_nobody) {
    holdfast::redis::vote_guard g(on_restart::off, max_ttl);
    BOOST_TEST(!g.on_time(t0, t0, 100s));
    BOOST_TEST(!g.on_time(t0 + 1s, t0 + 1s, 50s));
    BOOST_TEST(!g.quarantined(t0 + 1s));
}

BOOST_AUTO_TEST_CASE(a_successor_is_in_quarantine_until_the_given_time_and_for_the_given_reason) {
    holdfast::redis::vote_guard g(on_restart::observed, max_ttl);
    g.connected(origin(1, false), 5, t0);
    auto const until = t0 + max_ttl + 2s;
    g.replaced(t0, until, "a fail-over");
    BOOST_TEST(g.quarantined(until - tick));
    BOOST_TEST(!g.quarantined(until));
    BOOST_TEST(g.reason() == "a fail-over");
    // It is another process, which is no news. But before that nothing was known of it.
    BOOST_TEST(g.connected(origin(2, false), 5, t0 + 10s));
    BOOST_TEST(g.reason() == "a fail-over");
    BOOST_TEST((g.until() == t0 + 10s + max_ttl));
    BOOST_TEST(g.ends(t0 + 10s + max_ttl));
    // From then on it is a server like any other.
    BOOST_TEST(g.connected(origin(3, false), 5, t0 + 200s));
    BOOST_TEST(g.reason().starts_with("up for 5 s"));
}

BOOST_AUTO_TEST_CASE(a_longer_quarantine_keeps_its_reason) {
    holdfast::redis::vote_guard g(on_restart::observed, max_ttl);
    g.connected(origin(1, false), 5, t0);
    g.distrust(max_ttl + 2s, "it was a replica", t0);
    BOOST_TEST(g.connected(origin(2, false), 7, t0 + 1s));
    BOOST_TEST((g.until() == t0 + max_ttl + 2s));
    BOOST_TEST(g.reason() == "it was a replica; its votes do not count for 62000 ms");
    BOOST_TEST(g.connected(origin(3, false), 7, t0 + 3s));
    BOOST_TEST(g.reason().starts_with("up for 7 s"), g.reason());
}

BOOST_AUTO_TEST_CASE(a_successor_without_a_quarantine_has_none) {
    holdfast::redis::vote_guard g(on_restart::off, max_ttl);
    g.replaced(t0, t0, "a fail-over");
    BOOST_TEST(!g.quarantined(t0));
    BOOST_TEST(g.reason().empty());
    BOOST_TEST(!g.connected(origin(2, false), 5, t0));
}

BOOST_AUTO_TEST_CASE(the_clock_of_a_successor_is_compared_with_that_of_its_predecessor) {
    holdfast::redis::vote_guard g(on_restart::observed, max_ttl);
    g.on_time(t0, t0, 100s);
    g.replaced(t0 + 1s, t0 + 1s + max_ttl, "a fail-over");
    BOOST_TEST(g.on_time(t0 + 2s, t0 + 2s, 107s));
    BOOST_TEST(g.reason().starts_with("its clock is ahead of its predecessor's by 5000 ms"),
               g.reason());
    BOOST_TEST((g.until() == t0 + 2s + max_ttl));
    BOOST_TEST(g.on_time(t0 + 3s, t0 + 3s, 113s));
    BOOST_TEST(g.reason().starts_with("its clock has jumped ahead by"));
}

constexpr std::string_view older = "another server is older, so it has been restarted";

BOOST_AUTO_TEST_CASE(a_young_server_is_in_quarantine_for_the_rest_once_an_older_one_is_known) {
    holdfast::redis::vote_guard g(on_restart::observed, max_ttl);
    BOOST_TEST(!g.connected(origin(1, false), 5, t0));
    BOOST_TEST(g.is_young(t0));
    BOOST_TEST(g.shown_restarted(t0 + 1s, older));
    auto const over = t0 - 5s + 1s + max_ttl;
    BOOST_TEST((g.until() == over));
    BOOST_TEST(g.quarantined(over - tick));
    BOOST_TEST(!g.quarantined(over));
    BOOST_TEST(g.reason() ==
               "up for less than max_ttl, 60000 ms, and another server is older, so it has been "
               "restarted: it may have forgotten locks (on_restart); its votes do not count for "
               "55000 ms");
    BOOST_TEST(!g.shown_restarted(t0 + 2s, older)); // it is known
    BOOST_TEST(g.ends(over));
}

BOOST_AUTO_TEST_CASE(an_older_server_says_nothing_of_one_that_is_old_durable_or_tells_no_uptime) {
    struct {
        on_restart how;
        bool durable;
        std::optional<std::int64_t> uptime;
    } const cases[]{{on_restart::observed, false, 61},
                    {on_restart::observed, true, 5},
                    {on_restart::observed, false, std::nullopt},
                    {on_restart::observed, false, -5},
                    {on_restart::off, false, 5}};
    for (auto const& c : cases) {
        holdfast::redis::vote_guard g(c.how, max_ttl);
        g.connected(origin(1, c.durable), c.uptime, t0);
        BOOST_TEST(!g.is_young(t0));
        BOOST_TEST(!g.shown_restarted(t0, older));
        BOOST_TEST(!g.quarantined(t0));
    }
}

BOOST_AUTO_TEST_CASE(by_uptime_a_young_server_is_in_quarantine_from_the_first_contact) {
    holdfast::redis::vote_guard g(on_restart::by_uptime, max_ttl);
    BOOST_TEST(g.connected(origin(1, false), 5, t0));
    auto const over = t0 - 4s + max_ttl;
    BOOST_TEST((g.until() == over));
    BOOST_TEST(!g.shown_restarted(t0 + 1s, older));
    holdfast::redis::vote_guard old(on_restart::by_uptime, max_ttl);
    BOOST_TEST(!old.connected(origin(1, false), 61, t0));
    holdfast::redis::vote_guard durable(on_restart::by_uptime, max_ttl);
    BOOST_TEST(!durable.connected(origin(1, true), 5, t0));
    holdfast::redis::vote_guard silent(on_restart::by_uptime, max_ttl);
    BOOST_TEST(!silent.connected(origin(1, false), {}, t0));
    // Later restarts count as observed.
    BOOST_TEST(old.connected(origin(2, false), 100, t0 + 1s));
    BOOST_TEST((old.until() == t0 + 1s + max_ttl));
}

BOOST_AUTO_TEST_SUITE_END()
