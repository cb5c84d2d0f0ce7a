// The watchdog renews leases as long as they exist, and the client reports a loss in time.
#include "integration/test_client.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

#ifdef HOLDFAST_TEST_SANITIZED
// With a sanitizer, the notifications take longer than the margin.
constexpr std::size_t many = 30;
#else
constexpr std::size_t many = 1'000;
#endif

/// Many leases, and the time at which each holder hears of its loss.
struct many_leases {
    struct noted_lease {
        lease held;
        lease_clock::time_point deadline{}, told{};
    };

    many_leases(test_client& client, std::size_t count, lock_options const& options)
        : all(count) {
        for (std::size_t i = 0; i < count; ++i) {
            auto const lock = client.locks.make_lock("key:" + std::to_string(i), options);
            lock.acquire([this, i](error e, lease l) {
                if (e) ++failed;
                all[i].held = std::move(l);
                ++answered;
            });
        }
        BOOST_REQUIRE(client.until([&] { return answered == count; }));
        BOOST_REQUIRE(failed == 0U);
    }

    void listen() {
        for (auto& l : all) {
            l.held.wait_end([this, &l](error, lease_end how) {
                if (!is_loss(how)) return;
                l.told = lease_clock::now();
                // Nothing extends the lease any more, so its deadline is final.
                l.deadline = l.held.deadline();
                ++lost;
            });
        }
    }

    std::vector<noted_lease> all;
    std::size_t answered = 0, failed = 0, lost = 0;
};

} // namespace

BOOST_AUTO_TEST_SUITE(watchdog)

BOOST_AUTO_TEST_CASE(a_lease_outlives_its_ttl_many_times) {
    fleet servers(3);
    test_client client(servers);
    auto held = client.hold("k", {.ttl = renewed_ttl});
    auto const first_deadline = held.deadline();
    BOOST_TEST(client.renews(12)); // this takes more than four ttls
    BOOST_TEST(held.held());
    BOOST_TEST((lease_clock::now() > first_deadline));
    BOOST_TEST(client.locks.stats().lost == 0U);
    for (server& instance : servers) BOOST_TEST(redis_cli(instance).exists("k"));
    BOOST_TEST(client.releases(held));
}

BOOST_AUTO_TEST_CASE(a_renewed_lease_is_held_whenever_one_looks) {
    fleet servers(3);
    test_client client(servers);
    auto held = client.hold("k", {.ttl = renewed_ttl});
    auto const begin = lease_clock::now();
    auto deadline = held.deadline();
    std::size_t not_held = 0, went_back = 0;
    BOOST_TEST(client.until([&] {
        auto const now = held.deadline();
        if (!held.held() || held.remaining() <= 0s) ++not_held;
        if (now < deadline) ++went_back;
        deadline = now;
        return client.locks.stats().extended >= 5 && lease_clock::now() > begin + 1500ms;
    }));
    BOOST_TEST(not_held == 0U);
    BOOST_TEST(went_back == 0U);
    BOOST_TEST(client.releases(held));
}

// A deadline that counts from the future would be later than the expiry on the servers.
BOOST_AUTO_TEST_CASE(no_deadline_counts_from_the_future) {
    fleet servers(3);
    test_client client(servers);
    std::vector<lease> held;
    constexpr auto ttl = 60ms;
    constexpr auto validity = ttl - ttl / 100 - 2ms;
    for (int i = 0; i < 20; ++i)
        held.push_back(client.hold("key:" + std::to_string(i), {.ttl = ttl}));
    auto const renewed = client.locks.stats().extended + 1'000;
    auto early = 0;
    BOOST_TEST(client.until([&] {
        for (auto const& l : held) {
            if (l.deadline() - validity > lease_clock::now()) ++early;
        }
        return client.locks.stats().extended >= renewed || client.locks.stats().held == 0;
    }));
    BOOST_TEST(early == 0);
}

BOOST_AUTO_TEST_CASE(renewals_of_many_leases_travel_together) {
    fleet servers(3);
    test_client client(servers);
    constexpr std::size_t count = 2'000;
    many_leases leases(client, count, {.ttl = 3s});
    auto const before = client.locks.stats();
    BOOST_TEST(client.renews(3 * count));
    auto const after = client.locks.stats();
    BOOST_TEST(after.lost == 0U);
    BOOST_TEST(after.held == count);
    for (auto const& l : leases.all) BOOST_TEST(l.held.held());
    // Each lease was renewed three times, on three instances.
    BOOST_TEST((after.commands - before.commands >= 9 * count));
    BOOST_TEST((after.batches - before.batches < (after.commands - before.commands) / 3));
}

BOOST_AUTO_TEST_CASE(without_it_a_lease_ends_at_its_first_deadline) {
    fleet servers(3);
    test_client client(servers);
    many_leases leases(client, 1, unwatched(2s));
    auto const first_deadline = leases.all[0].held.deadline();
    leases.listen();
    BOOST_TEST(client.until([&] { return leases.lost == 1; }));
    BOOST_TEST((leases.all[0].deadline == first_deadline));
    BOOST_TEST(!leases.all[0].held.held());
    BOOST_TEST(client.locks.stats().extended == 0U);
    BOOST_TEST((client.release(leases.all[0].held) == errc::lease_lost));
}

BOOST_AUTO_TEST_CASE(a_renewal_is_tried_again_until_the_deadline) {
    fleet servers(3);
    test_client client(servers, hasty());
    auto held = client.hold("k", {.ttl = 6s});
    servers.freeze(2);
    BOOST_TEST(client.until([&] { return client.locks.stats().extend_failed >= 1; }));
    BOOST_TEST(held.held());
    servers.thaw_all();
    BOOST_TEST(client.renews(1));
    BOOST_TEST(held.held());
    BOOST_TEST(client.locks.stats().lost == 0U);
    BOOST_TEST(client.releases(held));
}

// If the machine stalls for longer than the margin, a notification may be late. Then the test tries
// again. A library that waits for the instances is late each time.
BOOST_AUTO_TEST_CASE(loss_is_told_by_the_deadline_also_to_many) {
    for (std::size_t const count : {std::size_t{1}, std::size_t{10}, many}) {
        BOOST_TEST_CONTEXT(count) {
            std::size_t late = 0;
            for (int attempt = 0; attempt < 3; ++attempt) {
                fleet servers(3);
                // The timeouts are far longer than the lease lasts.
                test_client client(servers, patient());
                many_leases leases(client, count, {.ttl = renewed_ttl});
                leases.listen();
                servers.freeze(3);
                BOOST_REQUIRE(client.until([&] { return leases.lost == count; }));
                late = static_cast<std::size_t>(
                    std::count_if(leases.all.begin(), leases.all.end(),
                                  [](auto const& l) { return l.told > l.deadline; }));
                for (auto const& l : leases.all) BOOST_TEST(!l.held.held());
                BOOST_TEST(client.locks.stats().lost == count);
                servers.thaw_all();
                if (late == 0) break;
            }
            BOOST_TEST(late == 0U);
        }
    }
}

// The same test with one instance that still answers. That is not enough, and must not delay the
// notification.
BOOST_AUTO_TEST_CASE(loss_is_told_by_the_deadline_also_if_a_minority_answers) {
    for (std::size_t const count : {std::size_t{1}, std::min<std::size_t>(100, many)}) {
        for (auto const renewed : {true, false}) {
            BOOST_TEST_CONTEXT(count << " leases, watchdog " << renewed) {
                std::size_t late = 0;
                for (int attempt = 0; attempt < 3; ++attempt) {
                    fleet servers(3);
                    test_client client(servers, patient());
                    many_leases leases(client, count, {.ttl = renewed_ttl, .watchdog = renewed});
                    leases.listen();
                    servers.freeze(2);
                    BOOST_REQUIRE(client.until([&] { return leases.lost == count; }));
                    late = static_cast<std::size_t>(
                        std::count_if(leases.all.begin(), leases.all.end(),
                                      [](auto const& l) { return l.told > l.deadline; }));
                    for (auto const& l : leases.all) BOOST_TEST(!l.held.held());
                    BOOST_TEST(client.locks.stats().lost == count);
                    servers.thaw_all();
                    if (late == 0) break;
                }
                BOOST_TEST(late == 0U);
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(released_and_destroyed_leases_are_not_renewed) {
    fleet servers(3);
    test_client client(servers);
    auto released = client.hold("released", {.ttl = renewed_ttl});
    {
        auto const destroyed = client.hold("destroyed", {.ttl = renewed_ttl});
        BOOST_TEST(client.renews(2));
    }
    BOOST_TEST(client.releases(released));
    BOOST_TEST(client.sees(servers, "destroyed", false));
    BOOST_TEST(client.until([&] { return client.locks.stats().held == 0; }));
    auto const before = client.locks.stats().extended;
    auto other = client.hold("other", {.ttl = renewed_ttl});
    BOOST_TEST(client.renews(5));
    // Only the other lease is renewed. Two more leases would make about 15 renewals.
    BOOST_TEST(client.locks.stats().extended - before < 10U);
    BOOST_TEST(client.sees(servers, "released", false));
    BOOST_TEST(client.sees(servers, "destroyed", false));
    BOOST_TEST(client.releases(other));
}

BOOST_AUTO_TEST_SUITE_END()
