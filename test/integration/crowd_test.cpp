// Thousands of coroutines at once: each gets its turn, no two sections overlap, and no key stays on
// the servers.
#include "integration/crowd.hpp"
#include "integration/test_client.hpp"

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <string>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t everybody = 5'000;

void check_crowd(test_client& client, std::size_t keys) {
    crowd r;
    for (std::size_t i = 0; i < everybody; ++i)
        join(client.context, client.locks, i, 1, long_lived, r, "key:" + std::to_string(i % keys));
    BOOST_TEST(run_until(
        client.context, [&] { return r.done == everybody; }, 60s));
    BOOST_TEST(r.failed == 0U, r.first_failure);
    BOOST_TEST(r.violations == 0U);
    auto const stats = client.locks.stats();
    BOOST_TEST(stats.acquired == everybody);
    BOOST_TEST(stats.released == everybody);
    BOOST_TEST(stats.held == 0U);
    BOOST_TEST(stats.pending == 0U);
    BOOST_TEST(stats.lost == 0U);
}

} // namespace

BOOST_AUTO_TEST_SUITE(crowd)

BOOST_AUTO_TEST_CASE(five_thousand_share_five_hundred_keys) {
    fleet servers(3);
    test_client client(servers);
    check_crowd(client, 500);
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(five_thousand_have_a_key_each) {
    fleet servers(5);
    test_client client(servers);
    check_crowd(client, everybody);
    // Each acquire took one round, so no coroutine disturbed another.
    BOOST_TEST(client.locks.stats().rounds == everybody);
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(a_frozen_minority_fails_nobody) {
    fleet servers(5);
    test_client client(servers, unhurried());
    BOOST_REQUIRE(client.all_up());
    servers.freeze(2);
    check_crowd(client, everybody);
    servers.thaw_all();
    BOOST_REQUIRE(client.all_up());
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_SUITE_END()
