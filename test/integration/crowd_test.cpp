// Thousands of coroutines at once: each gets its turn, no two together, and nothing is left over.
#include "integration/party.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <exception>
#include <string>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t everybody = 5'000;

struct section {
    int inside = 0;
};

struct crowd_result {
    std::size_t done = 0, failed = 0, violations = 0;
    std::string first_failure;
};

asio::awaitable<void> one_of_many(client& locks, std::string key, section& s, crowd_result& r) {
    auto const lock = locks.make_lock(key, long_lived);
    auto acquired = co_await lock.acquire(asio::as_tuple);
    auto& [e, held] = acquired;
    if (e) {
        ++r.failed;
        if (r.first_failure.empty()) r.first_failure = e.what();
    } else {
        if (++s.inside > 1) ++r.violations;
        // Others run now.
        co_await asio::post(asio::deferred);
        --s.inside;
        if (!co_await held.release()) ++r.failed;
    }
    ++r.done;
}

void check_crowd(party& p, std::size_t keys) {
    std::vector<section> sections(keys);
    crowd_result r;
    for (std::size_t i = 0; i < everybody; ++i) {
        asio::co_spawn(
            p.context,
            one_of_many(p.locks, "key:" + std::to_string(i % keys), sections[i % keys], r),
            [](std::exception_ptr thrown) {
                if (thrown) std::rethrow_exception(thrown);
            });
    }
    BOOST_TEST(run_until(
        p.context, [&] { return r.done == everybody; }, 60s));
    BOOST_TEST(r.failed == 0U, r.first_failure);
    BOOST_TEST(r.violations == 0U);
    auto const stats = p.locks.stats();
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
    party p(servers);
    check_crowd(p, 500);
    BOOST_TEST(p.sees_no_keys(servers));
}

BOOST_AUTO_TEST_CASE(five_thousand_have_a_key_each) {
    fleet servers(5);
    party p(servers);
    check_crowd(p, everybody);
    // Nobody was in anybody's way.
    BOOST_TEST(p.locks.stats().rounds == everybody);
    BOOST_TEST(p.sees_no_keys(servers));
}

BOOST_AUTO_TEST_CASE(a_frozen_minority_fails_nobody) {
    fleet servers(5);
    party p(servers, hasty());
    BOOST_REQUIRE(p.all_up());
    servers.freeze(2);
    check_crowd(p, everybody);
    servers.thaw_all();
    BOOST_REQUIRE(p.all_up());
    BOOST_TEST(p.sees_no_keys(servers));
}

BOOST_AUTO_TEST_SUITE_END()
