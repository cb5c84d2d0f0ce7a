// Locks on several keys while servers, processes and other programs do their worst.
#include "integration/proxy_group.hpp"
#include "integration/sections.hpp"
#include "integration/set_crowd.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

constexpr lock_options in_order{.ttl = 60s, .max_retry_delay = 5ms, .patience = 1};

} // namespace

BOOST_AUTO_TEST_SUITE(multi_lock_faults)

BOOST_AUTO_TEST_CASE(a_frozen_minority_does_not_stop_contended_sets) {
    fleet servers(5);
    set_crowd c(addresses_of(servers), in_order);
    c.goes_on(200);
    servers.freeze(2);
    c.goes_on(400);
    servers.thaw_all();
    c.goes_on(200);
    c.stops();
    BOOST_TEST(c.lost == 0U);
    for (std::size_t i = 0; i < servers.size(); ++i) BOOST_TEST(c.group.sees_no_locks(servers[i]));
}

BOOST_AUTO_TEST_CASE(a_dead_minority_does_not_stop_contended_sets) {
    fleet servers(3);
    set_crowd c(addresses_of(servers), in_order);
    c.goes_on(200);
    servers.kill(1);
    c.goes_on(400);
    c.stops();
    BOOST_TEST(c.lost == 0U);
}

BOOST_AUTO_TEST_CASE(an_outage_is_waited_out) {
    fleet servers(3);
    set_crowd c(addresses_of(servers), in_order);
    c.goes_on(100);
    servers.freeze(3);
    auto const until = lease_clock::now() + 4s;
    BOOST_TEST(c.group.until([&] { return lease_clock::now() >= until; }));
    servers.thaw_all();
    c.goes_on(300);
    c.stops();
    for (std::size_t i = 0; i < servers.size(); ++i) BOOST_TEST(c.group.sees_no_locks(servers[i]));
}

BOOST_AUTO_TEST_CASE(connections_that_break_leave_nothing) {
    fleet servers(3);
    proxy_group proxies(servers);
    set_crowd c(proxies.addresses(), in_order);
    for (int i = 0; i < 20; ++i) {
        c.goes_on(30);
        proxies[static_cast<std::size_t>(i % 3)].cut();
    }
    c.goes_on(100);
    c.stops();
    for (std::size_t i = 0; i < servers.size(); ++i) BOOST_TEST(c.group.sees_no_locks(servers[i]));
}

BOOST_AUTO_TEST_CASE(programs_of_others_on_the_keys_are_excluded_both_ways) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    for (server& each : servers)
        (void)redis_cli(each).command({"SET", "b", "foreign", "NX", "PX", "60000"});
    auto const [e, none] = acquire_all(client, {"a", "b"}, long_lived, wait_for(300ms));
    BOOST_TEST((e == errc::wait_timeout), e.what());
    BOOST_TEST(contains(e.what(), "\"b\" held"), e.what());
    for (server& each : servers) redis_cli(each).del("b");
    auto [f, held] = acquire_all(client, {"a", "b"}, long_lived);
    BOOST_REQUIRE_MESSAGE(!f, f.what());
    std::size_t refused = 0;
    for (server& each : servers) {
        (void)redis_cli(each).command({"SET", "a", "foreign", "NX", "PX", "60000"});
        refused += redis_cli(each).get("a") != "foreign" ? 1U : 0U;
    }
    BOOST_TEST(refused >= servers.quorum());
    BOOST_TEST(client.releases(held));
}

BOOST_AUTO_TEST_CASE(a_key_that_is_no_lock_is_named) {
    fleet servers(3);
    test_client client(servers);
    for (server& each : servers) (void)redis_cli(each).command({"HSET", "b", "field", "value"});
    auto const [e, none] = acquire_all(client, {"a", "b"}, long_lived);
    BOOST_TEST((e == errc::wrong_type), e.what());
    BOOST_TEST(contains(e.what(), "\"b\""), e.what());
    BOOST_TEST(copies(servers, "a") == 0U);
}

BOOST_AUTO_TEST_CASE(a_flush_is_told_and_the_keys_are_free_again) {
    fleet servers(3);
    test_client client(servers, trusting(patient()));
    auto const got = acquire_all(client, {"a", "b"}, {.ttl = renewed_ttl});
    BOOST_REQUIRE_MESSAGE(!got.first, got.first.what());
    for (server& each : servers) (void)redis_cli(each).command({"FLUSHALL"});
    BOOST_REQUIRE(client.until([&] { return !got.second.held(); }));
    auto [f, again] = acquire_all(client, {"b", "a"}, long_lived);
    BOOST_TEST(!f, f.what());
}

BOOST_AUTO_TEST_CASE(a_client_that_shuts_down_gives_all_keys_back) {
    fleet servers(3);
    test_client other(servers);
    test_client client(servers);
    other.runs_with(client);
    auto in_the_way = other.hold("c");
    {
        BOOST_REQUIRE(client.all_up());
        auto [e, held] = acquire_all(client, {"x", "y"}, long_lived);
        BOOST_REQUIRE_MESSAGE(!e, e.what());
        auto over = 0;
        auto const waiting =
            client.locks.make_multi_lock({"a", "b", "c"}, {.ttl = 60s, .patience = 0});
        waiting.acquire([&](error f, lease) {
            BOOST_TEST((f == errc::shut_down), f.what());
            ++over;
        });
        auto const behind = client.locks.make_lock("b", long_lived);
        behind.acquire([&](error f, lease) {
            BOOST_TEST((f == errc::shut_down), f.what());
            ++over;
        });
        BOOST_REQUIRE(client.until([&] { return is_held(servers, "b"); }));
        auto down = false;
        client.locks.shutdown([&](error) { down = true; });
        BOOST_REQUIRE(client.until([&] { return down && over == 2; }));
    }
    for (auto const* const key : {"x", "y", "a", "b"}) BOOST_TEST(other.sees(servers, key, false));
    BOOST_TEST(other.releases(in_the_way));
}

namespace {

/// On several threads, where the macros of the tests may not be used.
struct counts {
    std::atomic<unsigned> won = 0, running = 0, overlaps = 0, thrown = 0;
};

/// Acquires with limits at random, from any thread.
asio::awaitable<void> hurry(lock on, std::vector<std::atomic<int>*> holders, unsigned rounds,
                            unsigned seed, counts& all) {
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> moment(0, 3'000);
    asio::steady_timer timer(co_await asio::this_coro::executor);
    for (unsigned i = 0; i < rounds; ++i) {
        auto const limit = std::chrono::microseconds(moment(random));
        auto token = asio::cancel_after(limit, asio::as_tuple(asio::use_awaitable));
        auto got = co_await on.acquire(token);
        if (std::get<0>(got)) continue;
        ++all.won;
        for (auto* const h : holders) all.overlaps += ++*h != 1 ? 1U : 0U;
        timer.expires_after(std::chrono::microseconds(moment(random) / 10));
        co_await timer.async_wait(asio::deferred);
        for (auto* const h : holders) --*h;
        if (i % 3 != 0) co_await std::get<1>(got).release();
    }
}

} // namespace

BOOST_AUTO_TEST_CASE(threads_that_cancel_at_random_leave_nothing) {
    fleet servers(3);
    asio::io_context context(4);
    client one(context.get_executor(), addresses_of(servers), patient());
    client two(context.get_executor(), addresses_of(servers), patient());
    std::map<std::string, std::atomic<int>> holders;
    for (auto const* const key : {"a", "b", "c"}) holders[key] = 0;
    counts all;
    unsigned seed = 0;
    auto const end = [&](std::exception_ptr e) {
        if (e) ++all.thrown;
        if (--all.running != 0) return;
        for (auto* const each : {&one, &two}) each->drain(10s, [each](error) { each->close(); });
    };
    std::vector<key_names> const wanted{{"a", "b"}, {"b", "c"}, {"c", "a"}, {"a", "b", "c"}, {"a"}};
    for (unsigned const patience : {0U, 1U, 4U}) {
        for (auto const& keys : wanted) {
            std::vector<std::atomic<int>*> of;
            for (auto const& key : keys) of.push_back(&holders[key]);
            for (auto* const each : {&one, &two}) {
                ++all.running;
                auto const on = each->make_multi_lock(keys, {.ttl = 60s, .patience = patience});
                asio::co_spawn(asio::make_strand(context), hurry(on, of, 150, ++seed, all), end);
            }
        }
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) threads.emplace_back([&] { context.run(); });
    context.run();
    for (auto& t : threads) t.join();
    BOOST_TEST(all.won.load() > 0U);
    BOOST_TEST(all.overlaps.load() == 0U);
    BOOST_TEST(all.thrown.load() == 0U);
    BOOST_TEST(one.stats().pending + two.stats().pending == 0U);
    for (auto const* const key : {"a", "b", "c"}) BOOST_TEST(copies(servers, key) == 0U);
}

BOOST_AUTO_TEST_CASE(a_context_that_ends_with_waiters_leaves_no_trouble) {
    fleet servers(3);
    test_client other(servers);
    auto in_the_way = other.hold("c");
    for (unsigned const patience : {0U, 4U}) {
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        auto const set =
            client.locks.make_multi_lock({"a", "b", "c"}, {.ttl = 1s, .patience = patience});
        set.acquire([](error, lease) {});
        client.locks.make_lock("a").acquire([](error, lease) {});
        BOOST_REQUIRE(client.until([&] { return client.locks.stats().waiters >= 2; }));
    }
}

BOOST_AUTO_TEST_SUITE_END()
