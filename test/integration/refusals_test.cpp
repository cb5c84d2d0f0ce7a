// Servers that answer and refuse to write: too few replicas, no memory, no permission.
#include <holdfast/client.hpp>

#include "integration/party.hpp"
#include "support/fleet.hpp"
#include "support/redis_cli.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
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
    BOOST_TEST((e == condition::unavailable), e.what());
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

BOOST_AUTO_TEST_CASE(an_outage_is_not_waited_for_as_if_somebody_held_the_key) {
    redis_cli(servers[2]).set("k", "foreign", 60s);
    refuse_writes_but_of(2);
    for (int i = 0; i < 4; ++i) check_outage(p.acquire("k").first);
}

BOOST_AUTO_TEST_CASE(who_waits_already_hears_of_an_outage_at_its_next_try) {
    for (server& one : servers) redis_cli(one).set("k", "foreign", 60s);
    auto done = false;
    error how;
    p.locks.make_lock("k", long_lived).acquire([&](error e, lease) {
        how = std::move(e);
        done = true;
    });
    BOOST_REQUIRE(p.until([&] { return p.locks.stats().rounds >= 2; }));
    for (server& one : servers) refuse_writes(one);
    for (server& one : servers) redis_cli(one).command({"FLUSHALL"});
    BOOST_REQUIRE(p.until([&] { return done; }));
    check_outage(how);
}

BOOST_AUTO_TEST_SUITE_END()
