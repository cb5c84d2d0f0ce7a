// Fail-overs of Sentinel, and sentinels that are gone: locks, leases and releases of one client.
#include "integration/attempt.hpp"
#include "integration/sentinels.hpp"
#include "integration/test_client.hpp"
#include "support/proxy.hpp"
#include "support/sentinel_group.hpp"
#include "support/wait.hpp"

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

constexpr auto failover_limit = 40s;

[[nodiscard]] bool has_reason(test_client& c, errc reason) {
    return c.until([&] { return c.status(0).reason == make_error_code(reason); }, failover_limit);
}

std::size_t member_of(sentinel_group& group, test_client const& c) {
    auto const text = c.status(0).primary;
    for (std::size_t i = 0; i < group.members(); ++i) {
        if (group.member(i).address() == text) return i;
    }
    BOOST_FAIL("no member is the client's primary: " + text);
    return 0;
}

/// A primary, its replicas and sentinels, and a client that uses them.
struct scene {
    explicit scene(sentinel_group_options const& o, client_options const& c)
        : group(o)
        , a({address(group.url())}, c) {
        BOOST_REQUIRE(a.all_up());
        first = group.member(0).address();
    }
    /// Until the client uses another primary.
    std::size_t moved() {
        BOOST_REQUIRE(has_moved(a, first));
        return member_of(group, a);
    }
    /// So many replicas have the key.
    [[nodiscard]] bool on_replicas(std::string const& key) {
        return a.until([&] {
            for (std::size_t i = 1; i < group.members(); ++i) {
                if (!group.cli(i).exists(key)) return false;
            }
            return true;
        });
    }
    void cut_replicas() {
        for (std::size_t i = 1; i < group.members(); ++i) group.cut_replication(i);
    }

    sentinel_group group;
    test_client a;
    std::string first; ///< the address of the first primary
};

/// The client takes no lock while the instance is in quarantine, and afterwards it does.
void check_quarantine(scene& s, std::string_view reason) {
    check_quarantined(s.a, 0, reason);
    auto const [e, none] = s.a.try_acquire("fresh", {.ttl = 1s});
    check_report(e, 1, reason);
}

} // namespace

BOOST_AUTO_TEST_SUITE(sentinel_faults)

BOOST_AUTO_TEST_CASE(after_a_kill_leases_whose_keys_reached_the_new_primary_go_on) {
    on_failover_kinds([](sentinel_group_options const& options) {
        constexpr auto max_ttl = 10s;
        scene s(options, alert(max_ttl));
        auto kept = s.a.hold("kept", {.ttl = max_ttl});
        BOOST_REQUIRE(s.on_replicas("kept"));
        s.group.member(0).kill();
        auto const next = s.moved();
        auto const moved_at = lease_clock::now();
        BOOST_TEST(s.a.locks.stats().lost == 0U);
        check_quarantine(s, "the sentinels name " + s.group.member(next).address());
        BOOST_TEST(s.a.renews(2));
        BOOST_TEST(kept.held());
        BOOST_TEST(s.group.cli(next).exists("kept"));
        BOOST_REQUIRE(s.a.until([&] { return is_up(s.a.locks); }, failover_limit));
        BOOST_TEST((lease_clock::now() >= moved_at + max_ttl));
        BOOST_TEST(kept.held());
        auto fresh = s.a.hold("fresh", {.ttl = max_ttl});
        BOOST_TEST(s.a.releases(fresh));
        BOOST_TEST(s.a.releases(kept));
        BOOST_TEST(!s.group.cli(next).exists("kept"));
        check_no_refusals(s.group);

        // When the sentinels say that they have named the primary for max_ttl and M, a strict
        // client that starts has nothing against it but the restart of a server that forgets.
        s.a.pass(moved_at + max_ttl + 4s);
        auto strict = alert(max_ttl);
        strict.on_restart = restart_policy::strict;
        test_client c({address(s.group.url())}, strict);
        BOOST_REQUIRE(c.becomes(0, instance_state::quarantined));
        check_quarantined(c, 0, restarted);
        // After the next switch they say that they have not.
        auto const before = s.group.majority().value();
        s.group.begin_failover();
        s.group.wait_for_switch(before);
        test_client d({address(s.group.url())}, strict);
        BOOST_REQUIRE(d.becomes(0, instance_state::quarantined));
        check_quarantined(d, 0, "the sentinels have not named");
    });
}

BOOST_AUTO_TEST_CASE(leases_that_the_new_primary_lacks_are_told_as_lost_by_their_deadline) {
    on_failover_kinds([](sentinel_group_options const& options) {
        scene s(options, alert(10s));
        s.cut_replicas();
        auto l = s.a.hold("seat", {.ttl = 10s});
        auto told_at = lease_clock::time_point{};
        auto how = lease_end::none;
        l.wait_end([&](error, lease_end end) {
            how = end;
            told_at = lease_clock::now();
        });
        s.group.member(0).kill();
        auto const next = s.moved();
        BOOST_TEST(!s.group.cli(next).exists("seat"));
        BOOST_REQUIRE(
            s.a.until([&] { return told_at != lease_clock::time_point{}; }, failover_limit));
        BOOST_TEST(is_loss(how), how);
        BOOST_TEST(!l.held());
        BOOST_TEST((told_at <= l.deadline()));
        BOOST_TEST(s.a.locks.stats().lost == 1U);
        // Nothing makes the key on the new primary.
        BOOST_TEST(!s.group.cli(next).exists("seat"));
    });
}

BOOST_AUTO_TEST_CASE(releases_that_were_kept_reach_the_new_primary) {
    on_failover_kinds([](sentinel_group_options const& options) {
        scene s(options, alert(300s));
        auto l = s.a.hold("seat", {.ttl = 300s});
        BOOST_REQUIRE(s.on_replicas("seat"));
        s.group.member(0).kill();
        BOOST_REQUIRE(has_reason(s.a, errc::unreachable));
        BOOST_TEST(!s.a.releases(l));
        BOOST_TEST(s.a.status(0).pending_releases == 1U);
        auto const next = s.moved();
        BOOST_TEST(s.a.until([&] { return !s.group.cli(next).exists("seat"); }));
        BOOST_TEST(s.a.until([&] { return s.a.status(0).pending_releases == 0U; }));
    });
}

BOOST_AUTO_TEST_CASE(a_thawed_primary_grants_nothing) {
    on_failover_kinds([](sentinel_group_options const& options) {
        scene s(options, alert(3s));
        s.group.member(0).freeze();
        auto const next = s.moved();
        s.group.member(0).thaw();
        BOOST_REQUIRE(
            s.a.until([&] { return s.a.status(0).state == instance_state::up; }, failover_limit));
        // The old primary is writable, and nobody asks it.
        BOOST_TEST(member_of(s.group, s.a) == next);
        auto l = s.a.hold("seat", {.ttl = 3s});
        BOOST_TEST(s.group.cli(next).exists("seat"));
        BOOST_TEST(s.a.releases(l));
    });
}

BOOST_AUTO_TEST_CASE(without_a_confirmation_a_writable_old_primary_grants_nothing) {
    on_failover_kinds([](sentinel_group_options const& options) {
        sentinel_group group(options);
        // The client hears the sentinels through these.
        std::vector<std::unique_ptr<proxy>> lines;
        auto parts = address(group.url()).parts();
        for (std::size_t i = 0; i < group.sentinels(); ++i) {
            lines.push_back(std::make_unique<proxy>(group.sentinel_port(i)));
            parts.hosts[i].port = lines.back()->port();
        }
        test_client a({address(parts)}, alert(10s));
        BOOST_REQUIRE(a.all_up());
        BOOST_TEST(a.locks.instances()[0].primary == group.member(0).address());
        auto const before = group.majority().value();
        for (auto const& line : lines) line->hold_replies();
        group.begin_failover();
        group.wait_for_switch(before);
        // Two primaries take writes, and the client is connected to the old one.
        BOOST_REQUIRE(has_reason(a, errc::no_sentinel_majority));
        auto const s = a.status(0);
        BOOST_TEST((s.state == instance_state::suspect), to_string(s.state));
        BOOST_TEST(uses(a, group.member(0).address()));
        BOOST_TEST(group.cli(0).set_if_absent("other", "x", 1s));
        auto const [e, none] = a.try_acquire("seat", {.ttl = 1s});
        BOOST_TEST((e == errc::no_sentinel_majority), e.what());
        BOOST_TEST(contains(e.what(), "has not answered since"), e.what());
        // When the sentinels are heard again, the client finds the new one.
        for (auto const& line : lines) line->resume();
        BOOST_TEST(has_moved(a, group.member(0).address()));
    });
}

BOOST_AUTO_TEST_CASE(extensions_without_a_confirmation_do_not_count) {
    auto const options = small();
    scene s(options, alert(6s));
    auto l = s.a.hold("seat", {.ttl = 6s});
    for (std::size_t i = 0; i < s.group.sentinels(); ++i) s.group.sentinel(i).kill();
    BOOST_REQUIRE(has_reason(s.a, errc::no_sentinel_majority));
    auto const deadline = l.deadline();
    lease_clock::time_point told_at{};
    auto how = lease_end::none;
    l.wait_end([&](error, lease_end end) {
        how = end;
        told_at = lease_clock::now();
    });
    auto const renewals = s.a.locks.stats().extended;
    BOOST_TEST((s.a.extend(l) == errc::no_sentinel_majority));
    BOOST_TEST((l.deadline() == deadline));
    BOOST_REQUIRE(s.a.until([&] { return told_at != lease_clock::time_point{}; }, 20s));
    BOOST_TEST(how == lease_end::expired);
    BOOST_TEST(!l.held());
    BOOST_TEST((told_at <= deadline));
    BOOST_TEST(s.a.locks.stats().extended == renewals);
    for (std::size_t i = 0; i < s.group.sentinels(); ++i) s.group.sentinel(i).restart();
    BOOST_TEST(s.a.all_up());
    BOOST_TEST(is_trusted(s.a, 0));
    auto m = s.a.hold("other", {.ttl = 6s});
    BOOST_TEST(s.a.releases(m));
}

BOOST_AUTO_TEST_CASE(one_sentinel_of_three_may_be_gone) {
    scene s(small(), alert(10s));
    s.group.sentinel(0).kill();
    auto l = s.a.hold("seat", {.ttl = 10s});
    s.a.pass(lease_clock::now() + 2 * 2s); // twice the time for which a majority counts
    BOOST_TEST(is_trusted(s.a, 0));
    BOOST_TEST(!s.a.extend(l));
    BOOST_TEST(s.a.releases(l));
    BOOST_TEST(s.a.status(0).connections == 1U);
}

BOOST_AUTO_TEST_CASE(a_planned_failover_quarantines_the_new_primary_and_keeps_leases) {
    on_failover_kinds([](sentinel_group_options const& options) {
        scene s(options, alert(10s));
        auto kept = s.a.hold("kept", {.ttl = 10s});
        BOOST_REQUIRE(s.on_replicas("kept"));
        s.group.begin_failover();
        auto const next = s.moved();
        check_quarantine(s, "the sentinels name " + s.group.member(next).address());
        BOOST_TEST(s.a.renews(1));
        BOOST_TEST(kept.held());
        BOOST_TEST(s.a.releases(kept));
    });
}

BOOST_AUTO_TEST_CASE(a_coordinated_failover_quarantines_the_new_primary_and_keeps_leases) {
    auto const kind = find_server("valkey-9.1");
    if (!kind) return;
    scene s(documented(*kind), alert(10s));
    auto kept = s.a.hold("kept", {.ttl = 10s});
    BOOST_REQUIRE(s.on_replicas("kept"));
    s.group.begin_coordinated_failover();
    auto const next = s.moved();
    check_quarantine(s, "the sentinels name " + s.group.member(next).address());
    BOOST_TEST(s.a.renews(1));
    BOOST_TEST(kept.held());
    BOOST_TEST(s.a.releases(kept));
}

BOOST_AUTO_TEST_CASE(a_primary_that_restarts_empty_before_sentinel_notices_is_quarantined) {
    on_failover_kinds([](sentinel_group_options options) {
        options.down_after = 5s;
        scene s(options, alert(10s));
        auto l = s.a.hold("seat", unwatched(10s));
        auto const before = connections_of(s.a);
        s.group.restart_empty(0);
        BOOST_REQUIRE(is_back(s.a, before, {0}));
        BOOST_TEST(uses(s.a, s.first));
        check_quarantine(s, restarted);
        BOOST_TEST(!s.group.cli(0).exists("seat"));
    });
}

BOOST_AUTO_TEST_CASE(a_client_that_starts_after_the_restart_of_a_primary_makes_no_second_holder) {
    on_failover_kinds([](sentinel_group_options options) {
        options.down_after = 20s;
        scene s(options, alert(60s));
        auto l = s.a.hold("seat", unwatched(60s));
        // The sentinels have named the primary for longer than the rounding of an uptime.
        s.a.pass(lease_clock::now() + 5s);
        s.group.restart_empty(0);
        test_client b({address(s.group.url())}, alert(60s));
        BOOST_REQUIRE(b.becomes(0, instance_state::quarantined));
        check_quarantined(b, 0, "the sentinels have named it for longer");
        auto const [e, none] = b.try_acquire("seat", unwatched(1s));
        BOOST_TEST((e == errc::quarantined), e.what());
        BOOST_TEST(!none);
        BOOST_TEST(l.held());
    });
}

BOOST_AUTO_TEST_CASE(a_new_primary_with_a_clock_ahead_is_reported) {
    auto options = documented();
    options.shiftable_clocks = true;
    scene s(options, alert(60s));
    for (std::size_t i = 1; i < s.group.members(); ++i) s.group.member(i).shift_clock(20s);
    s.group.member(0).kill();
    s.moved();
    BOOST_REQUIRE(s.a.until([&] {
        return contains(s.a.status(0).message, "its clock is ahead of its predecessor's by");
    }));
    BOOST_TEST(is_quarantined(s.a, 0));
}

//
// Scripted sentinels: what they say is up to the test.
//

BOOST_AUTO_TEST_CASE(split_answers_name_no_primary) {
    fleet servers(3);
    fake_sentinels sentinels;
    for (std::size_t i = 0; i < 3; ++i) sentinels.name(i, servers[i], 1);
    test_client a({sentinels.address()}, alert(60s));
    BOOST_REQUIRE(a.goes_down(0, errc::no_sentinel_majority));
    for (std::size_t i = 0; i < 3; ++i) {
        BOOST_TEST(contains(a.status(0).message, "names " + servers[i].address()),
                   a.status(0).message);
    }
    BOOST_TEST(a.status(0).primary.empty());
    // Also of one server with two epochs.
    for (std::size_t i = 0; i < 3; ++i) sentinels.name(i, servers[0], 5 + i);
    auto const rounds = sentinels.rounds(0);
    BOOST_REQUIRE(a.until([&] { return sentinels.rounds(0) > rounds + 2; }));
    BOOST_TEST(a.status(0).primary.empty());
    sentinels.name(0, servers[0], 7);
    BOOST_TEST(a.all_up());
    BOOST_TEST(uses(a, servers[0].address()));
}

BOOST_AUTO_TEST_CASE(a_lone_sentinel_that_knows_more_ends_the_use_of_the_primary) {
    fleet servers(2);
    fake_sentinels sentinels;
    sentinels.name(servers[0], 1);
    test_client a({sentinels.address()}, alert(60s));
    BOOST_REQUIRE(a.all_up());
    // Two sentinels are enough for that. The one that announces must know its subscriber.
    BOOST_REQUIRE(a.until([&] { return sentinels.rounds(1) > 0; }));
    sentinels.announce(1, servers[1]);
    BOOST_REQUIRE(a.until([&] { return a.status(0).primary.empty(); }));
    sentinels.name(servers[1], 2);
    BOOST_REQUIRE(has_moved(a, servers[0].address()));
    BOOST_TEST(is_quarantined(a, 0));
}

BOOST_AUTO_TEST_CASE(a_primary_that_was_demoted_is_left_and_not_used_again) {
    fleet servers(2);
    fake_sentinels sentinels;
    sentinels.name(servers[0], 1);
    auto options = alert(60s);
    options.detect_clock_jumps = false;
    test_client a({sentinels.address()}, options);
    BOOST_REQUIRE(a.all_up());
    // Connections stay open, so the next write is refused.
    redis_cli on_first(servers[0]);
    BOOST_REQUIRE(
        on_first.command({"REPLICAOF", "127.0.0.1", std::to_string(servers[1].port())}).is_ok());
    auto const [e, none] = a.try_acquire("seat");
    BOOST_TEST((e == errc::read_only), e.what());
    BOOST_TEST(a.goes_down(0, errc::read_only));
    // The sentinels name it still. It says itself that it is a replica.
    auto const rounds = sentinels.rounds(0);
    BOOST_REQUIRE(a.until([&] { return sentinels.rounds(0) > rounds + 3; }));
    BOOST_TEST((a.status(0).state == instance_state::down));
    // A primary again, before the sentinels have noticed anything: its data may be another's.
    BOOST_REQUIRE(on_first.command({"REPLICAOF", "NO", "ONE"}).is_ok());
    BOOST_REQUIRE(a.becomes(0, instance_state::quarantined));
    check_quarantined(a, 0, replaced);
}

BOOST_AUTO_TEST_CASE(two_failovers_that_the_sentinels_have_not_told_are_seen_by_the_history) {
    fleet servers(2, {.arguments = {"--repl-diskless-sync-delay", "0"}});
    fake_sentinels sentinels;
    sentinels.name(servers[0], 1);
    test_client a({sentinels.address()}, alert(60s));
    BOOST_REQUIRE(a.all_up());
    auto const before = connections_of(a);
    // O, N, O while the client does not run. All sentinels name O with its first epoch throughout.
    redis_cli on_first(servers[0]);
    BOOST_REQUIRE(
        on_first.command({"REPLICAOF", "127.0.0.1", std::to_string(servers[1].port())}).is_ok());
    BOOST_REQUIRE(wait_until([&] { return on_first.info("master_link_status") == "up"; }));
    BOOST_REQUIRE(on_first.command({"REPLICAOF", "NO", "ONE"}).is_ok());
    on_first.command({"CLIENT", "KILL", "TYPE", "normal"});
    BOOST_REQUIRE(is_back(a, before, {0}));
    check_quarantined(a, 0, replaced);
    auto const [e, none] = a.try_acquire("seat");
    BOOST_TEST((e == errc::quarantined), e.what());
}

BOOST_AUTO_TEST_CASE(the_last_address_is_not_used_again_without_an_answer_of_the_sentinels) {
    fleet servers(1);
    fake_sentinels sentinels;
    sentinels.name(servers[0], 1);
    test_client a({sentinels.address()}, alert(60s));
    BOOST_REQUIRE(a.all_up());
    sentinels.fall_silent();
    redis_cli on_server(servers[0]);
    on_server.command({"CLIENT", "KILL", "TYPE", "normal"});
    BOOST_REQUIRE(has_reason(a, errc::unreachable));
    // Its own connections are the only ones of that name.
    BOOST_REQUIRE(
        a.until([&] { return a.status(0).reason != make_error_code(errc::unreachable); }));
    BOOST_TEST(a.status(0).connections == 1U);
    BOOST_TEST(contains(a.status(0).message, "does not answer"), a.status(0).message);
}

BOOST_AUTO_TEST_CASE(a_strict_client_waits_unless_the_sentinels_have_named_the_primary_for_long) {
    fleet servers(1, {.arguments = fsync_always});
    fake_sentinels sentinels;
    sentinels.name(servers[0], 1);
    auto options = alert(60s);
    options.on_restart = restart_policy::strict;
    {
        test_client a({sentinels.address()}, options);
        BOOST_REQUIRE(a.becomes(0, instance_state::quarantined));
        check_quarantined(a, 0, "the sentinels have not named " + servers[0].address());
    }
    sentinels.named_for(65s);
    test_client a({sentinels.address()}, options);
    BOOST_REQUIRE(a.all_up());
    BOOST_TEST(is_trusted(a, 0));
    auto l = a.hold("seat");
    BOOST_TEST(a.releases(l));
}

BOOST_AUTO_TEST_SUITE_END()
