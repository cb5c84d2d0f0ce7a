// A minority freezes. No acquire, release or wait for a push may depend on the moment at which the
// client suspects it. The timeouts are longer than the tests wait.
#include <holdfast/client.hpp>

#include "protocol/tenure/round_trips.hpp"
#include "protocol/waiting/key_tracker.hpp"

#include "integration/proxy_group.hpp"
#include "integration/test_client.hpp"
#include "support/fleet.hpp"
#include "support/redis_cli.hpp"
#include "support/wait.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <future>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

client_options unsuspecting() {
    auto options = patient();
    options.instance_timeout = 60s;
    return options;
}

/// Five servers, and a client that knows their usual round trips.
struct fixture {
    fixture() {
        BOOST_REQUIRE(client.all_up());
        for (int i = 0; i < 20; ++i) {
            auto l = client.hold("warm");
            BOOST_REQUIRE(client.releases(l));
        }
        BOOST_REQUIRE(client.sees(servers, "warm", false));
    }

    void set(std::initializer_list<std::size_t> instances, std::string const& key) {
        for (auto const i : instances) redis_cli(servers[i]).set(key, "foreign");
    }
    void del(std::initializer_list<std::size_t> instances, std::string const& key) {
        for (auto const i : instances) redis_cli(servers[i]).del(key);
    }
    bool trusts(std::size_t i) { return client.status(i).state == instance_state::up; }

    fleet servers{5};
    test_client client{servers, unsuspecting()};
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(minority, fixture)

BOOST_AUTO_TEST_CASE(a_split_vote_does_not_wait_for_a_frozen_instance) {
    set({3, 4}, "k");
    servers.freeze(1);
    auto const [e, l] = client.try_acquire("k");
    BOOST_TEST((e == errc::contended), e.what());
    BOOST_TEST(trusts(0));
    for (auto const i : {1U, 2U}) BOOST_TEST(client.sees_no_locks(servers[i]));
    servers.thaw_all();
    BOOST_TEST(client.sees_no_locks(servers[0])); // the pending release is sent
}

BOOST_AUTO_TEST_CASE(a_release_does_not_wait_for_a_frozen_instance) {
    set({3, 4}, "k");
    auto l = client.hold("k");
    servers.freeze(1);
    auto const how = client.release(l);
    BOOST_TEST(how.confirmed(), how.code().message());
    BOOST_TEST(trusts(0));
    for (auto const i : {1U, 2U}) BOOST_TEST(client.sees_no_locks(servers[i]));
    servers.thaw_all();
    BOOST_TEST(client.sees_no_locks(servers[0]));
}

BOOST_AUTO_TEST_CASE(a_release_is_confirmed_when_an_instance_that_had_the_key_is_dead) {
    set({3, 4}, "k");
    auto l = client.hold("k");
    servers.kill(1);
    auto const how = client.release(l);
    BOOST_TEST(how.confirmed(), how.code().message());
    for (auto const i : {1U, 2U}) BOOST_TEST(client.sees_no_locks(servers[i]));
}

BOOST_AUTO_TEST_CASE(a_refusal_does_not_wait_for_a_frozen_instance) {
    set({0, 1, 2, 3, 4}, "k");
    servers.freeze(2);
    for (int i = 0; i < 3; ++i) {
        auto const [e, l] = client.try_acquire("k");
        BOOST_TEST((e == errc::contended), e.what());
        BOOST_REQUIRE(e.report() != nullptr);
    }
    BOOST_TEST((trusts(0) && trusts(1)));
}

// An instance that answered the try hangs at the inspection, and no other answer will come.
BOOST_AUTO_TEST_CASE(a_refusal_does_not_wait_for_the_name_of_the_holder) {
    proxy_group proxies(servers);
    std::promise<void> goes_on; // set by its destruction at the latest
    for (auto const i : {3U, 4U}) servers[i].kill();
    test_client proxied(proxies.addresses(), unsuspecting());
    BOOST_REQUIRE(proxied.until([&] {
        auto const all = proxied.locks.instances();
        return std::all_of(all.begin(), all.begin() + 3,
                           [](auto const& i) { return i.state == instance_state::up; });
    }));
    set({0, 1, 2}, "k");
    proxies[0].intercept([until = goes_on.get_future().share()](
                             command_line const& words) -> std::optional<std::string> {
        if (words[0] == "PTTL") until.wait();
        return std::nullopt;
    });
    auto const [e, l] = proxied.try_acquire("k");
    BOOST_TEST((e == errc::contended), e.what());
    goes_on.set_value();
}

namespace {

/// Acquires of many keys. The keys have different arbiters, and some of these freeze.
struct crowd {
    explicit crowd(test_client& client)
        : client_(client) {}

    void start(std::size_t keys) {
        for (std::size_t i = 0; i < keys; ++i) {
            client_.locks.make_lock(key(i), long_lived).acquire([this](error e, lease l) {
                BOOST_TEST(!e, e.what());
                held.push_back(std::move(l));
            });
        }
    }
    static std::string key(std::size_t i) { return "k" + std::to_string(i); }

    std::vector<lease> held;

private:
    test_client& client_;
};

} // namespace

BOOST_AUTO_TEST_CASE(a_frozen_arbiter_is_passed_over) {
    constexpr std::size_t keys = 20;
    for (std::size_t i = 0; i < keys; ++i) set({0, 1, 2, 3, 4}, crowd::key(i));
    servers.freeze(2);
    crowd all(client);
    all.start(keys);
    BOOST_REQUIRE(client.until([&] { return client.locks.stats().waiters == keys; }));
    for (std::size_t i = 0; i < keys; ++i) del({2, 3, 4}, crowd::key(i));
    BOOST_TEST(client.until([&] { return all.held.size() == keys; }));
    BOOST_TEST((trusts(0) && trusts(1)));
}

BOOST_AUTO_TEST_CASE(a_waiter_for_the_push_of_an_instance_that_freezes_asks_others) {
    constexpr std::size_t keys = 20;
    for (std::size_t i = 0; i < keys; ++i) set({0, 1, 2, 3, 4}, crowd::key(i));
    crowd all(client);
    all.start(keys);
    // Each acquire waits for the push of its arbiter.
    auto const tries = [&] { return client.locks.stats().rounds; };
    BOOST_REQUIRE(client.until([&] { return tries() >= 20U + 2 * keys; }));
    servers.freeze(2);
    auto other = client.hold("other"); // its command gets no answer from the frozen instances
    for (std::size_t i = 0; i < keys; ++i) del({2, 3, 4}, crowd::key(i));
    BOOST_TEST(client.until([&] { return all.held.size() == keys; }));
    BOOST_TEST((trusts(0) && trusts(1)));
}

// No other instance is better. Usually the process itself did not run.
BOOST_AUTO_TEST_CASE(a_waiter_keeps_its_arbiter_when_all_instances_are_late_at_once) {
    constexpr std::size_t keys = 20;
    for (std::size_t i = 0; i < keys; ++i) set({0, 1, 2, 3, 4}, crowd::key(i));
    crowd all(client);
    all.start(keys);
    auto const tries = [&] { return client.locks.stats().rounds; };
    BOOST_REQUIRE(client.until(
        [&] { return tries() >= 20U + 2 * keys && client.locks.stats().waiters == keys; }));
    // Waits until no command is under way. Then each waiter has asked the instances that will push.
    client.pass(lease_clock::now() + 3 * protocol::tracking_rules::settled_after);
    servers.freeze(5);
    auto const before = tries();
    std::optional<lease> other;
    client.locks.make_lock("other", long_lived).acquire([&](error, lease l) {
        other = std::move(l);
    });
    BOOST_REQUIRE(client.until([&] { return tries() > before; }));
    // The client runs no turn until all answers are late by any measure.
    auto const all_late = lease_clock::now() + 2 * protocol::round_trip::longest_patience;
    BOOST_REQUIRE(wait_until([&] { return lease_clock::now() >= all_late; }));
    for (int i = 0; i < 10; ++i) {
        client.pass(lease_clock::now() + 30ms);
        client.locks.make_lock("other", long_lived).try_acquire([](error, lease) {});
    }
    BOOST_TEST(tries() == before + 1);
    servers.thaw_all();
    BOOST_REQUIRE(client.until([&] { return other.has_value(); }));
    for (std::size_t i = 0; i < keys; ++i) del({0, 1, 2, 3, 4}, crowd::key(i));
    BOOST_TEST(client.until([&] { return all.held.size() == keys; }));
}

BOOST_AUTO_TEST_SUITE_END()
