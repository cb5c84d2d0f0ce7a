// Servers that answer and refuse to write: too few replicas, no memory, no permission.
#include <holdfast/client.hpp>

#include "integration/party.hpp"
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

/// Answers each SET and script with NOREPLICAS from then on.
void refuse_writes(server& s, bool refuses = true) {
    redis_cli(s).config("min-replicas-to-write", refuses ? "1" : "0");
}

struct fixture {
    fixture() { BOOST_REQUIRE(p.all_up()); }

    void refuse_writes_but_of(std::size_t one) {
        for (std::size_t i = 0; i < servers.size(); ++i) {
            if (i != one) refuse_writes(servers[i]);
        }
    }

    fleet servers{5};
    party p{servers};
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
        for (int i = 0; i < 4; ++i) check_outage(p.try_acquire("k").first);
        for (server& one : servers) refuse_writes(one, false);
        redis_cli(servers[holder]).del("k");
    }
    auto l = p.hold("k");
    BOOST_TEST(p.releases(l));
}

BOOST_AUTO_TEST_CASE(an_outage_is_not_waited_for_like_a_holder) {
    redis_cli(servers[2]).set("k", "foreign", 60s);
    refuse_writes_but_of(2);
    for (int i = 0; i < 4; ++i) check_outage(p.acquire("k").first);
}

BOOST_AUTO_TEST_CASE(a_waiter_hears_of_an_outage_at_its_next_try) {
    for (server& one : servers) redis_cli(one).set("k", "foreign", 3s);
    auto done = false;
    error how;
    p.locks.make_lock("k", long_lived).acquire([&](error e, lease) {
        how = std::move(e);
        done = true;
    });
    BOOST_REQUIRE(p.until([&] { return p.locks.stats().rounds >= 2; }));
    for (server& one : servers) refuse_writes(one);
    BOOST_REQUIRE(p.until([&] { return done; })); // when the key has expired
    check_outage(how);
}

BOOST_AUTO_TEST_CASE(a_release_that_is_refused_is_repeated) {
    auto l = p.hold("k");
    BOOST_REQUIRE(p.sees(servers, "k", true));
    for (server& one : servers) refuse_writes(one);
    BOOST_TEST((p.release(l) == errc::no_quorum));
    auto const kept = [&] {
        std::uint64_t n = 0;
        for (auto const& one : p.locks.instances()) n += one.pending_releases;
        return n;
    };
    BOOST_TEST(p.until([&] { return kept() > 0; }));
    BOOST_TEST(copies(servers, "k") == servers.size());
    for (server& one : servers) refuse_writes(one, false);
    check_nothing_left(p, servers);
    BOOST_TEST(p.until([&] { return kept() == 0; }));
    auto again = p.hold("k");
    BOOST_TEST(p.releases(again));
}

BOOST_AUTO_TEST_CASE(a_refused_release_is_repeated_while_the_key_can_be_there) {
    auto l = p.hold("k", {.ttl = renewed_ttl});
    for (server& one : servers) refuse_writes(one);
    BOOST_TEST((p.release(l) == errc::no_quorum));
    auto const began = lease_clock::now();
    // Each release is refused over and over, and given up in the end.
    BOOST_TEST(p.until([&] {
        auto const all = p.locks.instances();
        return lease_clock::now() - began > renewed_ttl + 100ms &&
               std::all_of(all.begin(), all.end(),
                           [](auto const& i) { return i.pending_releases == 0; });
    }));
    p.pass(lease_clock::now() + 1100ms);
    auto const before = p.locks.stats().commands;
    p.pass(lease_clock::now() + 1100ms);
    BOOST_TEST(p.locks.stats().commands - before <= 3 * servers.size()); // TIME, and nothing else
}

// A command that is not permitted will not be permitted a moment later.
BOOST_AUTO_TEST_CASE(a_release_that_is_not_permitted_is_not_repeated) {
    auto l = p.hold("k", {.ttl = 2s});
    BOOST_REQUIRE(p.sees(servers, "k", true));
    for (server& one : servers) {
        redis_cli(one).command({"ACL", "SETUSER", "default", "-@write", "-@scripting"});
    }
    auto const how = p.release(l);
    BOOST_TEST((how == errc::access_denied || how == errc::no_quorum), how.code().message());
    for (auto const& one : p.locks.instances()) BOOST_TEST(one.pending_releases == 0U);
    BOOST_TEST(p.locks.stats().held == 0U);
    check_nothing_left(p, servers); // with their ttl
}

BOOST_AUTO_TEST_CASE(one_that_refuses_does_not_keep_a_release_from_being_one) {
    auto l = p.hold("k");
    BOOST_REQUIRE(p.sees(servers, "k", true));
    refuse_writes(servers[0]);
    refuse_writes(servers[1]);
    BOOST_TEST(p.releases(l));
    BOOST_TEST(p.until([&] { return p.status(0).pending_releases > 0; }));
    refuse_writes(servers[0], false);
    refuse_writes(servers[1], false);
    check_nothing_left(p, servers);
}

BOOST_AUTO_TEST_SUITE_END()
