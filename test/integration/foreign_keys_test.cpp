// Keys that disappear, and keys of other clients. A lease that has lost its majority ends, and no
// key of another client is changed.
#include "integration/loss_wait.hpp"
#include "integration/test_client.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(foreign_keys)

//
// Keys that disappear, and keys of other clients
//

BOOST_AUTO_TEST_CASE(a_minority_that_lost_the_key_gets_it_back) {
    fleet servers(3);
    redis_cli cli(servers[0]);
    test_client client(servers);
    BOOST_TEST(client.all_up());
    auto l = client.hold("k", {.ttl = renewed_ttl});
    auto const token = redis_cli(servers[1]).get("k").value_or("no key");
    BOOST_REQUIRE(client.until([&] { return cli.exists("k"); }));
    BOOST_TEST(cli.get("k").value() == token);
    BOOST_TEST(cli.del("k"));
    BOOST_TEST(client.until([&] { return cli.exists("k"); }));
    BOOST_TEST(cli.get("k").value_or("gone") == token);
    BOOST_TEST((cli.pttl("k") > 0ms && cli.pttl("k") <= renewed_ttl));
    BOOST_TEST(l.held());

    servers[0].kill(); // the instance loses all its data
    servers[0].restart();
    BOOST_TEST(client.until([&] { return cli.exists("k"); }));
    BOOST_TEST(client.releases(l));
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(a_majority_that_lost_the_key_ends_the_lease) {
    fleet servers(3);
    test_client client(servers);
    BOOST_TEST(client.all_up());
    auto l = client.hold("k", {.ttl = renewed_ttl});
    loss_wait lost(l);
    for (server& instance : servers) {
        redis_cli cli(instance);
        BOOST_REQUIRE(client.until([&] { return cli.exists("k"); }));
    }
    BOOST_TEST(redis_cli(servers[0]).del("k"));
    BOOST_TEST(redis_cli(servers[1]).del("k"));
    BOOST_TEST(client.until([&] { return lost.done; }));
    BOOST_TEST(lost.how == lease_end::key_gone);
    BOOST_TEST(!l.held());
    check_nothing_left(client, servers);
    BOOST_TEST((client.release(l) == errc::lease_lost));
    BOOST_TEST(client.locks.stats().lost == 1U);

    // The client deletes the remaining keys at once.
    auto other = client.hold("long");
    for (std::size_t const i : {0U, 1U}) BOOST_TEST(redis_cli(servers[i]).del("long"));
    auto const e = client.extend(other);
    BOOST_TEST((e == errc::lease_lost), e.what());
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(an_extension_never_takes_the_key_from_another) {
    fleet servers(3);
    test_client client(servers);
    BOOST_TEST(client.all_up());
    auto l = client.hold("k", {.ttl = renewed_ttl});
    loss_wait lost(l);
    for (server& instance : servers) {
        redis_cli cli(instance);
        BOOST_REQUIRE(client.until([&] { return cli.exists("k"); }));
        BOOST_TEST(cli.del("k"));
        BOOST_TEST(cli.set_if_absent("k", "foreign", 60s));
    }
    auto const unchanged = [&] {
        for (server& instance : servers) {
            redis_cli cli(instance);
            BOOST_TEST(cli.get("k").value_or("gone") == "foreign");
            BOOST_TEST((cli.pttl("k") > 30s));
        }
    };
    BOOST_TEST(client.until([&] { return lost.done; }));
    BOOST_TEST(lost.how == lease_end::key_gone);
    unchanged();
    BOOST_TEST((client.release(l) == errc::lease_lost));
    auto behind = client.hold("behind"); // all earlier commands were carried out
    BOOST_TEST(client.releases(behind));
    for (server& instance : servers) {
        redis_cli cli(instance);
        BOOST_TEST(client.until([&] { return cli.dbsize() == 1; }));
    }
    unchanged();
}

BOOST_AUTO_TEST_CASE(healing_never_takes_the_key_from_another) {
    fleet servers(3);
    redis_cli cli(servers[0]);
    test_client client(servers);
    BOOST_TEST(client.all_up());
    auto l = client.hold("k", {.ttl = renewed_ttl});
    BOOST_REQUIRE(client.until([&] { return cli.exists("k"); }));
    BOOST_TEST(cli.del("k"));
    BOOST_TEST(cli.set_if_absent("k", "foreign", 60s));
    BOOST_TEST(client.renews(3));
    BOOST_TEST(l.held());
    BOOST_TEST(cli.get("k").value_or("gone") == "foreign");
    BOOST_TEST(client.releases(l));
    BOOST_TEST(client.sees_no_locks(servers[1]));
    auto behind = client.hold("behind");
    BOOST_TEST(client.releases(behind));
    BOOST_TEST(client.until([&] { return cli.dbsize() == 1; }));
    BOOST_TEST(cli.get("k").value_or("gone") == "foreign");
}

BOOST_AUTO_TEST_CASE(a_release_deletes_no_key_of_another) {
    fleet servers(3);
    test_client client(servers);
    BOOST_TEST(client.all_up());
    for (std::size_t const taken : {3U, 2U, 1U}) {
        BOOST_TEST_CONTEXT(taken << " of 3 taken") {
            auto l = client.hold("k", {.ttl = 60s, .watchdog = false});
            for (server& instance : servers) {
                redis_cli cli(instance);
                BOOST_REQUIRE(client.until([&] { return cli.exists("k"); }));
            }
            for (std::size_t i = 0; i < taken; ++i) redis_cli(servers[i]).set("k", "foreign", 60s);
            auto const result = client.release(l);
            if (taken == 1) {
                BOOST_TEST(!result.code().failed());
            } else {
                BOOST_TEST((result == errc::lease_lost));
            }
            BOOST_TEST(!l.held());
            for (std::size_t i = taken; i < 3; ++i) BOOST_TEST(client.sees_no_locks(servers[i]));
            auto behind = client.hold("behind");
            BOOST_TEST(client.releases(behind));
            for (std::size_t i = 0; i < taken; ++i) {
                redis_cli cli(servers[i]);
                BOOST_TEST(client.until([&] { return cli.dbsize() == 1; }));
                BOOST_TEST(cli.get("k").value_or("gone") == "foreign");
                BOOST_TEST(cli.del("k"));
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(a_lost_lease_says_so_when_released) {
    fleet servers(3);
    test_client client(servers);
    auto l = client.hold("k", unwatched(2s));
    loss_wait lost(l);
    BOOST_REQUIRE(client.until([&] { return lost.done; }));
    BOOST_TEST(lost.how == lease_end::expired);
    BOOST_TEST(l.ended_by() == lease_end::expired);
    BOOST_TEST(!l.held());
    BOOST_TEST((client.release(l) == errc::lease_lost));
    BOOST_TEST((client.release(l) == errc::lease_lost)); // the second call gives the same result
    BOOST_TEST(l.ended_by() == lease_end::expired);      // and the end stays what it was

    auto other = client.hold("k");
    BOOST_TEST(client.releases(other));
    BOOST_TEST((client.release(other) == errc::lease_released));
    BOOST_TEST(other.ended_by() == lease_end::released);
}

BOOST_AUTO_TEST_CASE(an_unwatched_lease_ends_at_its_first_deadline) {
    fleet servers(3);
    test_client client(servers);
    BOOST_TEST(client.all_up());
    auto in_time = false;
    for (int i = 0; i < 3 && !in_time; ++i) { // see loss_is_told_by_the_deadline_..
        auto l = client.hold("k", unwatched(2s));
        auto const deadline = l.deadline();
        loss_wait lost(l);
        client.pass(deadline - 100ms);
        BOOST_TEST((lost.done || l.held() || lease_clock::now() >= deadline));
        BOOST_TEST(client.until([&] { return lost.done; }));
        BOOST_TEST(lost.how == lease_end::expired);
        in_time = lost.when <= deadline;
        BOOST_TEST((lost.when + 50ms >= deadline), "told long before the deadline");
        BOOST_TEST((l.deadline() == deadline));
        check_nothing_left(client, servers);
    }
    BOOST_TEST(in_time, "the loss was told after the deadline");
    BOOST_TEST(client.locks.stats().extended == 0U);
}

BOOST_AUTO_TEST_CASE(extending_by_hand_moves_the_deadline) {
    fleet servers(3);
    test_client client(servers);
    BOOST_TEST(client.all_up());
    constexpr auto ttl = 3s;
    auto l = client.hold("k", unwatched(ttl));
    auto const first = l.deadline();
    loss_wait lost(l);
    for (std::uint64_t i = 1; lease_clock::now() < first + 100ms; ++i) {
        auto const before = l.deadline();
        client.pass(lease_clock::now() + 400ms);
        BOOST_TEST(!client.extend(l));
        BOOST_TEST((l.deadline() >= before + 400ms));
        BOOST_TEST((l.deadline() <= lease_clock::now() + ttl));
        BOOST_TEST(client.locks.stats().extended == i);
    }
    BOOST_TEST(l.held());
    BOOST_TEST(!lost.done);
    for (server& instance : servers) BOOST_TEST((redis_cli(instance).pttl("k") > 0ms));
    BOOST_TEST(client.releases(l));
    BOOST_TEST(client.until([&] { return lost.done; }));
    BOOST_TEST(lost.how == lease_end::released);
}

//
// Other clients
//

BOOST_AUTO_TEST_CASE(foreign_clients_are_excluded_and_exclude) {
    fleet servers(3);
    test_client client(servers);
    BOOST_TEST(client.all_up());
    std::vector<redis_cli> foreign;
    for (server& instance : servers) foreign.emplace_back(instance);

    auto l = client.hold("k");
    for (auto& cli : foreign) {
        BOOST_REQUIRE(client.until([&] { return cli.exists("k"); }));
        BOOST_TEST(!cli.set_if_absent("k", "foreign", 10s));
        BOOST_TEST(!cli.del_if_equal("k", "foreign"));
    }
    auto const token = foreign[0].get("k").value();
    BOOST_TEST(token.size() >= 16U);
    for (auto& cli : foreign) BOOST_TEST(cli.get("k").value() == token);
    // A client that knows the token can release the lock.
    for (auto& cli : foreign) BOOST_TEST(cli.del_if_equal("k", token));
    auto const gone = client.extend(l);
    BOOST_TEST((gone == errc::lease_lost), gone.what());

    for (auto& cli : foreign) BOOST_TEST(cli.set_if_absent("k", "foreign", 60s));
    auto const [e, none] = client.try_acquire("k");
    BOOST_TEST((e == errc::contended), e.what());
    auto got = false;
    lease next;
    client.locks.make_lock("k").acquire([&](error failed, lease won) {
        BOOST_TEST(!failed, failed.what());
        next = std::move(won);
        got = true;
    });
    BOOST_TEST(client.until([&] { return client.locks.stats().waiters == 1; }));
    BOOST_TEST(!got);
    for (auto& cli : foreign) BOOST_TEST(cli.del_if_equal("k", "foreign"));
    BOOST_TEST(client.until([&] { return got; }));
    BOOST_TEST(next.held());
    BOOST_REQUIRE(client.until([&] { return foreign[0].exists("k"); }));
    auto const other = foreign[0].get("k").value();
    BOOST_TEST(other != token, "every lease has a token of its own");
    BOOST_TEST(other != "foreign");
}

BOOST_AUTO_TEST_SUITE_END()
