// Callers that wait while too few instances can grant a lock.
#include <holdfast/client.hpp>

#include "integration/proxy_group.hpp"
#include "integration/test_client.hpp"
#include "support/fleet.hpp"
#include "support/redis_cli.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

/// An acquire of the lock "k" that a test may watch.
struct call {
    explicit call(test_client& c, lock_options const& options = long_lived)
        : client(c)
        , key(c.locks.make_lock("k", options)) {}

    auto handler() {
        return [this](error e, lease l) { result.emplace(std::move(e), std::move(l)); };
    }
    [[nodiscard]] bool ends() {
        return client.until([&] { return result.has_value(); }, 30s);
    }
    [[nodiscard]] bool succeeds() { return ends() && !result->first && result->second.held(); }
    std::string what() const { return result ? result->first.what() : "it waits"; }
    errc code() const { return static_cast<errc>(result->first.code().value()); }

    test_client& client;
    lock key;
    std::optional<std::pair<error, lease>> result;
};

/// One server behind a proxy, and a client that connects again soon.
struct single {
    single() { BOOST_REQUIRE(p.all_up()); }
    void lose() {
        ways[0].down();
        BOOST_REQUIRE(p.becomes(0, instance_state::down));
    }

    fleet servers{1};
    proxy_group ways{servers};
    test_client p{ways.addresses(), trusting(hasty())};
};

} // namespace

BOOST_AUTO_TEST_SUITE(outages)

BOOST_AUTO_TEST_CASE(a_reset_connection_fails_no_acquire_with_a_limit) {
    fleet servers(3);
    proxy_group ways(servers);
    test_client p(ways.addresses(), trusting(patient()));
    for (auto i = 0; i < 20; ++i) {
        BOOST_REQUIRE(p.all_up());
        for (auto& way : ways.all) way.cut(proxy::cut_kind::reset);
        call c(p);
        c.key.try_acquire_for(20s, c.handler());
        BOOST_TEST(c.succeeds(), c.what());
        BOOST_TEST(p.releases(c.result->second));
    }
}

BOOST_FIXTURE_TEST_CASE(an_acquire_waits_until_the_servers_are_back, single) {
    lose();
    call without_limit(p);
    without_limit.key.acquire(without_limit.handler());
    BOOST_TEST(p.until([&] { return p.locks.stats().waiters == 1U; }));
    // A try fails at once, and reports what stands in its way.
    auto const [e, none] = p.try_acquire("k");
    BOOST_TEST((e == errc::unreachable), e.what());
    BOOST_TEST(!without_limit.result.has_value());
    ways[0].up();
    BOOST_TEST(without_limit.succeeds(), without_limit.what());
}

BOOST_FIXTURE_TEST_CASE(a_limit_ends_with_the_cause_of_the_outage, single) {
    lose();
    call c(p);
    c.key.try_acquire_for(500ms, c.handler());
    BOOST_REQUIRE(c.ends());
    BOOST_TEST((c.code() == errc::unreachable), c.what());
    BOOST_TEST((c.result->first.report()->waited >= 499ms));
    // Not one try per turn of the loop.
    BOOST_TEST(p.locks.stats().rounds < 12U);
    BOOST_TEST(p.idle());
}

// A holder that was seen before is not the cause.
BOOST_FIXTURE_TEST_CASE(a_limit_ends_with_the_silence_of_the_servers, single) {
    test_client holder(servers);
    auto const held = holder.hold("k");
    call c(p);
    c.key.try_acquire_for(3s, c.handler());
    BOOST_REQUIRE(p.until([&] { return p.locks.stats().waiters == 1U; }));
    servers.freeze(1);
    BOOST_REQUIRE(c.ends());
    servers.thaw_all();
    BOOST_TEST((c.result->first == error_condition::unavailable), c.what());
}

BOOST_FIXTURE_TEST_CASE(with_the_policy_fail_an_acquire_fails_at_once, single) {
    lose();
    call c(p, impatient());
    c.key.acquire(c.handler());
    BOOST_REQUIRE(c.ends());
    BOOST_TEST((c.code() == errc::unreachable), c.what());
    BOOST_TEST((c.result->first.report()->attempts == 1U));
}

BOOST_AUTO_TEST_CASE(a_quarantine_is_waited_for) {
    fleet servers(1);
    auto options = brisk();
    options.max_ttl = 2s;
    test_client p(servers, options);
    BOOST_REQUIRE(p.all_up());
    servers[0].kill();
    servers[0].restart();
    BOOST_REQUIRE(p.becomes(0, instance_state::quarantined));
    auto const until = p.status(0).quarantined_until;
    call c(p, {.ttl = 2s});
    c.key.try_acquire_for(20s, c.handler());
    BOOST_TEST(c.succeeds(), c.what());
    BOOST_TEST((lease_clock::now() >= until));
}

BOOST_AUTO_TEST_CASE(a_wrong_password_is_not_waited_for) {
    fleet servers(1);
    redis_cli(servers[0])
        .command({"ACL", "SETUSER", "other", "on", ">secret", "~*", "&*", "+@all"});
    test_client p({"redis://other:wrong@" + servers[0].address()}, patient());
    call c(p);
    c.key.acquire(c.handler());
    BOOST_REQUIRE(c.ends());
    BOOST_TEST((c.code() == errc::access_denied), c.what());
}

// A program may build them in a function, from strings that end there.
BOOST_AUTO_TEST_CASE(options_that_were_built_in_a_function_name_the_key) {
    fleet servers(1);
    auto const build = [](std::string const& name) {
        auto options = patient();
        options.key_prefix = name + ":of-a-service-with-a-long-name:";
        options.connection_name = name + "-connection-with-a-long-name";
        return options;
    };
    test_client p(servers, build("app"));
    auto const held = p.hold("k");
    BOOST_TEST(redis_cli(servers[0]).exists("app:of-a-service-with-a-long-name:k"));
}

BOOST_AUTO_TEST_SUITE_END()
