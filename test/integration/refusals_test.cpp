// Servers that answer, but refuse to write: too few replicas, no memory, no permission.
#include <holdfast/client.hpp>

#include "integration/test_client.hpp"
#include "support/access.hpp"
#include "support/fleet.hpp"
#include "support/redis_cli.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

/// Makes the server answer each SET and script with NOREPLICAS.
void refuse_writes(server& s, bool refuses = true) {
    redis_cli(s).config("min-replicas-to-write", refuses ? "1" : "0");
}

struct fixture {
    fixture() { BOOST_REQUIRE(client.all_up()); }

    void refuse_writes_but_of(std::size_t accepting) {
        for (std::size_t i = 0; i < servers.size(); ++i) {
            if (i != accepting) refuse_writes(servers[i]);
        }
    }

    fleet servers{5};
    test_client client{servers};
};

void check_outage(error const& e) {
    BOOST_TEST((e == errc::rejected), e.what());
    BOOST_TEST((e == error_condition::unavailable), e.what());
    BOOST_TEST(std::string(e.what()).find("NOREPLICAS") != std::string::npos, e.what());
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(refusals, fixture)

BOOST_AUTO_TEST_CASE(one_holder_and_a_majority_that_refuses_are_an_outage) {
    for (std::size_t holder = 0; holder < servers.size(); ++holder) {
        redis_cli(servers[holder]).set("k", "foreign", 60s);
        refuse_writes_but_of(holder);
        for (int i = 0; i < 4; ++i) check_outage(client.try_acquire("k").first);
        for (server& instance : servers) refuse_writes(instance, false);
        redis_cli(servers[holder]).del("k");
    }
    auto l = client.hold("k");
    BOOST_TEST(client.releases(l));
}

BOOST_AUTO_TEST_CASE(an_outage_is_not_waited_for_like_a_holder) {
    redis_cli(servers[2]).set("k", "foreign", 60s);
    refuse_writes_but_of(2);
    for (int i = 0; i < 4; ++i) check_outage(client.acquire("k").first);
}

BOOST_AUTO_TEST_CASE(a_waiter_hears_of_an_outage_at_its_next_try) {
    for (server& instance : servers) redis_cli(instance).set("k", "foreign", 3s);
    auto done = false;
    error how;
    client.locks.make_lock("k", long_lived).acquire([&](error e, lease) {
        how = std::move(e);
        done = true;
    });
    BOOST_REQUIRE(client.until([&] { return client.locks.stats().rounds >= 2; }));
    for (server& instance : servers) refuse_writes(instance);
    BOOST_REQUIRE(client.until([&] { return done; })); // at the next try, after the key has expired
    check_outage(how);
}

BOOST_AUTO_TEST_CASE(a_release_that_is_refused_is_repeated) {
    auto l = client.hold("k");
    BOOST_REQUIRE(client.sees(servers, "k", true));
    for (server& instance : servers) refuse_writes(instance);
    auto const refused = client.release(l);
    BOOST_TEST((refused == errc::rejected), refused.what());
    BOOST_TEST(contains(refused.what(), "NOREPLICAS"), refused.what());
    auto const pending = [&] {
        std::uint64_t n = 0;
        for (auto const& instance : client.locks.instances()) n += instance.pending_releases;
        return n;
    };
    BOOST_TEST(client.until([&] { return pending() > 0; }));
    BOOST_TEST(copies(servers, "k") == servers.size());
    for (server& instance : servers) refuse_writes(instance, false);
    check_nothing_left(client, servers);
    BOOST_TEST(client.until([&] { return pending() == 0; }));
    auto again = client.hold("k");
    BOOST_TEST(client.releases(again));
}

BOOST_AUTO_TEST_CASE(a_refused_release_is_repeated_while_the_key_can_be_there) {
    auto l = client.hold("k", {.ttl = renewed_ttl});
    for (server& instance : servers) refuse_writes(instance);
    BOOST_TEST((client.release(l) == errc::rejected));
    auto const began = lease_clock::now();
    // The server refuses each release, which the client repeats and gives up in the end.
    BOOST_TEST(client.until([&] {
        auto const all = client.locks.instances();
        return lease_clock::now() - began > renewed_ttl + 100ms &&
               std::all_of(all.begin(), all.end(),
                           [](auto const& i) { return i.pending_releases == 0; });
    }));
    client.pass(lease_clock::now() + 1100ms);
    auto const before = client.locks.stats().commands;
    client.pass(lease_clock::now() + 1100ms);
    BOOST_TEST(client.locks.stats().commands - before <= 3 * servers.size()); // only server checks
}

// The client does not repeat a command without permission.
BOOST_AUTO_TEST_CASE(a_release_that_is_not_permitted_is_not_repeated) {
    auto l = client.hold("k", {.ttl = 2s});
    BOOST_REQUIRE(client.sees(servers, "k", true));
    for (server& instance : servers) {
        instance.expect_refusals();
        redis_cli(instance).command(
            {"ACL", "SETUSER", std::string(access::user), "-@write", "-@scripting"});
    }
    auto const how = client.release(l);
    BOOST_TEST((how == errc::access_denied), how.what());
    for (auto const& instance : client.locks.instances())
        BOOST_TEST(instance.pending_releases == 0U);
    BOOST_TEST(client.locks.stats().held == 0U);
    check_nothing_left(client, servers); // the keys expire after their ttl
}

BOOST_AUTO_TEST_CASE(one_that_refuses_does_not_keep_a_release_from_being_one) {
    auto l = client.hold("k");
    BOOST_REQUIRE(client.sees(servers, "k", true));
    refuse_writes(servers[0]);
    refuse_writes(servers[1]);
    BOOST_TEST(client.releases(l));
    BOOST_TEST(client.until([&] { return client.status(0).pending_releases > 0; }));
    refuse_writes(servers[0], false);
    refuse_writes(servers[1], false);
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_SUITE_END()
