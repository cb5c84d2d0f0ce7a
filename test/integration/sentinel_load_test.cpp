// Fail-overs while clients work under load. A referee looks for two holders of one lock, and for
// fences that do not grow.
#include "integration/guards.hpp"
#include "integration/load.hpp"
#include "integration/sentinels.hpp"
#include "support/sentinel_group.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

// Longer than any fail-over here, so that a lease of the old primary lasts beyond it.
constexpr auto longest = 8s;
constexpr auto limit = 60s;

/// Three clients work on four keys, two of them with fences. Another client holds a lease on one
/// key of each kind over the fault, and does not renew it.
struct scenario {
    explicit scenario(sentinel_group_options const& o,
                      restart_policy how = restart_policy::observed)
        : group(o)
        , options(alert(longest))
        , holder({address(group.url())}, with(options, how)) {
        for (int i = 0; i < 3; ++i) {
            working.push_back(std::make_unique<load>(
                std::vector<address>{address(group.url())}, with(options, how),
                std::vector<std::string>{"a", "b"}, judge, std::vector<std::string>{"c", "d"}));
        }
        BOOST_REQUIRE(holder.all_up());
        BOOST_REQUIRE(all_go_on(working, 3));
        BOOST_REQUIRE(all_go_on(working, 3, limit, &load::fenced_grants));
    }
    ~scenario() {
        for (auto const& load : working) load->stop();
    }
    static client_options with(client_options o, restart_policy how) {
        o.on_restart = how;
        return o;
    }

    /// The replicas lack the leases.
    void hold_unreplicated() {
        for (std::size_t i = 1; i < group.members(); ++i) group.cut_replication(i);
        hold();
    }
    void hold() {
        plain = holder.hold("a", {.ttl = longest, .watchdog = false});
        judge.begins("a", plain);
        fenced = holder.hold("c", {.ttl = longest, .watchdog = false, .fencing = true});
        judge.begins("c", fenced, true);
    }
    /// The clients have another primary.
    void wait_until_moved() {
        auto const before = group.member(0).address();
        BOOST_TEST(wait_until(
            [&] {
                for (auto const& load : working) {
                    auto const now = load->locks().instances()[0].primary;
                    if (now.empty() || now == before) return false;
                }
                return true;
            },
            limit));
    }
    /// All work on after the leases have ended.
    void check_works_on() {
        BOOST_REQUIRE(holder.until([&] { return !plain.held() && !fenced.held(); }, limit));
        judge.ends("a", plain);
        judge.ends("c", fenced);
        BOOST_TEST(all_go_on(working, 10, limit));
        BOOST_TEST(all_go_on(working, 10, limit, &load::fenced_grants));
        for (auto const& load : working) BOOST_TEST(load->stop());
        BOOST_TEST(judge.overlaps() == 0U);
        BOOST_TEST(judge.regressions() == 0U);
        check_no_refusals(group);
    }
    void check_moves_and_works_on() {
        wait_until_moved();
        check_works_on();
    }

    sentinel_group group;
    client_options options;
    referee judge;
    test_client holder;
    lease plain, fenced;
    loads working;
};

} // namespace

BOOST_AUTO_TEST_SUITE(sentinel_load)

BOOST_AUTO_TEST_CASE(no_lock_has_two_holders_after_a_kill_that_loses_locks) {
    on_failover_kinds([](sentinel_group_options const& o) {
        scenario s(o);
        s.hold_unreplicated();
        s.group.member(0).kill();
        s.check_moves_and_works_on();
    });
}

// It compares and deletes by a command of its own, DELEX.
BOOST_AUTO_TEST_CASE(no_lock_has_two_holders_after_a_kill_of_redis_8_6) {
    auto const kind = find_server("redis-8.6");
    if (!kind) return;
    scenario s(documented(*kind));
    s.hold_unreplicated();
    s.group.member(0).kill();
    s.check_moves_and_works_on();
}

BOOST_AUTO_TEST_CASE(the_same_kill_without_the_guard_shows_two_holders) {
    scenario s(documented(), restart_policy::off);
    s.hold_unreplicated();
    s.group.member(0).kill();
    BOOST_TEST(wait_until([&] { return s.judge.overlaps() > 0; }, limit));
}

BOOST_AUTO_TEST_CASE(no_lock_has_two_holders_while_a_planned_failover_has_two_primaries) {
    on_failover_kinds([](sentinel_group_options const& o) {
        scenario s(o);
        s.hold_unreplicated();
        s.group.begin_failover();
        s.check_moves_and_works_on();
    });
}

BOOST_AUTO_TEST_CASE(no_lock_has_two_holders_when_a_frozen_primary_thaws) {
    on_failover_kinds([](sentinel_group_options const& o) {
        scenario s(o);
        s.hold();
        s.group.member(0).freeze();
        BOOST_TEST(wait_until(
            [&] {
                auto const now = s.working[0]->locks().instances()[0].primary;
                return !now.empty() && now != s.group.member(0).address();
            },
            limit));
        s.group.member(0).thaw();
        s.check_moves_and_works_on();
    });
}

BOOST_AUTO_TEST_CASE(no_lock_has_two_holders_when_the_primary_restarts_empty) {
    scenario s(documented());
    s.hold();
    s.group.restart_empty(0);
    s.check_works_on();
}

// The replica that is promoted lacks locks, and the other one has them. A sentinel comes back and
// still names the old primary.
BOOST_AUTO_TEST_CASE(no_lock_has_two_holders_after_a_kill_during_a_partition) {
    on_failover_kinds([](sentinel_group_options options) {
        options.priorities = {100, 1, 100};
        scenario s(options);
        s.group.cut_replication(1);
        s.group.sentinel(2).freeze();
        s.hold();
        s.group.member(0).kill();
        s.wait_until_moved();
        BOOST_TEST(s.holder.until([&] { return uses(s.holder, s.group.member(1).address()); }));
        BOOST_TEST(!s.group.cli(1).exists("a"));
        s.group.sentinel(2).thaw();
        s.check_works_on();
    });
}

// Keys cross a promotion with the wall time of their expiry. So they expire early there.
BOOST_AUTO_TEST_CASE(no_lock_has_two_holders_when_the_promoted_clock_is_ahead) {
    on_failover_kinds([](sentinel_group_options options) {
        options.shiftable_clocks = true;
        scenario s(options);
        for (std::size_t i = 1; i < s.group.members(); ++i) s.group.member(i).shift_clock(5s);
        s.hold();
        auto primary = s.group.cli(0);
        primary.set("marker", "x");
        BOOST_TEST(primary.command({"WAIT", "2", "10000"}).integer() == 2);
        s.group.member(0).kill();
        s.check_moves_and_works_on();
    });
}

BOOST_AUTO_TEST_SUITE_END()
