// Sets of instances of other sizes, and other addresses, databases and prefixes.
#include "integration/loss_watch.hpp"
#include "integration/party.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <string>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(setups)

BOOST_AUTO_TEST_CASE(an_even_number_of_instances_needs_more_than_half) {
    with_fleets_of({2, 4}, [](fleet& servers) {
        auto const n = servers.size();
        party p(servers);
        BOOST_TEST(p.all_up());
        auto l = p.hold("k", {.ttl = renewed_ttl});
        BOOST_TEST(p.renews(2));
        BOOST_TEST(p.releases(l));
        check_nothing_left(p, servers);

        // A tie is a loss for both.
        for (std::size_t i = 0; i < n / 2; ++i)
            BOOST_TEST(redis_cli(servers[i]).set_if_absent("k", "foreign", 60s));
        auto const [tie, none] = p.try_acquire("k");
        BOOST_TEST((tie == errc::contended), tie.what());
        for (auto i = n / 2; i < n; ++i) BOOST_TEST(p.sees_no_locks(servers[i]));
        for (std::size_t i = 0; i < n / 2; ++i) BOOST_TEST(redis_cli(servers[i]).del("k"));

        servers.kill(n / 2 - 1);
        auto again = p.hold("k");
        BOOST_TEST(p.releases(again));
        servers.kill(n / 2);
        auto const [e, nothing] = p.acquire("k");
        BOOST_TEST((e == error_condition::unavailable), e.what());
        for (auto i = n / 2; i < n; ++i) BOOST_TEST(p.sees_no_locks(servers[i]));
    });
}

BOOST_AUTO_TEST_CASE(one_instance_is_a_set_of_one) {
    server redis;
    party p({redis.address()}, trusting(patient()));
    party q({redis.address()});
    auto l = p.hold("k", {.ttl = renewed_ttl});
    BOOST_TEST(p.renews(2));
    auto const [e, none] = q.try_acquire("k");
    BOOST_TEST((e == errc::contended), e.what());
    BOOST_TEST(p.releases(l));
    auto other = q.hold("k");
    loss_watch lost(other);
    redis_cli(redis).del("k");
    auto const gone = q.extend(other);
    BOOST_TEST((gone == errc::lease_lost), gone.what());
    BOOST_TEST(lost.done);
    redis.kill();
    auto const [down, nothing] = p.acquire("k");
    BOOST_TEST((down == error_condition::unavailable), down.what());
    BOOST_TEST(p.becomes(0, instance_state::down));
    redis.restart();
    BOOST_TEST(p.all_up());
    auto again = p.hold("k");
    BOOST_TEST(p.releases(again));
}

BOOST_AUTO_TEST_CASE(a_unix_socket_will_do) {
    server redis;
    redis_cli cli(redis);
    party p({"unix:" + redis.unix_socket()}, trusting(patient()));
    party q({redis.address()});
    auto l = p.hold("k", {.ttl = renewed_ttl});
    BOOST_TEST(p.locks.instances().at(0).address == "unix:" + redis.unix_socket());
    BOOST_TEST(cli.exists("k"));
    auto const [e, none] = q.try_acquire("k");
    BOOST_TEST((e == errc::contended), e.what());
    BOOST_TEST(p.renews(2));
    BOOST_TEST(p.releases(l));
    check_nothing_left(redis);
    redis.kill();
    BOOST_TEST(p.becomes(0, instance_state::down));
    redis.restart();
    BOOST_TEST(p.all_up());
    auto again = p.hold("k");
    BOOST_TEST(cli.exists("k"));
}

BOOST_AUTO_TEST_CASE(a_logical_database_has_locks_of_its_own) {
    server redis;
    redis_cli zero(redis);
    redis_cli five(redis);
    BOOST_TEST(five.command({"SELECT", "5"}).is_ok());
    party p({"redis://" + redis.address() + "/5"}, trusting(patient()));
    party q({redis.address()});
    auto l = p.hold("k");
    BOOST_TEST(five.exists("k"));
    BOOST_TEST(!zero.exists("k"));
    auto other = q.hold("k");
    BOOST_TEST(p.releases(l));
    BOOST_TEST(!five.exists("k"));
    BOOST_TEST(zero.exists("k"));
    redis.kill();
    BOOST_TEST(p.becomes(0, instance_state::down));
    redis.restart();
    BOOST_TEST(p.all_up());
    auto again = p.hold("k");
    BOOST_TEST(zero.dbsize() == 0);
    redis_cli five_again(redis);
    BOOST_TEST(five_again.command({"SELECT", "5"}).is_ok());
    BOOST_TEST(five_again.exists("k"));

    party none({"redis://" + redis.address() + "/4711"});
    auto const [e, nothing] = none.acquire("k");
    BOOST_TEST((e == errc::rejected), e.what());
}

BOOST_AUTO_TEST_CASE(a_prefix_stands_before_every_key) {
    fleet servers(3);
    auto options = patient();
    options.key_prefix = "app:";
    party p(servers, options);
    party q(servers);
    BOOST_TEST(p.all_up());
    BOOST_TEST(q.all_up());
    auto l = p.hold("k");
    BOOST_TEST(l.key() == "app:k");
    BOOST_TEST(p.locks.make_lock("k").key() == "app:k");
    for (server& one : servers) {
        redis_cli cli(one);
        BOOST_TEST(p.until([&] { return cli.exists("app:k"); }));
        BOOST_TEST(!cli.exists("k"));
    }
    auto const [e, none] = q.try_acquire("app:k");
    BOOST_TEST((e == errc::contended), e.what());
    auto other = q.hold("k");
    BOOST_TEST(p.releases(l));
    for (server& one : servers) {
        redis_cli cli(one);
        BOOST_TEST(p.until([&] { return !cli.exists("app:k"); }));
        BOOST_TEST(q.until([&] { return cli.exists("k"); }));
    }
}

BOOST_AUTO_TEST_SUITE_END()
