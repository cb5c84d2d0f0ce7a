// The fence counters: their life, their raises, and the influence of the clocks of clients and
// instances.
#include "integration/fences.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(fence_counters)

//
// Counters
//

// A client that has renewed its ttl a moment ago does not renew it with each lease.
BOOST_AUTO_TEST_CASE(the_counter_lives_for_fence_ttl_after_a_client_has_first_used_it) {
    fleet servers(3);
    auto options = patient();
    options.fence_ttl = 600s;
    test_client client(servers, options), other(servers, options);
    client.runs_with(other);
    BOOST_REQUIRE(client.all_up());
    BOOST_REQUIRE(other.all_up());
    auto const check_ttl = [&] {
        for (server& instance : servers) {
            redis_cli cli(instance);
            BOOST_TEST(client.until([&] { return cli.pttl(counter) > 590s; }));
            BOOST_TEST((cli.pttl(counter) <= 600s));
            cli.command({"PEXPIRE", counter, "5000"});
        }
    };
    auto const fence = take_turn(client, servers);
    BOOST_REQUIRE(all_count_to(client, servers, fence / 100));
    check_ttl();
    auto const next = take_turn(other, servers);
    BOOST_REQUIRE(all_count_to(client, servers, next / 100));
    check_ttl();
    // Instances that come back may have missed a renewal.
    for (std::size_t i = 0; i < servers.size(); ++i) {
        redis_cli(servers[i]).command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
        BOOST_REQUIRE(client.until([&] { return client.status(i).connections > 1; }));
    }
    BOOST_REQUIRE(client.all_up());
    auto const last = take_turn(client, servers);
    BOOST_REQUIRE(all_count_to(client, servers, last / 100));
    check_ttl();

    // A raise also prolongs the counter. The third instance is down, so the second one must be
    // raised.
    servers[2].kill();
    BOOST_REQUIRE(client.goes_down(2, errc::unreachable));
    set_counter(servers[0], counter, std::to_string(number_now() + minute / 2));
    set_counter(servers[1], counter, "1");
    auto const raised = take_turn(client, servers);
    BOOST_TEST(client.locks.stats().raises == 1U);
    BOOST_TEST(count_at(servers[1]) == raised / 100);
    for (std::size_t i : {0U, 1U}) {
        auto const left = redis_cli(servers[i]).pttl(counter);
        BOOST_TEST((left > 590s && left <= 600s));
    }
}

BOOST_AUTO_TEST_CASE(the_counter_lives_for_as_long_as_the_lease_is_renewed) {
    fleet servers(3);
    auto options = patient();
    options.max_ttl = 3s;
    options.fence_ttl = 3s;
    test_client client(servers, options);
    BOOST_REQUIRE(client.all_up());
    auto l = client.hold("k", {.ttl = 3s, .fencing = true});
    BOOST_REQUIRE(all_count_to(client, servers, tenure_of(l)));
    for (server& instance : servers) redis_cli(instance).command({"SCRIPT", "FLUSH"});
    auto const end = lease_clock::now() + 6s;
    while (lease_clock::now() < end) {
        client.pass(lease_clock::now() + 50ms);
        BOOST_REQUIRE(how_many_count_to(servers, tenure_of(l)) == servers.size());
    }
    BOOST_TEST(l.held());
}

BOOST_AUTO_TEST_CASE(fences_grow_when_the_counter_was_deleted_or_has_expired) {
    fleet servers(3);
    auto options = patient();
    options.max_ttl = 2500ms;
    options.fence_ttl = 2500ms;
    test_client client(servers, options);
    BOOST_REQUIRE(client.all_up());
    constexpr lock_options brief{.ttl = 2500ms, .fencing = true};
    auto fence = take_turn(client, servers, brief);
    for (int i = 0; i < 3; ++i) {
        BOOST_TEST(client.sees(servers, counter, false)); // the counter has expired
        auto const next = take_turn(client, servers, brief);
        BOOST_TEST(next > fence);
        fence = next;
    }
    for (int i = 0; i < 20; ++i) {
        wait_for_next_number();
        for (server& instance : servers) redis_cli(instance).del(counter);
        auto const next = take_turn(client, servers, brief);
        BOOST_TEST(next > fence);
        fence = next;
    }
}

BOOST_AUTO_TEST_CASE(a_quorum_counts_as_far_as_its_furthest_instance) {
    with_fleets_of({3, 5}, [](fleet& servers) {
        auto const size = servers.size();
        test_client client(servers);
        BOOST_REQUIRE(client.all_up());
        // Only a quorum is left, so an acquire needs all remaining instances.
        for (auto i = servers.quorum(); i < size; ++i) {
            servers[i].kill();
            BOOST_REQUIRE(client.goes_down(i, errc::unreachable));
        }
        std::uint64_t last = 0, raises = 0;
        for (std::size_t far = 0; far < servers.quorum(); ++far) {
            auto const ahead = number_now() + minute / 2 + 1000 * far;
            set_counter(servers[far], counter, std::to_string(ahead));
            auto l = client.hold("k", fenced);
            BOOST_TEST(tenure_of(l) == ahead + 1);
            BOOST_TEST(l.fence() > last);
            last = l.fence();
            BOOST_TEST(how_many_count_to(servers, tenure_of(l)) == servers.quorum());
            BOOST_TEST(client.locks.stats().raises == ++raises);
            BOOST_TEST(client.releases(l));
        }
        // The counters agree now.
        take_turn(client, servers);
        BOOST_TEST(client.locks.stats().raises == raises);
    });
}

BOOST_AUTO_TEST_CASE(a_quorum_counts_as_far_as_its_furthest_instance_after_a_wait_at_the_arbiter) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    servers[2].kill();
    BOOST_REQUIRE(client.goes_down(2, errc::unreachable));
    std::uint64_t last = 0, round = 0;
    for (std::size_t const far : {0U, 1U, 0U, 1U}) {
        auto const ahead = number_now() + minute / 2 + 1000 * ++round;
        set_counter(servers[far], counter, std::to_string(ahead));
        foreign_client holder(servers);
        holder.hold("k");
        attempt w;
        w.start(client.locks.make_lock("k", fenced));
        BOOST_REQUIRE(waits_for_push(client, servers));
        holder.del_by_script("k");
        auto l = wait_for_lease(client, w);
        BOOST_TEST(tenure_of(l) == ahead + 1);
        BOOST_TEST(l.fence() > last);
        last = l.fence();
        BOOST_TEST(how_many_count_to(servers, tenure_of(l)) == 2U);
        BOOST_TEST(client.releases(l));
    }
    BOOST_TEST(client.locks.stats().pushes >= 4U);
    // One of the two instances is the arbiter. If it has the greater count, the acquire takes that
    // count to the other, and no raise is needed.
    BOOST_TEST(client.locks.stats().raises == 2U);
}

BOOST_AUTO_TEST_CASE(a_counter_that_is_ahead_of_the_clock_counts_on) {
    fleet servers(3);
    test_client client(servers, without_native_counts());
    BOOST_REQUIRE(client.all_up());
    for (auto const ahead : {minute / 2, 2 * minute, 1'000'000 * minute}) {
        auto const far = number_now() + ahead;
        set_counters(servers, std::to_string(far));
        for (std::uint64_t i = 1; i <= 3; ++i) {
            auto l = client.hold("k", fenced);
            BOOST_TEST(tenure_of(l) == far + i);
            BOOST_REQUIRE(all_count_to(client, servers, far + i));
            BOOST_TEST(client.releases(l));
            BOOST_TEST(client.sees(servers, "k", false));
        }
    }
    BOOST_TEST(client.locks.stats().raises == 0U);
}

BOOST_AUTO_TEST_CASE(the_last_number_is_given_out_and_none_after_it) {
    fleet servers(3);
    test_client client(servers, without_native_counts());
    BOOST_REQUIRE(client.all_up());
    set_counters(servers, std::to_string(counter_limit - 2));
    auto l = client.hold("k", fenced);
    BOOST_TEST(l.fence() == (counter_limit - 1) * 100);
    BOOST_REQUIRE(all_count_to(client, servers, counter_limit - 1));
    BOOST_TEST(client.releases(l));
    auto const [e, none] = client.acquire("k", fenced);
    BOOST_TEST((e == errc::invalid_fence), e.what());
    BOOST_TEST(client.sees(servers, "k", false));
    for (server& instance : servers) BOOST_TEST(count_at(instance) == counter_limit - 1);
}

//
// Clocks
//

BOOST_AUTO_TEST_CASE(a_time_that_an_instance_finds_incredible_does_not_count_there) {
    server_options options;
    options.shiftable_clock = true;
    fleet servers(1, options);
    servers[0].shift_clock(-120s); // to the server, the client's clock is two minutes fast
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    for (std::uint64_t i = 1; i <= 5; ++i) BOOST_TEST(take_turn(client, servers) == i * 100);
    // The instance's clock is right again, and the fences follow it.
    servers[0].shift_clock(120s);
    auto const fence = take_turn(client, servers);
    BOOST_TEST((fence / 100) + minute > number_now());
    // The counter is near the client's clock now. So it follows that clock, whatever the instance's
    // clock shows.
    servers[0].shift_clock(-24h);
    auto last = fence;
    for (int i = 0; i < 5; ++i) {
        auto const before = number_now();
        auto const next = take_turn(client, servers);
        BOOST_TEST(next > last);
        BOOST_TEST((next / 100) >= before);
        last = next;
    }
    // Without the counter, it does not.
    redis_cli(servers[0]).del(counter);
    BOOST_TEST(take_turn(client, servers) == 100U);
}

BOOST_AUTO_TEST_CASE(a_client_that_is_a_little_fast_is_believed) {
    server_options options;
    options.shiftable_clock = true;
    fleet servers(1, options);
    servers[0].shift_clock(-50s);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    BOOST_TEST((take_turn(client, servers) / 100) + minute / 10 > number_now());
}

BOOST_AUTO_TEST_CASE(a_client_that_is_slow_counts_on) {
    server_options options;
    options.shiftable_clock = true;
    fleet servers(3, options);
    for (server& instance : servers) instance.shift_clock(24h);
    test_client client(servers, without_native_counts());
    BOOST_REQUIRE(client.all_up());
    std::uint64_t last = 0;
    for (int i = 0; i < 5; ++i) {
        auto const fence = take_turn(client, servers);
        BOOST_TEST(fence > last);
        last = fence;
    }
    // This is the counter of a client whose clock agrees with the servers.
    auto const theirs = number_now() + 24 * 60 * minute;
    set_counters(servers, std::to_string(theirs));
    for (std::uint64_t i = 1; i <= 5; ++i) {
        auto l = client.hold("k", fenced);
        BOOST_TEST(tenure_of(l) == theirs + i);
        BOOST_REQUIRE(all_count_to(client, servers, theirs + i));
        BOOST_TEST(client.releases(l));
        BOOST_TEST(client.sees(servers, "k", false));
    }
}

BOOST_AUTO_TEST_CASE(an_instance_that_is_two_minutes_slow_is_raised) {
    server_options options;
    options.shiftable_clock = true;
    fleet servers(3, options);
    servers[0].shift_clock(-120s);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    servers[2].kill();
    BOOST_REQUIRE(client.goes_down(2, errc::unreachable));
    std::uint64_t last = 0;
    for (int i = 0; i < 5; ++i) {
        wait_for_next_number();
        auto const before = number_now();
        auto l = client.hold("k", fenced);
        BOOST_TEST(tenure_of(l) >= before);
        BOOST_TEST(l.fence() > last);
        last = l.fence();
        // A counter near the client's clock follows that clock.
        BOOST_TEST(client.locks.stats().raises == 1U);
        BOOST_TEST(count_at(servers[0]) == tenure_of(l));
        BOOST_TEST(count_at(servers[1]) == tenure_of(l));
        BOOST_TEST(client.releases(l));
    }
}

BOOST_AUTO_TEST_CASE(fences_grow_while_the_clocks_of_the_instances_are_set) {
    server_options options;
    options.shiftable_clock = true;
    fleet servers(3, options);
    auto no_questions = patient();
    no_questions.detect_clock_jumps = false;
    test_client client(servers, no_questions);
    BOOST_REQUIRE(client.all_up());
    std::uint64_t last = 0;
    constexpr std::array shifts{-120s, 120s, 3600s, -7200s, 30s, 3570s};
    for (std::size_t i = 0; i < 4 * shifts.size(); ++i) {
        servers[i % 3].shift_clock(shifts[(i + i / 3) % shifts.size()]);
        auto const fence = take_turn(client, servers);
        BOOST_TEST(fence > last);
        last = fence;
    }
}

BOOST_AUTO_TEST_SUITE_END()
