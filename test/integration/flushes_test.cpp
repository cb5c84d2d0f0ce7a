// Instances that are flushed, that evict keys, or that stop writing to disk.
#include "integration/guards.hpp"
#include "integration/proxy_group.hpp"
#include "support/wait.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

/// Makes the server evict `key`.
void evict(server& instance, std::string const& key, std::string const& policy) {
    redis_cli cli(instance);
    cli.config("maxmemory-policy", policy);
    cli.config("maxmemory", "1");
    BOOST_REQUIRE(wait_until([&] {
        cli.command({"SET", "other", "x"});
        return !cli.exists(key);
    }));
    cli.config("maxmemory", "1gb");
}

} // namespace

BOOST_AUTO_TEST_SUITE(flushes)

//
// Disks
//

// The client checks the setting again while it is connected.
BOOST_AUTO_TEST_CASE(a_server_that_stops_writing_to_disk_is_not_trusted_after_a_restart) {
    server instance({.arguments = fsync_always});
    redis_cli cli(instance);
    test_client client({instance.url()}, guarded(restart_policy::observed, 60s, brisk()));
    BOOST_REQUIRE(client.all_up());
    crash(instance, client);
    BOOST_TEST(were_always_trusted(client.locks));
    cli.config("appendonly", "no");
    BOOST_TEST(asks_the_time(client, 2));
    BOOST_TEST(were_always_trusted(client.locks));
    crash(instance, client); // the server starts with appendonly on
    check_quarantined(client, 0, restarted);
}

//
// Flushes
//

BOOST_AUTO_TEST_CASE(with_the_guard_off_a_majority_that_is_flushed_makes_a_second_holder) {
    with_fleets_of({1, 3, 5}, [](fleet& servers) {
        auto const options = guarded(restart_policy::off, 60s);
        test_client a(servers, options), b(servers, options);
        BOOST_REQUIRE(b.all_up());
        auto first = a.hold("k", unwatched(60s));
        BOOST_REQUIRE(a.sees(servers, "k", true));
        for (auto const i : the_first(servers.quorum())) redis_cli(servers[i]).flush();
        auto [e, second] = b.acquire("k", unwatched(60s));
        BOOST_TEST(!e, e.what());
        BOOST_TEST((second.held() && first.held())); // two holders
        BOOST_TEST(were_always_trusted(b.locks));
    });
}

// The flush may happen before a grant, and the client may read the grant first. Then the grant does
// not count either.
BOOST_AUTO_TEST_CASE(a_majority_that_is_flushed_makes_no_second_holder) {
    constexpr auto longest = 2s;
    std::vector<command_line> const all{{"FLUSHALL"}, {"FLUSHALL", "ASYNC"}, {"FLUSHDB"}};
    for (auto const& flush : all) {
        with_fleets_of({1, 3, 5}, [&](fleet& servers) {
            auto const options = guarded(restart_policy::observed, longest);
            test_client a(servers, options), b(servers, options);
            BOOST_REQUIRE(b.all_up());
            auto first = a.hold("k", unwatched(longest));
            BOOST_REQUIRE(a.sees(servers, "k", true));
            auto const before = lease_clock::now();
            for (auto const i : the_first(servers.quorum())) redis_cli(servers[i]).command(flush);
            {
                auto const [e, none] = b.try_acquire("k", unwatched(longest));
                BOOST_TEST((e == errc::quarantined || e == errc::contended), e.what());
                BOOST_TEST(!none);
            }
            BOOST_REQUIRE(b.until([&] { return are_quarantined(b, servers.quorum()); }));
            for (auto const i : the_first(servers.quorum())) {
                check_quarantined(b, i, flushed);
                BOOST_TEST((b.status(i).quarantined_until >= before + longest));
            }
            {
                auto const [e, none] = b.try_acquire("k", unwatched(longest));
                check_report(e, servers.quorum(), flushed);
            }
            BOOST_REQUIRE(b.until([&] { return all_trusted(b); }));
            BOOST_TEST(!first.held());
            auto second = b.hold("k", unwatched(longest));
            BOOST_TEST(b.releases(second));
        });
    }
}

// The announcement does not name the database.
BOOST_AUTO_TEST_CASE(a_flush_of_another_database_counts_too) {
    server instance;
    test_client client({instance.url()}, guarded(restart_policy::observed, 60s));
    BOOST_REQUIRE(client.all_up());
    auto l = client.hold("k", unwatched(60s));
    redis_cli cli(instance);
    cli.command({"SELECT", "3"});
    cli.command({"FLUSHDB"});
    BOOST_TEST(client.becomes(0, instance_state::quarantined));
    check_quarantined(client, 0, flushed);
    BOOST_TEST(!client.extend(l));
    BOOST_TEST(client.releases(l));
}

BOOST_AUTO_TEST_CASE(a_lease_outlives_a_minority_that_is_flushed_and_is_put_back_there) {
    fleet servers(5);
    test_client client(servers, guarded(restart_policy::observed, 60s));
    BOOST_REQUIRE(client.all_up());
    auto l = client.hold("k", unwatched(30s));
    BOOST_REQUIRE(client.sees(servers, "k", true));
    for (std::size_t i = 0; i < 2; ++i) redis_cli(servers[i]).flush();
    BOOST_REQUIRE(client.until([&] { return are_quarantined(client, 2); }));
    BOOST_TEST(!client.extend(l));
    BOOST_TEST(client.sees(servers, "k", true));
    BOOST_TEST(l.held());
    BOOST_TEST(client.releases(l));
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(a_lease_that_is_flushed_from_a_majority_is_lost) {
    fleet servers(3);
    test_client client(servers, guarded(restart_policy::observed, 60s));
    BOOST_REQUIRE(client.all_up());
    auto l = client.hold("k", unwatched(30s));
    BOOST_REQUIRE(client.sees(servers, "k", true));
    for (std::size_t i = 0; i < 2; ++i) redis_cli(servers[i]).flush();
    BOOST_REQUIRE(client.until([&] { return are_quarantined(client, 2); }));
    BOOST_TEST(l.held());
    auto const e = client.extend(l);
    BOOST_TEST((e == errc::lease_lost), e.what());
    BOOST_TEST(!l.held());
}

// A client without a connection gets no announcement. It notices the flush when it connects.
BOOST_AUTO_TEST_CASE(a_flush_while_no_client_was_connected_is_noticed_afterwards) {
    fleet servers(1);
    proxy_group proxies(servers);
    test_client client(proxies.addresses(), guarded(restart_policy::observed, 60s));
    BOOST_REQUIRE(client.all_up());
    auto const before = connections_of(client);
    proxies[0].down();
    BOOST_REQUIRE(client.becomes(0, instance_state::down));
    redis_cli(servers[0]).flush();
    proxies[0].up();
    BOOST_REQUIRE(is_back(client, before, {0}));
    check_quarantined(client, 0, flushed);
}

// The server does not announce the exchange, but the next check finds it.
BOOST_AUTO_TEST_CASE(databases_that_are_exchanged_are_noticed) {
    server instance;
    test_client client({instance.url()}, guarded(restart_policy::observed, 60s));
    BOOST_REQUIRE(client.all_up());
    redis_cli(instance).command({"SWAPDB", "0", "1"});
    BOOST_TEST(client.becomes(0, instance_state::quarantined));
    check_quarantined(client, 0, flushed);
}

//
// Evictions
//

BOOST_AUTO_TEST_CASE(with_the_guard_off_a_majority_that_evicts_makes_a_second_holder) {
    fleet servers(3);
    auto const options = guarded(restart_policy::off, 60s);
    test_client a(servers, options), b(servers, options);
    BOOST_REQUIRE(b.all_up());
    auto first = a.hold("k", unwatched(60s));
    BOOST_REQUIRE(a.sees(servers, "k", true));
    for (std::size_t i = 0; i < 2; ++i) evict(servers[i], "k", "volatile-lru");
    auto [e, second] = b.try_acquire("k", unwatched(60s));
    BOOST_TEST(!e, e.what());
    BOOST_TEST((second.held() && first.held())); // two holders
}

// The policy changes while the clients are connected. Idle clients notice the change too.
BOOST_AUTO_TEST_CASE(a_majority_that_may_evict_makes_no_second_holder) {
    for (std::string const policy : {"volatile-lru", "allkeys-random"}) {
        with_fleets_of({1, 3}, [&](fleet& servers) {
            auto const options = guarded(restart_policy::observed, 2s);
            test_client a(servers, options), b(servers, options);
            BOOST_REQUIRE(b.all_up());
            auto first = a.hold("k", unwatched(2s));
            BOOST_REQUIRE(a.sees(servers, "k", true));
            for (auto const i : the_first(servers.quorum())) evict(servers[i], "k", policy);
            BOOST_REQUIRE(b.until([&] { return are_quarantined(b, servers.quorum()); }));
            auto const [e, none] = b.try_acquire("k", unwatched(2s));
            check_report(e, servers.quorum(), evicting);
            check_report(e, servers.quorum(), policy);
            // The quarantine lasts as long as the policy, even beyond max_ttl.
            b.pass(lease_clock::now() + 3s);
            BOOST_TEST(are_quarantined(b, servers.quorum()));
            auto const before = lease_clock::now();
            for (server& instance : servers)
                redis_cli(instance).config("maxmemory-policy", "noeviction");
            BOOST_REQUIRE(b.until([&] { return all_trusted(b); }));
            BOOST_TEST((lease_clock::now() >= before + 2s));
            auto second = b.hold("k", unwatched(2s));
            BOOST_TEST(b.releases(second));
        });
    }
}

BOOST_AUTO_TEST_CASE(a_server_that_may_evict_does_not_vote_from_the_first_connection_on) {
    server evicts({.arguments = {"--maxmemory", "1gb", "--maxmemory-policy", "volatile-ttl"}});
    server limited({.arguments = {"--maxmemory", "1gb", "--maxmemory-policy", "noeviction"}});
    server unlimited({.arguments = {"--maxmemory-policy", "allkeys-lru"}});
    std::vector<address> const all{evicts.url(), limited.url(), unlimited.url()};
    {
        test_client client(all, guarded(restart_policy::observed, 60s));
        BOOST_TEST(client.becomes(0, instance_state::quarantined));
        check_quarantined(client, 0, evicting);
        check_quarantined(client, 0, "volatile-ttl");
        auto l = client.hold("k", unwatched(60s)); // the other two instances are a majority
        BOOST_TEST(is_trusted(client, 1));
        BOOST_TEST(is_trusted(client, 2));
        BOOST_TEST(client.releases(l));
    }
    test_client alone({all[0]}, guarded(restart_policy::observed, 60s));
    auto const [e, none] = alone.acquire("k", unwatched(60s));
    check_report(e, 1, evicting);
    test_client unguarded(all, guarded(restart_policy::off, 60s));
    BOOST_REQUIRE(unguarded.all_up());
}

// During a rewrite of the log, the server keeps writes in memory without fsync.
BOOST_AUTO_TEST_CASE(a_server_whose_log_waits_for_rewrites_is_not_trusted_after_a_restart) {
    auto relaxed = fsync_always;
    relaxed.insert(relaxed.end(), {"--no-appendfsync-on-rewrite", "yes"});
    server instance({.arguments = relaxed});
    test_client client({instance.url()}, guarded(restart_policy::observed, 60s));
    BOOST_REQUIRE(client.all_up());
    crash(instance, client);
    check_quarantined(client, 0, restarted);
}

BOOST_AUTO_TEST_SUITE_END()
