// Instances that restart may have forgotten locks. With the guard on, a client waits until those
// locks have expired, so no lock has two holders. With the guard off, a lock has two holders.
#include "integration/guards.hpp"
#include "support/wait.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

/// Checks that waiters at the first instance move on. `forget` makes the instance forget, until b
/// notices.
void check_moves_on(std::function<void(fleet&, test_client& b)> const& forget) {
    fleet servers(3);
    auto const options = guarded(restart_policy::observed, 60s);
    test_client a(servers, options), b(servers, options);
    BOOST_REQUIRE(b.all_up());
    std::vector<lease> held;
    std::vector<std::unique_ptr<attempt>> waiting;
    // Adds keys until the first instance is the arbiter of one.
    for (int i = 0; i < 100; ++i) {
        auto const key = "key:" + std::to_string(i);
        held.push_back(a.hold(key, unwatched(60s)));
        BOOST_REQUIRE(a.sees(servers, key, true));
        waiting.push_back(std::make_unique<attempt>(b, key, unwatched(60s)));
        BOOST_REQUIRE(b.until([&] { return tracked_keys(servers) >= waiting.size(); }));
        auto const those = tracking_instances(servers);
        if (i >= 3 && std::count(those.begin(), those.end(), 0U) > 0) break;
    }
    // Each key is tracked at its arbiter and, a moment later, at one more instance. After that, no
    // command is under way that could arrive after the flush.
    BOOST_REQUIRE(b.until([&] { return tracked_keys(servers) >= 2 * waiting.size(); }));
    forget(servers, b);
    BOOST_TEST(is_quarantined(b, 0));
    // The waiters wait at the other instances.
    BOOST_REQUIRE(b.until([&] { return tracked_keys(servers) >= waiting.size(); }));
    auto const there = tracking_instances(servers);
    BOOST_TEST(std::count(there.begin(), there.end(), 0U) == 0);
    for (auto const& w : waiting) BOOST_TEST(!w->done);
    a.runs_with(b);
    for (std::size_t i = 0; i < held.size(); ++i) {
        BOOST_TEST(held[i].held());
        BOOST_TEST(a.releases(held[i]));
        BOOST_TEST(b.until([&] { return waiting[i]->done; }));
        BOOST_TEST(!waiting[i]->how, waiting[i]->how.what());
        BOOST_TEST(waiting[i]->held.held());
    }
    BOOST_TEST(is_quarantined(b, 0));
    for (auto const& w : waiting) BOOST_TEST(b.releases(w->held));
    check_nothing_left(b, servers);
}

} // namespace

BOOST_AUTO_TEST_SUITE(restarts)

//
// Restarts: one holder of a lock
//

BOOST_AUTO_TEST_CASE(with_the_guard_off_a_majority_that_forgot_makes_a_second_holder) {
    with_fleets_of({1, 3, 5}, [](fleet& servers) {
        auto const options = guarded(restart_policy::off, 60s);
        test_client a(servers, options), b(servers, options);
        BOOST_REQUIRE(b.all_up());
        auto first = a.hold("k", unwatched(60s));
        BOOST_REQUIRE(a.sees(servers, "k", true));
        crash(servers, the_first(servers.quorum()), {&b});
        BOOST_TEST(all_trusted(b));
        // An acquire that waits is needed. A single try ends if two instances have refused and the
        // others, just started, are late.
        auto [e, second] = b.acquire("k", unwatched(60s));
        BOOST_TEST(!e, e.what());
        BOOST_TEST((second.held() && first.held())); // two holders
    });
}

BOOST_AUTO_TEST_CASE(a_majority_that_forgot_makes_no_second_holder) {
    constexpr auto longest = 2s;
    with_fleets_of({1, 5}, [&](fleet& servers) {
        auto const n = servers.size();
        auto const options = guarded(restart_policy::observed, longest);
        test_client a(servers, options), b(servers, options);
        BOOST_REQUIRE(b.all_up());
        auto first = a.hold("k", unwatched(longest));
        BOOST_REQUIRE(a.sees(servers, "k", true));
        auto const before = lease_clock::now();
        crash(servers, the_first(servers.quorum()), {&b});
        BOOST_TEST(are_quarantined(b, servers.quorum()));
        lease_clock::time_point over{};
        for (std::size_t i = 0; i < servers.quorum(); ++i) {
            check_quarantined(b, i, restarted);
            auto const until = b.status(i).quarantined_until;
            BOOST_TEST((until >= before + longest));
            BOOST_TEST((until <= lease_clock::now() + longest));
            over = std::max(over, until);
        }
        for (auto i = servers.quorum(); i < n; ++i) BOOST_TEST(is_trusted(b, i));
        {
            auto const [e, none] = b.try_acquire("k", unwatched(longest));
            check_report(e, servers.quorum(), restarted);
            BOOST_TEST(!none);
        }
        {
            // An acquire that begins in the quarantine does not wait for its end.
            auto const [e, none] = b.acquire("k", unwatched(longest));
            check_report(e, servers.quorum(), restarted);
            BOOST_TEST(is_quarantined(b, 0));
        }
        BOOST_TEST(b.until([&] { return all_trusted(b); }));
        BOOST_TEST((lease_clock::now() >= over));
        auto [e, second] = b.acquire("k", unwatched(longest));
        BOOST_TEST(!e, e.what());
        BOOST_TEST(second.held());
        BOOST_TEST(!first.held());
        BOOST_TEST(b.releases(second));
    });
}

BOOST_AUTO_TEST_CASE(a_majority_that_has_all_on_disk_is_trusted_and_refuses) {
    for (auto const how : {restart_policy::off, restart_policy::observed, restart_policy::strict}) {
        fleet servers(3, {.arguments = fsync_always});
        auto const options = guarded(how, 60s);
        test_client a(servers, options), b(servers, options);
        BOOST_REQUIRE(b.all_up());
        auto first = a.hold("k", unwatched(60s));
        BOOST_REQUIRE(a.sees(servers, "k", true));
        crash(servers, the_first(3), {&a, &b});
        BOOST_TEST(were_always_trusted(a.locks));
        BOOST_TEST(were_always_trusted(b.locks));
        auto const [e, none] = b.try_acquire("k", unwatched(60s));
        BOOST_TEST((e == errc::contended), e.what());
        BOOST_TEST(first.held());
        BOOST_TEST(!a.extend(first));
        BOOST_TEST(a.releases(first));
        auto second = b.hold("k", unwatched(60s));
        BOOST_TEST(b.releases(second));
    }
}

BOOST_AUTO_TEST_CASE(a_server_durable_only_before_or_only_since_the_restart_has_forgotten) {
    for (auto const& [before, after] :
         {std::pair(no_log, fsync_always), std::pair(fsync_everysec, fsync_always),
          std::pair(fsync_always, fsync_everysec), std::pair(fsync_always, no_log)}) {
        server instance({.arguments = before});
        test_client client({instance.url()}, guarded(restart_policy::observed, 60s));
        BOOST_REQUIRE(client.all_up());
        auto const connections = connections_of(client);
        instance.kill();
        instance.set_arguments(after);
        instance.restart();
        BOOST_REQUIRE(is_back(client, connections, {0}));
        check_quarantined(client, 0, restarted);
    }
}

BOOST_AUTO_TEST_CASE(a_lost_connection_is_no_restart) {
    fleet servers(3);
    test_client client(servers, guarded(restart_policy::observed, 60s));
    BOOST_REQUIRE(client.all_up());
    auto const before = connections_of(client);
    for (server& instance : servers) {
        BOOST_TEST(redis_cli(instance).command({"CLIENT", "KILL", "TYPE", "normal"}).integer() > 0);
    }
    BOOST_REQUIRE(is_back(client, before, the_first(3)));
    BOOST_TEST(were_always_trusted(client.locks));
}

BOOST_AUTO_TEST_CASE(with_the_guard_off_every_restarted_instance_is_trusted) {
    fleet servers(3);
    test_client client(servers, guarded(restart_policy::off, 60s));
    BOOST_REQUIRE(client.all_up());
    crash(servers, the_first(3), {&client});
    BOOST_TEST(were_always_trusted(client.locks));
    auto l = client.hold("k", unwatched(60s));
    BOOST_TEST(client.releases(l));
}

// The uptime of a server follows its wall clock, so the guard cannot rely on it.
BOOST_AUTO_TEST_CASE(neither_uptime_nor_a_new_connection_ends_a_quarantine) {
    constexpr auto longest = 3s;
    server instance({.shiftable_clock = true});
    auto options = guarded(restart_policy::observed, longest);
    options.detect_clock_jumps = false;
    test_client client({instance.url()}, options);
    BOOST_REQUIRE(client.all_up());
    crash(instance, client);
    auto const over = client.status(0).quarantined_until;
    instance.shift_clock(120s);
    redis_cli cli(instance);
    BOOST_TEST(wait_until([&] { return std::stol(cli.info("uptime_in_seconds")) >= 100; }));
    auto const connections = connections_of(client);
    BOOST_TEST(cli.command({"CLIENT", "KILL", "TYPE", "normal"}).integer() > 0);
    BOOST_REQUIRE(is_back(client, connections, {0}));
    auto const s = client.status(0);
    BOOST_TEST((s.state == instance_state::quarantined));
    BOOST_TEST((s.quarantined_until == over));
    BOOST_TEST(client.until([&] { return is_trusted(client, 0); }));
    BOOST_TEST((lease_clock::now() >= over));
}

//
// Restarts before the first contact
//

BOOST_AUTO_TEST_CASE(a_client_that_starts_after_the_restart_of_some_makes_no_second_holder) {
    for (std::size_t const n : {3U, 5U}) {
        fleet servers(n, {.shiftable_clock = true});
        for (server& s : servers) s.shift_clock(120s);
        auto const options = guarded(restart_policy::observed, 60s);
        test_client a(servers, options);
        BOOST_REQUIRE(a.all_up());
        auto first = a.hold("k", unwatched(60s));
        BOOST_REQUIRE(a.sees(servers, "k", true));
        crash(servers, the_first(servers.quorum()), {&a});
        for (int i = 0; i < 5; ++i) {
            test_client b(servers, options);
            auto const [e, none] = b.try_acquire("k", unwatched(60s));
            BOOST_TEST((e == errc::quarantined || e == errc::contended), e.what());
            BOOST_TEST(!none);
            BOOST_TEST(b.until([&] { return are_quarantined(b, servers.quorum()); }));
            BOOST_TEST(contains(b.status(0).message, "another server is older"));
            BOOST_TEST((b.status(0).quarantined_until <= lease_clock::now() + 60s));
        }
        BOOST_TEST(first.held());
    }
}

BOOST_AUTO_TEST_CASE(where_all_are_young_a_client_that_starts_later_trusts_them) {
    fleet servers(3);
    auto const options = guarded(restart_policy::observed, 60s);
    test_client a(servers, options);
    BOOST_REQUIRE(a.all_up());
    crash(servers, the_first(2), {&a});
    test_client b(servers, options);
    auto l = b.hold("k", unwatched(60s));
    BOOST_TEST(b.releases(l));
    BOOST_REQUIRE(b.all_up());
    BOOST_TEST(were_always_trusted(b.locks));
}

// A server that is down, or hangs, may be older. The first acquire does not wait for it.
BOOST_AUTO_TEST_CASE(young_servers_do_not_wait_for_a_dead_minority) {
    fleet servers(3);
    auto options = guarded(restart_policy::observed, 60s);
    for (bool const hangs : {false, true}) {
        hangs ? servers[2].freeze() : servers[2].kill();
        test_client client(servers, options);
        auto l = client.hold("k", unwatched(60s));
        BOOST_TEST((client.status(2).state != instance_state::up));
        BOOST_TEST(client.releases(l));
        hangs ? servers[2].thaw() : servers[2].restart();
    }
}

// Without this check the holder would hear of it at the next renewal, 20 s after the first.
BOOST_AUTO_TEST_CASE(a_restart_that_is_noticed_ends_the_leases_that_it_cost) {
    fleet servers(3);
    test_client client(servers, guarded(restart_policy::observed, 60s));
    BOOST_REQUIRE(client.all_up());
    std::vector<lease> leases;
    for (int i = 0; i < 20; ++i)
        leases.push_back(client.hold("k" + std::to_string(i), {.ttl = 60s}));
    crash(servers, the_first(2), {&client});
    for (auto& l : leases) {
        BOOST_TEST(client.until([&] { return !l.held(); }));
        BOOST_TEST((l.deadline() > lease_clock::now() + 45s)); // no renewal was due
    }
}

BOOST_AUTO_TEST_CASE(a_second_restart_begins_a_quarantine_anew) {
    server instance;
    test_client client({instance.url()}, guarded(restart_policy::observed, 60s));
    BOOST_REQUIRE(client.all_up());
    lease_clock::time_point last{};
    for (int i = 0; i < 3; ++i) {
        auto const before = lease_clock::now();
        crash(instance, client);
        auto const until = client.status(0).quarantined_until;
        BOOST_TEST((until >= before + 60s));
        BOOST_TEST((until > last));
        last = until;
    }
}

//
// Clients that start after a restart
//

BOOST_AUTO_TEST_CASE(a_strict_client_trusts_no_instance_at_first_sight) {
    constexpr auto longest = 2500ms;
    fleet servers(3);
    auto const before = lease_clock::now();
    test_client client(servers, guarded(restart_policy::strict, longest));
    {
        // The acquire is sent before the first probe is answered. The client then releases the
        // grants.
        auto const [e, none] = client.try_acquire("k", unwatched(longest));
        // The third instance may have been probed by then.
        BOOST_REQUIRE(e.report() != nullptr);
        check_report(e, quarantined_in(*e.report()) == 3 ? 3 : 2, restarted);
        std::size_t granted = 0;
        for (std::size_t i = 0; i < 3; ++i) {
            BOOST_TEST(client.becomes(i, instance_state::quarantined));
            BOOST_TEST(client.sees_no_locks(servers[i]));
            auto const calls = redis_cli(servers[i]).command({"INFO", "commandstats"}).string();
            if (contains(calls, "cmdstat_set:")) ++granted;
        }
        BOOST_TEST(granted >= 2U);
    }
    lease_clock::time_point over{};
    for (std::size_t i = 0; i < 3; ++i) {
        check_quarantined(client, i, restarted);
        over = std::max(over, client.status(i).quarantined_until);
    }
    BOOST_TEST((over >= before + longest));
    {
        auto const [e, none] = client.acquire("other", unwatched(longest));
        check_report(e, 3, restarted);
        BOOST_TEST(is_quarantined(client, 0));
    }
    BOOST_TEST(client.until([&] { return all_trusted(client); }));
    BOOST_TEST((lease_clock::now() >= over));
    auto l = client.hold("k", unwatched(longest));
    BOOST_TEST(client.releases(l));
    // A restart that the client sees begins another quarantine.
    crash(servers, the_first(1), {&client});
    check_quarantined(client, 0, restarted);
}

BOOST_AUTO_TEST_CASE(a_grant_of_a_quarantined_instance_with_a_fence_is_released_too) {
    server instance;
    test_client client({instance.url()}, guarded(restart_policy::strict, 60s));
    auto const [e, none] = client.acquire(
        "k", {.ttl = 60s, .fencing = true}); // sent before the first probe is answered
    check_report(e, 1, restarted);
    redis_cli cli(instance);
    BOOST_TEST(cli.exists("{k}:fence")); // so the acquire was granted
    BOOST_TEST(client.until([&] { return !cli.exists("k"); }));
}

BOOST_AUTO_TEST_CASE(only_a_strict_client_minds_restarts_before_its_start) {
    fleet servers(3);
    server durable({.arguments = fsync_always});
    crash(servers, the_first(3), {});
    durable.kill();
    durable.restart();
    for (auto const how : {restart_policy::off, restart_policy::observed}) {
        test_client client(servers, guarded(how, 60s));
        auto l = client.hold("k", unwatched(60s));
        BOOST_TEST(client.all_up());
        BOOST_TEST(were_always_trusted(client.locks));
        BOOST_TEST(client.releases(l));
    }
    test_client client({durable.url(), servers[0].url()}, guarded(restart_policy::strict, 60s));
    BOOST_TEST(client.becomes(1, instance_state::quarantined));
    BOOST_TEST(client.becomes(0, instance_state::up));
}

//
// Waiters and holders
//

// A quarantine is an outage. An operation that waits already allows instance_timeout for its end.
BOOST_AUTO_TEST_CASE(a_waiter_is_served_after_the_quarantine_of_the_other_instances) {
    constexpr auto longest = 3s;
    for (auto const in_time : {true, false}) {
        BOOST_TEST_CONTEXT((in_time ? "in time" : "too late")) {
            fleet servers(3);
            // The holder is a foreign client, which ignores the restart.
            for (server& instance : servers)
                BOOST_REQUIRE(redis_cli(instance).set_if_absent("k", "foreign", 60s));
            test_client client(
                servers, guarded(restart_policy::observed, longest, in_time ? patient() : hasty()));
            BOOST_REQUIRE(client.all_up());
            attempt w(client, "k", impatient(unwatched(longest)));
            BOOST_REQUIRE(client.until([&] { return tracking_instances(servers).size() == 1; }));
            auto const arbiter = tracking_instances(servers).front();
            indexes others;
            for (auto const i : the_first(3)) {
                if (i != arbiter) others.push_back(i);
            }
            crash(servers, others, {&client});
            BOOST_TEST(is_quarantined(client, others.front()));
            BOOST_TEST(is_quarantined(client, others.back()));
            if (in_time) {
                BOOST_TEST(!w.done);
                auto const [e, none] = client.acquire("other", unwatched(longest));
                check_report(e, 2, restarted);
                BOOST_TEST(!w.done);
                auto const over = std::max(client.status(others.front()).quarantined_until,
                                           client.status(others.back()).quarantined_until);
                BOOST_TEST(client.until([&] { return w.done; }));
                BOOST_TEST(!w.how, w.how.what());
                BOOST_TEST(w.held.held());
                BOOST_TEST((lease_clock::now() >= over));
            } else {
                BOOST_TEST(client.until([&] { return w.done; }));
                check_report(w.how, 2, restarted);
                BOOST_TEST(is_quarantined(client, others.front()));
            }
        }
    }
}

// The quarantined majority may include the arbiter. The holder's lease ends before the quarantine.
BOOST_AUTO_TEST_CASE(a_waiter_is_served_after_the_quarantine_of_any_majority) {
    constexpr auto longest = 2s;
    for (std::size_t const spared : {0U, 1U, 2U}) {
        BOOST_TEST_CONTEXT("all but " << spared) {
            fleet servers(3);
            auto const options = guarded(restart_policy::observed, longest);
            test_client a(servers, options), b(servers, options);
            BOOST_REQUIRE(b.all_up());
            auto held = a.hold("k", unwatched(longest));
            attempt w(b, "k", unwatched(longest));
            BOOST_REQUIRE(b.until([&] { return tracking_instances(servers).size() == 1; }));
            indexes those;
            for (auto const i : the_first(3)) {
                if (i != spared) those.push_back(i);
            }
            crash(servers, those, {&b});
            BOOST_TEST(is_quarantined(b, those.front()));
            BOOST_TEST(is_quarantined(b, those.back()));
            BOOST_TEST(b.until([&] { return w.done; }));
            BOOST_TEST(!w.how, w.how.what());
            BOOST_TEST(w.held.held());
            BOOST_TEST(!(held.held() && w.held.held()));
        }
    }
}

BOOST_AUTO_TEST_CASE(a_waiter_at_an_arbiter_that_is_quarantined_moves_on) {
    check_moves_on([](fleet& servers, test_client& b) { crash(servers, the_first(1), {&b}); });
}

// The waiter must not be woken: the flushed instance would grant a lock that another client may
// hold.
BOOST_AUTO_TEST_CASE(a_waiter_at_an_arbiter_that_is_flushed_moves_on) {
    check_moves_on([](fleet& servers, test_client& b) {
        auto const before = b.locks.stats().pushes;
        redis_cli(servers[0]).flush();
        BOOST_REQUIRE(b.becomes(0, instance_state::quarantined));
        BOOST_TEST(b.locks.stats().pushes == before);
    });
}

// One of three instances is in quarantine and one is down. So only one vote counts.
BOOST_AUTO_TEST_CASE(a_quarantined_minority_costs_nothing_and_has_no_vote) {
    fleet servers(3);
    test_client client(servers, guarded(restart_policy::observed, 60s));
    BOOST_REQUIRE(client.all_up());
    crash(servers, the_first(1), {&client});
    for (int i = 0; i < 20; ++i) {
        auto l = client.hold("k", unwatched(60s));
        BOOST_TEST(!client.extend(l));
        BOOST_TEST(client.releases(l));
    }
    BOOST_TEST(client.locks.stats().acquire_failed == 0U);
    check_quarantined(client, 0, restarted);
    servers[1].kill();
    BOOST_REQUIRE(client.goes_down(1, errc::unreachable));
    for (int i = 0; i < 3; ++i) {
        auto const [e, none] = client.try_acquire("k", unwatched(60s));
        BOOST_TEST((e == errc::no_quorum), e.what());
        BOOST_REQUIRE(e.report() != nullptr);
        auto const& all = e.report()->instances;
        BOOST_TEST((all.at(0).outcome == instance_outcome::quarantined), e.what());
        BOOST_TEST((all.at(1).outcome == instance_outcome::unreachable), e.what());
        BOOST_TEST((all.at(2).outcome == instance_outcome::not_needed), e.what());
        BOOST_TEST(e.report()->up == 1U);
        BOOST_TEST(client.sees_no_locks(servers[0]));
        BOOST_TEST(client.sees_no_locks(servers[2]));
    }
}

BOOST_AUTO_TEST_CASE(a_lease_is_extended_by_quarantined_instances_that_still_have_it) {
    for (auto const& disk : {fsync_everysec, fsync_always}) {
        fleet servers(5, {.arguments = disk});
        test_client client(servers, guarded(restart_policy::observed, 60s));
        BOOST_REQUIRE(client.all_up());
        auto l = client.hold("k", unwatched(60s));
        BOOST_REQUIRE(client.sees(servers, "k", true));
        crash(servers, the_first(3), {&client});
        BOOST_TEST(are_quarantined(client, disk == fsync_always ? 0 : 3));
        auto const before = l.deadline();
        BOOST_TEST(!client.extend(l));
        BOOST_TEST((l.deadline() > before));
        BOOST_TEST(l.held());
        BOOST_TEST(client.releases(l));
        check_nothing_left(client, servers);
    }
}

BOOST_AUTO_TEST_CASE(a_lease_outlives_a_minority_that_forgot_it_and_is_put_back_there) {
    fleet servers(5);
    test_client client(servers, guarded(restart_policy::observed, 60s));
    BOOST_REQUIRE(client.all_up());
    auto l = client.hold("k", {.ttl = 4s});
    BOOST_REQUIRE(client.sees(servers, "k", true));
    crash(servers, the_first(2), {&client});
    BOOST_TEST(are_quarantined(client, 2));
    BOOST_TEST(!client.extend(l));
    BOOST_TEST(client.sees(servers, "k", true));
    BOOST_TEST(client.renews(2));
    BOOST_TEST(l.held());
    BOOST_TEST(client.locks.stats().lost == 0U);
    BOOST_TEST(client.releases(l));
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(a_lease_that_a_majority_forgot_is_lost_by_its_deadline) {
    fleet servers(5);
    test_client client(servers, guarded(restart_policy::observed, 60s));
    BOOST_REQUIRE(client.all_up());
    auto l = client.hold("k", {.ttl = 4s});
    BOOST_REQUIRE(client.sees(servers, "k", true));
    auto told = false;
    auto how = lease_end::none;
    lease_clock::time_point at{};
    l.wait_end([&](error, lease_end end) {
        at = lease_clock::now();
        how = end;
        told = true;
    });
    crash(servers, the_first(3), {&client});
    BOOST_TEST(client.until([&] { return told; }));
    BOOST_TEST(is_loss(how), how);
    BOOST_TEST((at <= l.deadline()));
    BOOST_TEST(!l.held());
    BOOST_TEST((client.release(l) == errc::lease_lost));
    check_nothing_left(client, servers);
}

//
// Rights
//

BOOST_AUTO_TEST_CASE(a_client_that_may_not_read_the_config_takes_the_server_to_forget) {
    auto arguments = fsync_always;
    for (auto const* const word :
         {"--user", "guest", "on", ">pw", "~*", "&*", "+@all", "-config"}) {
        arguments.emplace_back(word);
    }
    server instance({.arguments = arguments});
    test_client guest({"redis://guest:pw@" + instance.address()},
                      guarded(restart_policy::observed, 60s));
    test_client other({instance.url()}, guarded(restart_policy::observed, 60s));
    BOOST_REQUIRE(guest.all_up());
    BOOST_REQUIRE(other.all_up());
    auto l = guest.hold("k", unwatched(60s));
    auto const before = connections_of(other);
    crash(instance, guest);
    check_quarantined(guest, 0, restarted);
    BOOST_TEST(!guest.extend(l));
    BOOST_REQUIRE(is_back(other, before, {0}));
    BOOST_TEST(were_always_trusted(other.locks));
}

BOOST_AUTO_TEST_SUITE_END()
