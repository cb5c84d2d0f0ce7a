// An instance whose clock jumps ahead has let locks expire too early. A client that sees the jump
// quarantines the instance; without the guard a lock has two holders.
#include "integration/guards.hpp"
#include "integration/wires.hpp"
#include "support/proxy.hpp"

#include <boost/algorithm/string/join.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

// For this client, all servers jump together.
void stand_still(fleet& servers, std::chrono::milliseconds by) {
    for (server& one : servers) one.shift_clock(by);
}

} // namespace

BOOST_AUTO_TEST_SUITE(clock_jumps)

//
// The clocks of instances
//

BOOST_AUTO_TEST_CASE(a_server_whose_clock_jumps_ahead_is_quarantined) {
    constexpr auto longest = 3s;
    fleet servers(2, {.shiftable_clock = true});
    party p(servers, guarded(restart_policy::observed, longest, brisk()));
    BOOST_REQUIRE(p.all_up());
    auto const before = lease_clock::now();
    servers[0].shift_clock(10s);
    servers[1].shift_clock(120s); // the server's uptime too
    std::vector<lease_clock::time_point> over(2);
    BOOST_REQUIRE(p.until([&] {
        for (std::size_t k = 0; k < 2; ++k) {
            if (!is_quarantined(p, k) || over[k] != lease_clock::time_point{}) continue;
            check_quarantined(p, k, jumped);
            over[k] = p.status(k).quarantined_until;
            BOOST_TEST((over[k] >= before + longest));
            BOOST_TEST((over[k] <= lease_clock::now() + longest));
            auto const [e, none] = p.acquire("k", unwatched(longest));
            BOOST_TEST((e == errc::quarantined), e.what());
            BOOST_TEST(contains(e.what(), jumped), e.what());
        }
        return over[0] != lease_clock::time_point{} && over[1] != lease_clock::time_point{};
    }));
    BOOST_TEST(p.until([&] { return all_trusted(p); }));
    BOOST_TEST((lease_clock::now() >= std::max(over[0], over[1])));
    auto l = p.hold("k", unwatched(longest));
    BOOST_TEST(p.releases(l));
}

BOOST_AUTO_TEST_CASE(a_jump_in_quarantine_makes_it_longer) {
    server one({.shiftable_clock = true});
    party p({one.address()}, guarded(restart_policy::observed, 60s, brisk()));
    BOOST_REQUIRE(p.all_up());
    crash(one, p);
    check_quarantined(p, 0, restarted);
    auto const until = p.status(0).quarantined_until;
    one.shift_clock(10s);
    BOOST_TEST(p.until([&] { return p.status(0).quarantined_until > until; }));
    check_quarantined(p, 0, jumped);
}

// A grant counts only if the clock was checked shortly before, however long the backlog is.
BOOST_AUTO_TEST_CASE(the_time_is_asked_for_under_a_backlog_too) {
    fleet servers(1);
    wires ways(servers);
    auto options = guarded(restart_policy::off, 60s);
    options.instance_timeout = 20s;
    party p(ways.addresses(), options);
    BOOST_REQUIRE(p.all_up());
    BOOST_REQUIRE(p.until([&] { return ways.are_quiet(); }));
    std::mutex mutex;
    std::vector<std::string> seen;
    ways[0].intercept([&](command_line const& words) -> std::optional<std::string> {
        std::lock_guard const lock(mutex);
        seen.push_back(words[0] == "SET" ? words[1] : words[0]);
        return std::nullopt;
    });
    ways[0].hold_requests();
    std::vector<std::unique_ptr<attempt>> all;
    auto const sends = [&](std::string const& key) {
        auto const before = p.locks.stats().pending;
        all.push_back(std::make_unique<attempt>(p, key, unwatched(60s)));
        BOOST_REQUIRE(p.until([&] { return p.locks.stats().pending > before; }));
    };
    for (auto const* const key : {"a", "b", "c", "d"}) sends(key); // more than may be under way
    p.pass(lease_clock::now() + 1100ms);
    sends("last");
    ways[0].resume();
    BOOST_REQUIRE(p.until([&] { return all.back()->done; }));
    std::lock_guard const lock(mutex);
    auto const at = [&](std::string_view what) {
        return std::find(seen.begin(), seen.end(), what);
    };
    BOOST_TEST((at("d") < at("TIME") && at("TIME") < at("last") && at("last") != seen.end()),
               boost::algorithm::join(seen, " "));
}

// The waiter takes the key that has become free, and reads in the same turn that the clock had
// jumped.
BOOST_AUTO_TEST_CASE(a_grant_of_a_quarantined_arbiter_is_released) {
    fleet servers(3, {.shiftable_clock = true});
    for (server& one : servers) redis_cli(one).set("k", "foreign");
    wires ways(servers);
    party p(ways.addresses(), guarded(restart_policy::observed, 60s, brisk()));
    BOOST_REQUIRE(p.all_up());
    attempt w(p, "k", unwatched(60s));
    BOOST_REQUIRE(p.until([&] { return tracking_instances(servers).size() == 1; }));
    auto const arbiter = tracking_instances(servers).front();
    auto& wire = ways[arbiter];
    redis_cli cli(servers[arbiter]);
    wire.hold_requests();
    BOOST_REQUIRE(p.until([&] { return wire.commands_held() > 0; })); // TIME
    BOOST_TEST(cli.del("k"));
    BOOST_REQUIRE(p.until([&] { return wire.commands_held() > 1; })); // SET
    BOOST_TEST(!is_quarantined(p, arbiter));
    servers[arbiter].shift_clock(120s);
    wire.resume();
    BOOST_REQUIRE(p.becomes(arbiter, instance_state::quarantined));
    // It waits elsewhere.
    BOOST_TEST(p.until([&] {
        auto const those = tracking_instances(servers);
        return std::any_of(those.begin(), those.end(), [&](std::size_t i) { return i != arbiter; });
    }));
    BOOST_TEST(p.sees_no_locks(servers[arbiter]));
    BOOST_TEST(!w.done);
    for (server& one : servers) redis_cli(one).del("k");
    BOOST_TEST(p.until([&] { return w.done; }));
    BOOST_TEST(!w.how, w.how.what());
    BOOST_TEST(w.held.held());
    BOOST_TEST(!cli.exists("k"));
    check_quarantined(p, arbiter, jumped);
    BOOST_TEST(p.releases(w.held));
}

// One client sees the jump, so the others could have seen it.
BOOST_AUTO_TEST_CASE(a_jump_is_seen_only_by_clients_that_ask_the_time) {
    server one({.config = "user guest on >pw ~* &* +@all -time\n", .shiftable_clock = true});
    party watcher({one.address()}, guarded(restart_policy::observed, 60s, brisk()));
    party denied({"redis://guest:pw@" + one.address()},
                 guarded(restart_policy::observed, 60s, brisk()));
    auto options = guarded(restart_policy::observed, 60s, brisk());
    options.detect_clock_jumps = false;
    party careless({one.address()}, options);
    for (auto* p : {&watcher, &denied, &careless}) BOOST_REQUIRE(p->all_up());
    watcher.runs_with(denied);
    watcher.runs_with(careless);
    one.shift_clock(120s);
    BOOST_REQUIRE(watcher.until([&] { return is_quarantined(watcher, 0); }));
    // The number of commands for two questions for the time, or tries of them.
    auto const enough = [](party& p) {
        return [&p, n = p.locks.stats().commands + 4] { return p.locks.stats().commands >= n; };
    };
    BOOST_TEST(watcher.until([a = enough(watcher), b = enough(denied),
                              c = enough(careless)] { return a() && b() && c(); },
                             30s));
    for (auto* p : {&denied, &careless}) {
        BOOST_TEST(were_always_trusted(p->locks));
        auto l = p->hold("k", unwatched(60s));
        BOOST_TEST(!p->extend(l));
        BOOST_TEST(p->releases(l));
    }
}

BOOST_AUTO_TEST_CASE(a_clock_that_goes_back_is_no_jump_but_its_return_is) {
    server one({.shiftable_clock = true});
    party p({one.address()}, guarded(restart_policy::observed, 60s, brisk()));
    BOOST_REQUIRE(p.all_up());
    one.shift_clock(-120s);
    BOOST_TEST(asks_the_time(p, 2));
    BOOST_TEST(were_always_trusted(p.locks));
    auto l = p.hold("k", unwatched(60s));
    BOOST_TEST(p.releases(l));
    one.shift_clock(120s);
    BOOST_TEST(p.becomes(0, instance_state::quarantined));
    check_quarantined(p, 0, jumped);
}

BOOST_AUTO_TEST_CASE(a_jump_while_no_client_is_connected_is_seen_afterwards) {
    server one({.arguments = fsync_always, .shiftable_clock = true});
    party p({one.address()}, guarded(restart_policy::observed, 60s, brisk()));
    BOOST_REQUIRE(p.all_up());
    crash(one, p);
    BOOST_TEST(were_always_trusted(p.locks));
    auto const before = connections_of(p);
    one.kill();
    one.shift_clock(120s);
    one.restart();
    BOOST_REQUIRE(is_back(p, before, {0}));
    check_quarantined(p, 0, jumped);
}

// The client asks when it has sent nothing since its last check, and checks again when the answer
// could be overdue.
BOOST_AUTO_TEST_CASE(an_idle_client_sends_less_than_a_command_a_second_to_each_instance) {
    server one;
    party p({one.address()}, brisk());
    BOOST_REQUIRE(p.all_up());
    auto const sent = p.locks.stats().commands;
    BOOST_REQUIRE(p.until([&] { return p.locks.stats().commands > sent; }));
    auto const first = p.locks.stats().commands;
    auto const since = lease_clock::now();
    // Two questions at a time.
    BOOST_REQUIRE(p.until([&] { return p.locks.stats().commands >= first + 4; }));
    auto const took =
        std::chrono::duration_cast<std::chrono::milliseconds>(lease_clock::now() - since);
    BOOST_TEST(took.count() >= 2 * (1'000 + 1'250) - 100, took.count() << " ms");
}

BOOST_AUTO_TEST_CASE(neither_a_frozen_server_nor_a_slow_wire_nor_a_stalled_client_is_a_jump) {
    server one({.shiftable_clock = true});
    {
        party p({one.address()}, hasty());
        BOOST_REQUIRE(p.all_up());
        one.freeze();
        BOOST_TEST(p.becomes(
            0, instance_state::suspect)); // it was asked the time, as there is nothing else
        one.thaw();
        BOOST_TEST(p.all_up());
        one.freeze();
        BOOST_TEST(p.becomes(0, instance_state::down));
        one.thaw();
        BOOST_TEST(p.all_up());
        BOOST_TEST(were_always_trusted(p.locks));
    }
    proxy wire(one);
    party p({wire.address()}, brisk());
    party other({one.address()}, brisk()); // runs while p does not
    BOOST_REQUIRE(p.all_up());
    BOOST_REQUIRE(other.all_up());
    // The question is late.
    wire.hold_requests();
    BOOST_REQUIRE(p.until([&] { return wire.commands_held() > 0; }));
    other.pass(lease_clock::now() + 700ms);
    wire.resume();
    BOOST_TEST(asks_the_time(p, 1));
    // The answer has come, and the client does not read it for longer than an answer may take.
    wire.hold_replies();
    BOOST_REQUIRE(p.until([&] { return wire.replies_held() > 0; }));
    wire.resume();
    other.pass(lease_clock::now() + 1200ms);
    BOOST_TEST(asks_the_time(p, 2));
    BOOST_TEST(were_always_trusted(p.locks));
    BOOST_TEST(were_always_trusted(other.locks));
    // After all that the client still sees a jump.
    one.shift_clock(10s);
    BOOST_TEST(p.becomes(0, instance_state::quarantined));
}

// The check for overdue answers must not be the only one while a command is under way.
BOOST_AUTO_TEST_CASE(a_jump_is_seen_however_long_an_instance_may_take_to_answer) {
    for (auto const how : {restart_policy::off, restart_policy::strict}) {
        server one({.shiftable_clock = true});
        party p({one.address()}, guarded(how, 1s));
        {
            auto const [e, l] = p.try_acquire("k", unwatched(1s)); // sent with the first breath
            BOOST_TEST(static_cast<bool>(e) == (how == restart_policy::strict), e.what());
        }
        BOOST_REQUIRE(p.until([&] { return is_trusted(p, 0); }));
        one.shift_clock(10s);
        BOOST_TEST(p.becomes(0, instance_state::quarantined));
    }
}

BOOST_AUTO_TEST_CASE(without_the_clock_guard_a_majority_that_jumps_makes_a_second_holder) {
    fleet servers(3, {.shiftable_clock = true});
    auto options = guarded(restart_policy::observed, 60s, brisk());
    options.detect_clock_jumps = false;
    party a(servers, options), b(servers, options);
    BOOST_REQUIRE(b.all_up());
    auto first = a.hold("k", unwatched(60s));
    BOOST_REQUIRE(a.sees(servers, "k", true));
    for (std::size_t i = 0; i < 2; ++i) servers[i].shift_clock(120s);
    auto [e, second] = b.try_acquire("k", unwatched(60s));
    BOOST_TEST(!e, e.what());
    BOOST_TEST((second.held() && first.held())); // the violation
}

BOOST_AUTO_TEST_CASE(a_majority_that_jumps_and_is_seen_to_makes_no_second_holder) {
    constexpr auto longest = 4s;
    fleet servers(3, {.shiftable_clock = true});
    auto const options = guarded(restart_policy::observed, longest, brisk());
    party a(servers, options), b(servers, options);
    BOOST_REQUIRE(b.all_up());
    auto first = a.hold("k", unwatched(longest));
    BOOST_REQUIRE(a.sees(servers, "k", true));
    for (std::size_t i = 0; i < 2; ++i) servers[i].shift_clock(120s);
    BOOST_REQUIRE(b.until([&] { return are_quarantined(b, 2); }));
    {
        auto const [e, none] = b.try_acquire("k", unwatched(longest));
        check_report(e, 2, jumped);
    }
    auto const over = std::max(b.status(0).quarantined_until, b.status(1).quarantined_until);
    BOOST_TEST(b.until([&] { return all_trusted(b); }));
    BOOST_TEST((lease_clock::now() >= over));
    auto [e, second] = b.acquire("k", unwatched(longest));
    BOOST_TEST(!e, e.what());
    BOOST_TEST(second.held());
    BOOST_TEST(!first.held());
}

BOOST_AUTO_TEST_CASE(a_lease_outlives_a_minority_whose_clock_jumps) {
    fleet servers(3, {.shiftable_clock = true});
    party p(servers, guarded(restart_policy::observed, 60s, brisk()));
    BOOST_REQUIRE(p.all_up());
    auto l = p.hold("k", unwatched(30s));
    BOOST_REQUIRE(p.sees(servers, "k", true));
    servers[0].shift_clock(120s);
    BOOST_TEST(!redis_cli(servers[0]).exists("k"));
    BOOST_REQUIRE(p.becomes(0, instance_state::quarantined));
    BOOST_TEST(are_quarantined(p, 1));
    BOOST_TEST(!p.extend(l));
    BOOST_TEST(p.sees(servers, "k", true));
    BOOST_TEST(l.held());
    auto other = p.hold("other", unwatched(30s));
    BOOST_TEST(p.locks.stats().acquire_failed == 0U);
    BOOST_TEST(p.releases(l));
    BOOST_TEST(p.releases(other));
    check_nothing_left(p, servers);
}

//
// The client's own clock
//

BOOST_AUTO_TEST_CASE(a_standstill_of_our_clock_moves_deadlines_and_quarantines_nobody) {
    fleet servers(3, {.shiftable_clock = true});
    party p(servers, guarded(restart_policy::observed, 60s, brisk()));
    BOOST_REQUIRE(p.all_up());
    auto l = p.hold("long", unwatched(60s));
    auto gone = p.hold("short", unwatched(10s));
    auto renewed = p.hold("renewed", {.ttl = 40s});
    std::optional<error> told, told_early;
    gone.wait_lost([&](error e) { told = std::move(e); });
    l.wait_lost(40s, [&](error e) { told_early = std::move(e); });
    auto const deadline = l.deadline();
    auto const renewals = p.locks.stats().renewals;
    stand_still(servers, 25s);
    BOOST_REQUIRE(p.until([&] { return l.deadline() != deadline; }));
    BOOST_TEST((l.deadline() <= deadline - 25s));
    BOOST_TEST((l.deadline() > deadline - 27s));
    BOOST_TEST(l.held());
    BOOST_TEST(!gone.held());
    BOOST_TEST(p.until([&] { return told.has_value() && told_early.has_value(); }));
    BOOST_TEST(p.locks.stats().lost == 1U);
    BOOST_TEST(p.until([&] { return p.locks.stats().renewals > renewals; }));
    BOOST_TEST((renewed.remaining() > 30s));
    BOOST_TEST(p.until([&] { return were_always_trusted(p.locks); }));
    auto fresh = p.hold("fresh", unwatched(20s));
    BOOST_TEST(asks_the_time(p, 1));
    BOOST_TEST(fresh.held());
    BOOST_TEST(were_always_trusted(p.locks));
    BOOST_TEST((l.deadline() > deadline - 27s)); // moved once
    BOOST_TEST(p.releases(l));
}

// The jump may be of either clock. So the deadlines move, and the instance is quarantined.
BOOST_AUTO_TEST_CASE(a_jump_of_a_lone_instance_is_taken_both_ways) {
    fleet servers(1, {.shiftable_clock = true});
    party p(servers, guarded(restart_policy::observed, 60s, brisk()));
    BOOST_REQUIRE(p.all_up());
    auto l = p.hold("k", unwatched(60s));
    auto const deadline = l.deadline();
    stand_still(servers, 25s);
    BOOST_REQUIRE(p.becomes(0, instance_state::quarantined));
    check_quarantined(p, 0, jumped);
    BOOST_TEST((l.deadline() <= deadline - 25s));
    BOOST_TEST(l.held());
    BOOST_TEST(!p.extend(l));
}

BOOST_AUTO_TEST_SUITE_END()
