// Instances that were replicas, or become replicas. Their data was replaced, so they may have
// forgotten locks.
#include "integration/guards.hpp"
#include "integration/proxy_group.hpp"
#include "support/wait.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <string>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

/// Makes these servers replicas of `primary` until they have its data, and then primaries again.
void replace_data(fleet& servers, indexes const& which, server& primary) {
    for (auto const i : which) {
        redis_cli(servers[i]).command({"REPLICAOF", "127.0.0.1", std::to_string(primary.port())});
    }
    for (auto const i : which) {
        redis_cli cli(servers[i]);
        BOOST_REQUIRE(wait_until([&] { return cli.info("master_link_status") == "up"; }, 20s));
        cli.command({"REPLICAOF", "NO", "ONE"});
    }
}

/// The options of a primary that begins a full resync at once.
server_options quick_primary() {
    return {.arguments = {"--repl-diskless-sync-delay", "0"}};
}

} // namespace

BOOST_AUTO_TEST_SUITE(replicas)

// A replica takes no lock. When it is a primary again, it has another server's data.
BOOST_AUTO_TEST_CASE(with_the_guard_off_a_majority_that_was_a_replica_makes_a_second_holder) {
    server primary(quick_primary());
    with_fleets_of({1, 3}, [&](fleet& servers) {
        auto const options = guarded(restart_policy::off, 60s);
        test_client a(servers, options), b(servers, options);
        BOOST_REQUIRE(b.all_up());
        auto first = a.hold("k", unwatched(60s));
        BOOST_REQUIRE(a.sees(servers, "k", true));
        replace_data(servers, the_first(servers.quorum()), primary);
        auto [e, second] = b.acquire("k", unwatched(60s));
        BOOST_TEST(!e, e.what());
        BOOST_TEST((second.held() && first.held())); // two holders
    });
}

BOOST_AUTO_TEST_CASE(a_majority_that_was_a_replica_makes_no_second_holder) {
    // Longer than an idle client's pause between checks. A check may begin the quarantine anew.
    constexpr auto longest = 5s;
    server primary(quick_primary());
    for (auto const& disk : {no_log, fsync_always}) {
        with_fleets_of({1, 3}, {.arguments = disk}, [&](fleet& servers) {
            auto const options = guarded(restart_policy::observed, longest);
            test_client a(servers, options), b(servers, options);
            BOOST_REQUIRE(b.all_up());
            auto first = a.hold("k", unwatched(longest));
            BOOST_REQUIRE(a.sees(servers, "k", true));
            auto const before = lease_clock::now();
            replace_data(servers, the_first(servers.quorum()), primary);
            {
                auto const [e, none] = b.try_acquire("k", unwatched(longest));
                BOOST_TEST((e == errc::quarantined || e == errc::contended), e.what());
                BOOST_TEST(!none);
            }
            BOOST_REQUIRE(b.until([&] { return are_quarantined(b, servers.quorum()); }));
            for (auto const i : the_first(servers.quorum())) {
                check_quarantined(b, i, restarted);
                BOOST_TEST((b.status(i).quarantined_until >= before + longest));
            }
            BOOST_REQUIRE(b.until([&] { return all_trusted(b); }));
            BOOST_TEST(!first.held());
            auto second = b.hold("k", unwatched(longest));
            BOOST_TEST(b.releases(second));
        });
    }
}

// Only the next check can show the change.
BOOST_AUTO_TEST_CASE(a_role_that_changes_is_noticed_where_nothing_is_announced) {
    server primary(quick_primary());
    for (auto const detects : {true, false}) {
        fleet servers(1);
        redis_cli cli(servers[0]);
        cli.command(
            {"ACL", "SETUSER", "guest", "on", ">pw", "~*", "&*", "+@all", "-client|tracking"});
        auto options = guarded(restart_policy::observed, 60s);
        options.detect_clock_jumps = detects;
        test_client client({"redis://guest:pw@" + servers[0].address()}, options);
        BOOST_REQUIRE(client.all_up());
        replace_data(servers, {0}, primary);
        BOOST_TEST(client.becomes(0, instance_state::quarantined));
        check_quarantined(client, 0, replaced);
    }
}

BOOST_AUTO_TEST_CASE(a_role_that_changed_while_no_client_was_connected_is_noticed_afterwards) {
    server primary(quick_primary());
    fleet servers(1);
    proxy_group proxies(servers);
    test_client client(proxies.addresses(), guarded(restart_policy::observed, 60s));
    BOOST_REQUIRE(client.all_up());
    auto const before = connections_of(client);
    proxies[0].down();
    BOOST_REQUIRE(client.becomes(0, instance_state::down));
    replace_data(servers, {0}, primary);
    proxies[0].up();
    BOOST_REQUIRE(is_back(client, before, {0}));
    check_quarantined(client, 0, replaced);
}

BOOST_AUTO_TEST_CASE(a_client_that_met_a_replica_does_not_trust_it_as_a_primary) {
    server primary(quick_primary());
    for (auto const how : {restart_policy::off, restart_policy::observed}) {
        server instance(
            {.arguments = {"--replicaof", "127.0.0.1", std::to_string(primary.port())}});
        test_client client({instance.url()}, guarded(how, 60s));
        BOOST_REQUIRE(client.goes_down(0, errc::read_only));
        redis_cli(instance).command({"REPLICAOF", "NO", "ONE"});
        if (how == restart_policy::off) {
            BOOST_TEST(client.all_up());
        } else {
            BOOST_TEST(client.becomes(0, instance_state::quarantined));
            check_quarantined(client, 0, replaced);
        }
    }
}

// The server never had another server's data, but it took no locks for a while.
BOOST_AUTO_TEST_CASE(a_replica_of_an_unreachable_primary_counts_too) {
    net::reserved_port const nobody;
    server instance({.arguments = fsync_always});
    redis_cli cli(instance);
    test_client client({instance.url()}, guarded(restart_policy::observed, 60s));
    BOOST_REQUIRE(client.all_up());
    cli.command({"REPLICAOF", "127.0.0.1", std::to_string(nobody.number())});
    cli.command({"REPLICAOF", "NO", "ONE"});
    BOOST_TEST(client.becomes(0, instance_state::quarantined));
    check_quarantined(client, 0, replaced);
}

// The first replica changes only the replication id. So does a backup tool that connects as a
// replica.
BOOST_AUTO_TEST_CASE(a_replica_that_comes_is_no_reason_to_doubt_its_primary) {
    server instance(quick_primary());
    redis_cli cli(instance);
    test_client client({instance.url()}, guarded(restart_policy::observed, 60s, brisk()));
    BOOST_REQUIRE(client.all_up());
    auto const before = cli.info("master_replid");
    server replica({.arguments = {"--replicaof", "127.0.0.1", std::to_string(instance.port())}});
    BOOST_REQUIRE(wait_until([&] { return cli.info("master_replid") != before; }, 20s));
    BOOST_TEST(asks_the_time(client, 2));
    BOOST_TEST(were_always_trusted(client.locks));
}

// With `save ""`, the server has stored only the snapshot of its last full resync, and starts with
// that.
BOOST_AUTO_TEST_CASE(a_restart_counts_also_if_the_server_comes_back_with_keys) {
    server primary(quick_primary());
    redis_cli(primary).set("k", "of long ago");
    fleet servers(1);
    replace_data(servers, {0}, primary);
    redis_cli(servers[0]).del("k");
    test_client client(servers, guarded(restart_policy::observed, 60s));
    BOOST_REQUIRE(client.all_up());
    auto l = client.hold("new", unwatched(60s));
    crash(servers, {0}, {&client});
    check_quarantined(client, 0, restarted);
    BOOST_TEST(!redis_cli(servers[0]).exists("new"));
}

BOOST_AUTO_TEST_SUITE_END()
