// Other numbers of instances, other addresses, databases and prefixes.
#include "integration/loss_wait.hpp"
#include "integration/test_client.hpp"

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
        test_client client(servers);
        BOOST_TEST(client.all_up());
        auto l = client.hold("k", {.ttl = renewed_ttl});
        BOOST_TEST(client.renews(2));
        BOOST_TEST(client.releases(l));
        check_nothing_left(client, servers);

        // A tie gives no client the lock.
        for (std::size_t i = 0; i < n / 2; ++i)
            BOOST_TEST(redis_cli(servers[i]).set_if_absent("k", "foreign", 60s));
        auto const [tie, none] = client.try_acquire("k");
        BOOST_TEST((tie == errc::contended), tie.what());
        for (auto i = n / 2; i < n; ++i) BOOST_TEST(client.sees_no_locks(servers[i]));
        for (std::size_t i = 0; i < n / 2; ++i) BOOST_TEST(redis_cli(servers[i]).del("k"));

        servers.kill(n / 2 - 1);
        auto again = client.hold("k");
        BOOST_TEST(client.releases(again));
        servers.kill(n / 2);
        auto const [e, nothing] = client.acquire("k");
        BOOST_TEST((e == error_condition::unavailable), e.what());
        for (auto i = n / 2; i < n; ++i) BOOST_TEST(client.sees_no_locks(servers[i]));
    });
}

BOOST_AUTO_TEST_CASE(one_instance_is_a_set_of_one) {
    server redis;
    test_client client({redis.url()}, trusting(patient()));
    test_client second({redis.url()});
    auto l = client.hold("k", {.ttl = renewed_ttl});
    BOOST_TEST(client.renews(2));
    auto const [e, none] = second.try_acquire("k");
    BOOST_TEST((e == errc::contended), e.what());
    BOOST_TEST(client.releases(l));
    auto other = second.hold("k");
    loss_wait lost(other);
    redis_cli(redis).del("k");
    auto const gone = second.extend(other);
    BOOST_TEST((gone == errc::lease_lost), gone.what());
    BOOST_TEST(lost.how == lease_end::key_gone);
    redis.kill();
    auto const [down, nothing] = client.acquire("k");
    BOOST_TEST((down == error_condition::unavailable), down.what());
    BOOST_TEST(client.becomes(0, instance_state::down));
    redis.restart();
    BOOST_TEST(client.all_up());
    auto again = client.hold("k");
    BOOST_TEST(client.releases(again));
}

BOOST_AUTO_TEST_CASE(a_unix_socket_will_do) {
    server redis;
    redis_cli cli(redis);
    test_client client({"unix:" + redis.unix_socket()}, trusting(patient()));
    test_client second({redis.url()});
    auto l = client.hold("k", {.ttl = renewed_ttl});
    BOOST_TEST(client.locks.instances().at(0).address == "unix:" + redis.unix_socket());
    BOOST_TEST(cli.exists("k"));
    auto const [e, none] = second.try_acquire("k");
    BOOST_TEST((e == errc::contended), e.what());
    BOOST_TEST(client.renews(2));
    BOOST_TEST(client.releases(l));
    check_nothing_left(redis);
    redis.kill();
    BOOST_TEST(client.becomes(0, instance_state::down));
    redis.restart();
    BOOST_TEST(client.all_up());
    auto again = client.hold("k");
    BOOST_TEST(cli.exists("k"));
}

BOOST_AUTO_TEST_CASE(a_unix_socket_has_users_and_databases) {
    server redis({.arguments = {"--requirepass", "p@ss word"}});
    redis_cli five(redis, "p@ss word");
    BOOST_TEST(five.command({"SELECT", "5"}).is_ok());
    address_parts parts{.socket_path = redis.unix_socket(), .database = 5};
    parts.credentials = {.user = "default", .password = "p@ss word"};
    for (address const& a :
         {address("unix://default:p%40ss%20word@" + redis.unix_socket() + "?db=5"),
          address("unix://:p%40ss%20word@" + redis.unix_socket() + "?db=5"), address(parts)}) {
        test_client client({a}, trusting(patient()));
        auto l = client.hold("k");
        BOOST_TEST(client.status(0).address == "unix:" + redis.unix_socket());
        BOOST_TEST(five.exists("k"));
        BOOST_TEST(client.releases(l));
        BOOST_TEST(!five.exists("k"));
    }
    test_client none({"unix:" + redis.unix_socket()});
    auto const [e, nothing] = none.acquire("k");
    BOOST_TEST((e == errc::access_denied), e.what());
}

BOOST_AUTO_TEST_CASE(a_logical_database_has_locks_of_its_own) {
    server redis;
    redis_cli zero(redis);
    redis_cli five(redis);
    BOOST_TEST(five.command({"SELECT", "5"}).is_ok());
    test_client client({"redis://" + redis.address() + "/5"}, trusting(patient()));
    test_client second({redis.url()});
    auto l = client.hold("k");
    BOOST_TEST(five.exists("k"));
    BOOST_TEST(!zero.exists("k"));
    auto other = second.hold("k");
    BOOST_TEST(client.releases(l));
    BOOST_TEST(!five.exists("k"));
    BOOST_TEST(zero.exists("k"));
    redis.kill();
    BOOST_TEST(client.becomes(0, instance_state::down));
    redis.restart();
    BOOST_TEST(client.all_up());
    auto again = client.hold("k");
    BOOST_TEST(zero.dbsize() == 0);
    redis_cli five_again(redis);
    BOOST_TEST(five_again.command({"SELECT", "5"}).is_ok());
    BOOST_TEST(five_again.exists("k"));

    test_client none({"redis://" + redis.address() + "/4711"});
    auto const [e, nothing] = none.acquire("k");
    BOOST_TEST((e == errc::rejected), e.what());
}

BOOST_AUTO_TEST_CASE(a_prefix_stands_before_every_key) {
    fleet servers(3);
    auto options = patient();
    options.key_prefix = "app:";
    test_client client(servers, options);
    test_client second(servers);
    BOOST_TEST(client.all_up());
    BOOST_TEST(second.all_up());
    auto l = client.hold("k");
    BOOST_TEST(l.key() == "app:k");
    BOOST_TEST(client.locks.make_lock("k").key() == "app:k");
    for (server& instance : servers) {
        redis_cli cli(instance);
        BOOST_TEST(client.until([&] { return cli.exists("app:k"); }));
        BOOST_TEST(!cli.exists("k"));
    }
    auto const [e, none] = second.try_acquire("app:k");
    BOOST_TEST((e == errc::contended), e.what());
    auto other = second.hold("k");
    BOOST_TEST(client.releases(l));
    for (server& instance : servers) {
        redis_cli cli(instance);
        BOOST_TEST(client.until([&] { return !cli.exists("app:k"); }));
        BOOST_TEST(second.until([&] { return cli.exists("k"); }));
    }
}

BOOST_AUTO_TEST_SUITE_END()
