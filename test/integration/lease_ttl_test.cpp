// Another ttl for a lease, and a lease that leaves its key: on servers.
#include "integration/attempt.hpp"
#include "integration/loss_wait.hpp"
#include "integration/test_client.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

error extend(test_client& client, lease& held, std::chrono::milliseconds ttl) {
    auto done = false;
    error result;
    held.extend(ttl, [&](error e) {
        result = std::move(e);
        done = true;
    });
    BOOST_REQUIRE(client.until([&] { return done; }));
    return result;
}

/// Milliseconds; negative without a key or an expiry.
std::int64_t left_on(server const& s, std::string const& key) {
    return redis_cli(s).pttl(key).count();
}

} // namespace

BOOST_AUTO_TEST_SUITE(lease_ttl)

BOOST_AUTO_TEST_CASE(a_longer_ttl_reaches_the_servers_and_the_watchdog_keeps_it) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    auto held = client.hold("k", {.ttl = 3s});
    BOOST_TEST(!extend(client, held, 30s));
    BOOST_TEST((held.remaining() > 20s));
    BOOST_REQUIRE(client.until([&] {
        for (server& each : servers) {
            if (left_on(each, "k") <= 20'000) return false;
        }
        return true;
    }));
    // The next renewal comes by hand here; the watchdog uses the same command.
    BOOST_TEST(!client.extend(held));
    BOOST_TEST((held.remaining() > 20s));
    BOOST_TEST(client.releases(held));
}

BOOST_AUTO_TEST_CASE(a_shorter_ttl_counts_from_the_call_on) {
    server s;
    test_client client({s.address()});
    auto held = client.hold("k");
    std::optional<lease_end> end;
    held.wait_end(noting(end));
    auto const lock_wait = held.deadline();
    BOOST_TEST(!extend(client, held, 2s));
    BOOST_TEST((held.deadline() < lock_wait));
    BOOST_TEST((held.remaining() <= 2s));
    BOOST_TEST(left_on(s, "k") > 2'000); // no extension shortens the life of a key
    // The watchdog keeps it alive with the short ttl, for longer than that.
    auto const end = lease_clock::now() + 2500ms;
    BOOST_REQUIRE(client.until([&] { return lease_clock::now() >= end; }));
    BOOST_TEST(held.held());
    BOOST_TEST(!end.has_value());
    BOOST_TEST(client.releases(held));
}

BOOST_AUTO_TEST_CASE(a_shorter_ttl_that_no_server_confirms_ends_the_lease_in_time) {
    server s;
    test_client client({s.address()});
    auto held = client.hold("k");
    std::optional<lease_end> end, early;
    held.wait_end(noting(end));
    held.wait_end(500ms, noting(early));
    s.freeze();
    std::optional<error> how;
    held.extend(1s, [&](error e) { how = std::move(e); });
    BOOST_REQUIRE(client.until([&] { return end.has_value() && how.has_value(); }));
    BOOST_TEST(*end == lease_end::expired);
    BOOST_TEST(early.has_value());
    BOOST_TEST((*how == errc::lease_lost), how->what());
    BOOST_TEST(!held.held());
    s.thaw();
}

BOOST_AUTO_TEST_CASE(a_ttl_out_of_range_is_refused) {
    server s;
    test_client client({s.address()});
    auto held = client.hold("k");
    for (auto const ttl : {9ms, 0ms, -1ms, 60'001ms}) {
        BOOST_CHECK_EXCEPTION((void)held.extend(ttl), system_error, [&](system_error const& e) {
            return e.code() == errc::invalid_options &&
                   contains(e.what(), "ttl is " + std::to_string(ttl.count()) + " ms");
        });
    }
    BOOST_TEST(held.held());
    lease empty;
    BOOST_CHECK_EXCEPTION((void)empty.extend(1s), system_error,
                          [](system_error const& e) { return e.code() == errc::lease_released; });
}

// A tenure with a short ttl is not handed on to a waiter that wants more.
BOOST_AUTO_TEST_CASE(a_waiter_gets_the_ttl_that_it_asked_for) {
    server s;
    test_client client({s.address()});
    auto held = client.hold("k", {.ttl = 30s});
    BOOST_TEST(!extend(client, held, 5s));
    attempt next;
    next.start(client.locks.make_lock("k", {.ttl = 30s}));
    BOOST_REQUIRE(waits(client));
    BOOST_TEST(client.releases(held));
    auto const given = wait_for_lease(client, next);
    BOOST_TEST((given.remaining() > 20s));
    BOOST_TEST(client.locks.stats().handovers == 0U);
}

//
// detach()
//

BOOST_AUTO_TEST_CASE(a_detached_lease_leaves_its_key_to_its_ttl) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    {
        auto held = client.hold("k");
        BOOST_REQUIRE(client.sees(servers, "k", true));
        std::optional<lease_end> end;
        held.wait_end(noting(end));
        BOOST_TEST(held.ended_by() == lease_end::none);
        held.detach();
        BOOST_TEST(!held.held());
        BOOST_TEST(held.ended_by() == lease_end::released);
        BOOST_REQUIRE(client.until([&] { return end.has_value(); }));
        BOOST_TEST(*end == lease_end::released);
        BOOST_TEST((client.release(held) == errc::lease_released));
        BOOST_TEST((client.extend(held) == errc::lease_released));
        held.detach(); // does nothing more
    }
    BOOST_REQUIRE(client.until([&] { return is_idle(client.locks); }));
    // Neither the destructor nor the release has deleted it, and others are kept out.
    BOOST_TEST(copies(servers, "k") == 3U);
    BOOST_TEST((client.try_acquire("k").first == errc::contended));
    test_client other(servers);
    BOOST_TEST((other.try_acquire("k").first == errc::contended));
    BOOST_TEST(client.locks.stats().released == 1U);
    BOOST_TEST(client.locks.stats().lost == 0U);
}

BOOST_AUTO_TEST_CASE(the_key_of_a_detached_lease_goes_by_itself) {
    server s;
    test_client client({s.address()});
    auto held = client.hold("k", {.ttl = 1s});
    attempt next;
    next.start(client.locks.make_lock("k", long_lived));
    BOOST_REQUIRE(waits(client));
    held.detach();
    auto const given = wait_for_lease(client, next);
    BOOST_TEST(redis_cli(s).info("expired_keys") == "1"); // nobody deleted it
    BOOST_TEST(client.locks.stats().handovers == 0U);
}

BOOST_AUTO_TEST_CASE(a_shared_lease_is_detached_for_all) {
    server s;
    test_client client({s.address()});
    auto held = client.hold("k");
    auto other = held.share();
    other.detach();
    BOOST_TEST(!held.held());
    BOOST_TEST((client.release(held) == errc::lease_released));
    held = {};
    other = {};
    BOOST_REQUIRE(client.until([&] { return is_idle(client.locks); }));
    BOOST_TEST(redis_cli(s).exists("k"));
}

BOOST_AUTO_TEST_CASE(a_drain_does_not_wait_for_a_detached_lease) {
    server s;
    test_client client({s.address()});
    auto held = client.hold("k");
    held.detach();
    std::optional<error> drained;
    client.locks.drain(20s, [&](error e) { drained = std::move(e); });
    BOOST_REQUIRE(client.until([&] { return drained.has_value(); }));
    BOOST_TEST(!*drained);
    BOOST_TEST(redis_cli(s).exists("k"));
}

BOOST_AUTO_TEST_SUITE_END()
