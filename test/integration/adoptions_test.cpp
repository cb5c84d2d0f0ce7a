// Leases that a client takes over from another one: on servers.
#include <holdfast/lease_token.hpp>

#include "integration/attempt.hpp"
#include "integration/nothing_left.hpp"
#include "integration/proxy_group.hpp"
#include "integration/test_client.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

struct adoption : attempt {
    adoption(test_client& c, lease_token const& token, lock_options const& options = long_lived) {
        c.locks.adopt("k", token, options,
                      asio::bind_cancellation_slot(signal.slot(), [this](error e, lease l) {
                          how = std::move(e);
                          held = std::move(l);
                          done = true;
                      }));
    }
};

std::pair<error, lease> adopt(test_client& c, lease_token const& token,
                              lock_options const& options = long_lived) {
    adoption a(c, token, options);
    BOOST_REQUIRE(c.until([&] { return a.done; }));
    return {std::move(a.how), std::move(a.held)};
}

lease adopted(test_client& c, lease_token const& token, lock_options const& options = long_lived) {
    auto [e, l] = adopt(c, token, options);
    BOOST_REQUIRE_MESSAGE(!e, e.what());
    BOOST_TEST(l.held());
    return std::move(l);
}

/// Gives a lease up, and leaves its key for another client.
lease_token given_up(lease& l) {
    auto token = l.token();
    l.detach();
    return token;
}

/// A waiter of this client, for the lock on "k".
void waits_for_k(test_client& c, attempt& next) {
    next.start(c.locks.make_lock("k", long_lived));
    BOOST_REQUIRE(waits(c));
}

/// It gets the lock, and not with the token that another process may have.
void gets_another_token(test_client& c, attempt& next, lease_token const& known) {
    auto const given = wait_for_lease(c, next);
    BOOST_TEST(given.token().value != known.value);
    BOOST_TEST(c.locks.stats().handovers == 0U);
}

/// The token of a lease that has been given up, with its key on all servers.
lease_token left_behind(test_client& c, fleet const& servers) {
    auto held = c.hold("k");
    BOOST_REQUIRE(c.sees(servers, "k", true));
    return given_up(held);
}

std::chrono::milliseconds least_left(fleet const& servers) {
    auto least = std::chrono::milliseconds::max();
    for (server& each : servers) least = std::min(least, redis_cli(each).pttl("k"));
    return least;
}

} // namespace

BOOST_AUTO_TEST_SUITE(adoptions)

// The program of the first holder stands still from its detach() to the end of its lease.
BOOST_AUTO_TEST_CASE(a_loss_before_a_detach_has_been_seen_releases_nothing) {
    fleet servers(3);
    test_client one(servers), two(servers);
    auto held = one.hold("k", {.ttl = 2s, .watchdog = false});
    BOOST_REQUIRE(one.sees(servers, "k", true));
    auto const token = given_up(held);
    auto second = adopted(two, token);
    BOOST_REQUIRE(wait_until([&] { return lease_clock::now() > held.deadline(); }));
    BOOST_TEST((one.try_acquire("k").first == errc::contended));
    BOOST_TEST(one.idle());
    BOOST_TEST(held.ended_by() == lease_end::released);
    BOOST_TEST(one.locks.stats().lost == 0U);
    BOOST_TEST(one.locks.stats().released == 1U);
    BOOST_TEST(!two.extend(second));
    BOOST_TEST(copies(servers, "k") == 3U);
    BOOST_TEST(two.releases(second));
}

// The lease ends, and its key would be good for another one.
BOOST_AUTO_TEST_CASE(a_limit_before_a_detach_has_been_seen_hands_nothing_on) {
    fleet servers(3);
    test_client one(servers), two(servers);
    auto held = one.hold("k", {.ttl = 60s, .max_hold = 1s});
    BOOST_REQUIRE(one.sees(servers, "k", true));
    attempt next;
    waits_for_k(one, next);
    auto const token = given_up(held);
    auto second = adopted(two, token);
    BOOST_REQUIRE(wait_until([&] { return lease_clock::now() > held.deadline(); }));
    BOOST_TEST((one.try_acquire("k").first == errc::contended));
    BOOST_TEST(!next.done);
    BOOST_TEST(!two.extend(second));
    BOOST_TEST(two.releases(second));
    gets_another_token(one, next, token);
}

BOOST_AUTO_TEST_CASE(a_lease_that_was_lost_is_not_given_up) {
    fleet servers(1);
    test_client client(servers);
    auto held = client.hold("k", {.ttl = 1s, .watchdog = false});
    auto how = lease_end::none;
    held.wait_end([&](error, lease_end end) { how = end; });
    BOOST_REQUIRE(client.until([&] { return how != lease_end::none; }));
    held.detach();
    BOOST_TEST(held.ended_by() == lease_end::expired);
    BOOST_CHECK_THROW((void)held.token(), system_error);
}

// Another process may have it. Then it goes with the release, as the header says.
BOOST_AUTO_TEST_CASE(a_token_that_is_known_is_not_handed_on) {
    fleet servers(3);
    test_client client(servers);
    auto held = client.hold("k");
    auto const token = held.token();
    attempt next;
    waits_for_k(client, next);
    BOOST_TEST(client.releases(held));
    gets_another_token(client, next, token);
}

BOOST_AUTO_TEST_CASE(another_client_goes_on_with_a_lease) {
    fleet servers(3);
    test_client a(servers);
    test_client b(servers);
    BOOST_REQUIRE(a.all_up());
    BOOST_REQUIRE(b.all_up());
    auto held = a.hold("k", {.ttl = 20s, .fencing = true});
    BOOST_REQUIRE(a.sees(servers, "k", true));
    auto const token = given_up(held);
    BOOST_TEST(token.fence != 0U);
    auto taken = adopted(b, token);
    BOOST_TEST(taken.fence() == token.fence);
    BOOST_TEST((taken.remaining() > 40s));
    BOOST_REQUIRE(b.until([&] { return least_left(servers) > 40s; }));
    BOOST_TEST(taken.token().value == token.value);
    // It is a lease as any other.
    BOOST_TEST(!b.extend(taken));
    BOOST_TEST((a.try_acquire("k").first == errc::contended));
    held = {}; // the first holder's object does nothing more
    BOOST_REQUIRE(a.idle());
    BOOST_TEST(copies(servers, "k") == 3U);
    BOOST_TEST(b.releases(taken));
    BOOST_TEST(b.sees(servers, "k", false));
    auto next = a.hold("k", {.ttl = 20s, .fencing = true});
    BOOST_TEST(next.fence() > token.fence);
    BOOST_TEST(a.releases(next));
}

// The acquire of the first holder comes to an instance that has denied the key to the second one.
BOOST_AUTO_TEST_CASE(a_key_that_comes_late_goes_with_the_release) {
    fleet servers(3);
    proxy_group proxies(servers);
    test_client a(proxies.addresses()), b(servers);
    a.runs_with(b);
    BOOST_REQUIRE(a.all_up());
    BOOST_REQUIRE(b.all_up());
    proxies[2].hold_requests();
    auto held = a.hold("k");
    auto const token = given_up(held);
    auto const answers = [&] { return b.status(2).round_trips.count(); };
    auto const before = answers();
    servers[0].freeze();
    servers[1].freeze();
    adoption second(b, token);
    BOOST_REQUIRE(b.until([&] { return answers() > before; }));
    servers[0].thaw();
    servers[1].thaw();
    auto taken = wait_for_lease(b, second);
    proxies[2].resume();
    BOOST_REQUIRE(a.sees(servers, "k", true));
    BOOST_TEST(b.releases(taken));
    BOOST_TEST(b.sees(servers, "k", false));
}

BOOST_AUTO_TEST_CASE(the_watchdog_goes_on) {
    server s;
    test_client a({s.address()});
    test_client b({s.address()});
    auto held = a.hold("k", {.ttl = renewed_ttl});
    auto taken = adopted(b, given_up(held), {.ttl = renewed_ttl});
    BOOST_TEST(b.renews(3));
    BOOST_TEST(taken.held());
    BOOST_TEST(b.releases(taken));
    BOOST_TEST(!redis_cli(s).exists("k"));
}

// The leases of the first client count: their fences must not be given again.
BOOST_AUTO_TEST_CASE(an_adopted_lease_is_handed_on_with_the_next_fence) {
    server s;
    test_client a({s.address()});
    test_client b({s.address()});
    lock_options const options{
        .ttl = 60s, .fencing = true, .handover_limit = max_handover_limit, .handover_time = 60s};
    auto first = a.hold("k", options);
    attempt second(a, "k", options);
    BOOST_REQUIRE(a.until([&] { return a.locks.stats().waiters == 1; }));
    auto const before = first.fence();
    BOOST_TEST(a.releases(first));
    auto held = wait_for_lease(a, second);
    BOOST_REQUIRE(held.fence() == before + 1);
    auto taken = adopted(b, given_up(held), options);
    attempt next(b, "k", options);
    BOOST_REQUIRE(b.until([&] { return b.locks.stats().waiters == 1; }));
    BOOST_TEST(b.releases(taken));
    auto const last = wait_for_lease(b, next);
    BOOST_TEST(last.fence() == before + 2);
    BOOST_TEST(b.locks.stats().handovers == 1U);
}

// The value of the key is no token of this library. It goes on being used when the lease that
// adopted it, and its lock, are gone.
BOOST_AUTO_TEST_CASE(an_adopted_token_lasts_as_long_as_its_tenure) {
    server s;
    test_client b({s.address()});
    std::string const value(max_token_size, '\xee');
    redis_cli(s).set("k", value, 60s);
    std::optional<lease> first = adopted(b, {.value = value}, {.ttl = 60s, .handover_time = 60s});
    attempt next(b, "k", {.ttl = 50s});
    BOOST_REQUIRE(b.until([&] { return b.locks.stats().waiters == 1; }));
    first.reset();
    auto second = wait_for_lease(b, next);
    BOOST_TEST(b.locks.stats().handovers == 1U);
    BOOST_TEST(second.token().value == value);
    BOOST_TEST(!b.extend(second));
    BOOST_TEST(redis_cli(s).get("k").value() == value);
    BOOST_TEST(b.releases(second));
    BOOST_TEST(!redis_cli(s).exists("k"));
}

BOOST_AUTO_TEST_CASE(a_token_proves_nothing_without_its_key) {
    fleet servers(3);
    test_client a(servers);
    test_client b(servers);
    BOOST_REQUIRE(a.all_up());
    BOOST_REQUIRE(b.all_up());
    auto held = a.hold("k");
    auto const token = held.token();
    BOOST_TEST(a.releases(held));
    BOOST_REQUIRE(a.sees(servers, "k", false));
    auto const gone = adopt(b, token);
    BOOST_TEST((gone.first == errc::lease_lost), gone.first.what());
    BOOST_TEST(contains(gone.first.what(), "does not have the lease"), gone.first.what());
    BOOST_TEST(!contains(gone.first.what(), "held"), gone.first.what());
    BOOST_TEST(copies(servers, "k") == 0U);
    // Somebody else has it.
    auto other = a.hold("k");
    BOOST_TEST((adopt(b, token).first == errc::lease_lost));
    BOOST_TEST(other.held());
    BOOST_TEST(a.releases(other));
    BOOST_TEST(b.locks.stats().acquire_failed == 2U);
}

BOOST_AUTO_TEST_CASE(an_adoption_that_fails_leaves_the_key) {
    fleet servers(3);
    test_client a(servers);
    auto const token = left_behind(a, servers);
    {
        test_client b(servers, brisk());
        BOOST_REQUIRE(b.all_up());
        // One instance extends, and two are asked in vain.
        servers[1].freeze();
        servers[2].freeze();
        auto const failed = adopt(b, token);
        BOOST_TEST((failed.first == error_condition::unavailable), failed.first.what());
        BOOST_REQUIRE(b.idle());
        servers[1].thaw();
        servers[2].thaw();
        BOOST_REQUIRE(b.all_up());
    }
    BOOST_TEST(copies(servers, "k") == 3U);
}

// One instance has lost the key, one is down. Nobody else can have the lock either.
BOOST_AUTO_TEST_CASE(a_lease_is_not_lost_for_certain_while_an_instance_is_silent) {
    fleet servers(3);
    test_client a(servers);
    auto const token = left_behind(a, servers);
    redis_cli(servers[0]).del("k");
    servers[1].kill();
    test_client b(servers, brisk());
    BOOST_REQUIRE(b.becomes(0, instance_state::up));
    BOOST_REQUIRE(b.becomes(2, instance_state::up));
    auto const failed = adopt(b, token);
    BOOST_TEST((failed.first == error_condition::unavailable), failed.first.what());
    BOOST_TEST(redis_cli(servers[2]).exists("k"));
}

BOOST_AUTO_TEST_CASE(a_minority_that_is_down_does_not_matter) {
    fleet servers(3);
    test_client a(servers);
    auto const token = left_behind(a, servers);
    servers[2].kill();
    test_client b(servers, brisk());
    BOOST_REQUIRE(b.becomes(0, instance_state::up));
    BOOST_REQUIRE(b.becomes(1, instance_state::up));
    auto taken = adopted(b, token);
    BOOST_TEST(b.releases(taken));
    BOOST_TEST(!redis_cli(servers[0]).exists("k"));
}

BOOST_AUTO_TEST_CASE(a_server_that_forgot_its_scripts_is_asked_again) {
    server s;
    test_client a({s.address()});
    test_client b({s.address()});
    BOOST_REQUIRE(b.all_up());
    auto held = a.hold("k");
    auto const token = given_up(held);
    redis_cli(s).command({"SCRIPT", "FLUSH", "SYNC"});
    auto taken = adopted(b, token);
    BOOST_TEST(b.releases(taken));
}

// Waiters of the client that adopts stand behind the new lease, and get it in their turn.
BOOST_AUTO_TEST_CASE(an_adoption_goes_before_waiters) {
    fleet servers(3);
    test_client a(servers);
    test_client b(servers);
    BOOST_REQUIRE(a.all_up());
    BOOST_REQUIRE(b.all_up());
    auto held = a.hold("k");
    attempt waiting(b, "k", handed_on);
    BOOST_REQUIRE(b.until([&] { return b.locks.stats().waiters == 1; }));
    auto taken = adopted(b, given_up(held), handed_on);
    BOOST_TEST(!waiting.done);
    BOOST_TEST(b.releases(taken));
    auto const last = wait_for_lease(b, waiting);
    BOOST_TEST(b.locks.stats().handovers == 1U);
}

// The adoption calls off the try for which the cancellation waits.
BOOST_AUTO_TEST_CASE(a_total_cancellation_does_not_wait_for_an_adopted_lease) {
    fleet servers(1);
    test_client a(servers), b(servers);
    BOOST_REQUIRE(b.all_up());
    auto held = a.hold("k");
    auto const token = given_up(held);
    servers[0].freeze();
    attempt waiting(b, "k", long_lived);
    b.context.poll();
    waiting.signal.emit(asio::cancellation_type::total);
    adoption taking(b, token);
    b.context.poll();
    servers[0].thaw();
    auto taken = wait_for_lease(b, taking);
    BOOST_TEST(b.until([&] { return waiting.done; }));
    BOOST_TEST((waiting.how == errc::cancelled), waiting.how.what());
    BOOST_TEST(b.releases(taken));
}

BOOST_AUTO_TEST_CASE(a_client_does_not_adopt_its_own_lease) {
    server s;
    test_client client({s.address()});
    auto held = client.hold("k");
    auto const failed = adopt(client, held.token());
    BOOST_TEST((failed.first == errc::contended), failed.first.what());
    BOOST_TEST(held.held());
    auto taken = adopted(client, given_up(held));
    BOOST_TEST(client.releases(taken));
}

BOOST_AUTO_TEST_CASE(an_adoption_can_be_cancelled_and_leaves_the_key) {
    for (auto const type : every_type) {
        fleet servers(1);
        test_client a(servers);
        auto held = a.hold("k");
        auto const token = given_up(held);
        test_client b(servers);
        BOOST_REQUIRE(b.all_up());
        servers[0].freeze();
        adoption taking(b, token);
        b.context.poll();
        taking.signal.emit(type);
        if (type == asio::cancellation_type::total) servers[0].thaw();
        BOOST_REQUIRE(b.until([&] { return taking.done; }));
        servers[0].thaw();
        if (type == asio::cancellation_type::total) {
            BOOST_TEST(!taking.how, taking.how.what()); // it had been proved
        } else {
            BOOST_TEST((taking.how == errc::cancelled), taking.how.what());
        }
        auto again = taking.held ? std::move(taking.held) : adopted(b, token);
        BOOST_TEST(b.releases(again));
    }
}

BOOST_AUTO_TEST_CASE(values_are_checked) {
    server s;
    test_client client({s.address()});
    auto const message = [&](lease_token const& token, lock_options const& options) {
        try {
            (void)client.locks.adopt("k", token, options);
        } catch (system_error const& e) {
            BOOST_TEST((e.code() == errc::invalid_options));
            return std::string(e.what());
        }
        return std::string("no error");
    };
    BOOST_TEST(contains(message({}, {}), "the token has 0 bytes"));
    auto const long_one = std::string(max_token_size + 1, 'x');
    BOOST_TEST(contains(message({long_one, 0}, {}), "the token has 65 bytes"));
    BOOST_TEST(contains(message({"t", 7}, {}), "no lease has the fence 7"));
    BOOST_TEST(contains(message({"t", 0}, {.ttl = 1ms}), "ttl is 1 ms"));
    BOOST_CHECK_THROW((void)client.locks.adopt("", lease_token{"t", 0}, 10s), system_error);
    // Of another library.
    redis_cli(s).command({"SET", "k", "somebody", "PX", "20000"});
    auto taken = adopted(client, {"somebody", 0});
    BOOST_TEST(taken.fence() == 0U);
    BOOST_TEST(client.releases(taken));
    BOOST_TEST(!redis_cli(s).exists("k"));
}

BOOST_AUTO_TEST_CASE(a_lease_that_is_over_has_no_token) {
    server s;
    test_client client({s.address()});
    BOOST_CHECK_THROW((void)lease().token(), system_error);
    auto held = client.hold("k");
    BOOST_TEST(client.releases(held));
    BOOST_CHECK_THROW((void)held.token(), system_error);
    auto brief = client.hold("brief", unwatched(500ms));
    BOOST_REQUIRE(client.until([&] { return client.locks.stats().lost == 1; }));
    BOOST_CHECK_THROW((void)brief.token(), system_error);
    // After a hand-over the key's token is another holder's.
    auto first = client.hold("k");
    attempt second(client, "k", long_lived);
    BOOST_REQUIRE(client.until([&] { return client.locks.stats().waiters == 1; }));
    BOOST_TEST(client.releases(first));
    auto const held_next = wait_for_lease(client, second);
    BOOST_CHECK_THROW((void)first.token(), system_error);
    BOOST_TEST(!held_next.token().value.empty());
}

// Neither of them may wait for the holder, nor be handed the lease.
BOOST_AUTO_TEST_CASE(tries_beside_an_adoption_that_wins_find_the_lock_held) {
    server s;
    test_client a({s.address()});
    test_client b({s.address()});
    BOOST_REQUIRE(b.all_up());
    auto held = a.hold("k", {.ttl = 60s, .fencing = true});
    auto const token = given_up(held);
    attempt trying;
    trying.start_try(b.locks.make_lock("k", long_lived));
    adoption first(b, token);
    adoption second(b, token);
    adoption forged(b, {"another token", 0});
    BOOST_REQUIRE(b.until([&] { return first.done || second.done || forged.done; }));
    BOOST_TEST(b.until([&] { return trying.done && second.done && forged.done; }));
    BOOST_REQUIRE(first.won());
    BOOST_TEST((trying.how == errc::contended), trying.how.what());
    BOOST_TEST((second.how == errc::contended), second.how.what());
    BOOST_TEST((forged.how == errc::contended), forged.how.what());
    BOOST_TEST(b.releases(first.held));
    BOOST_TEST(!redis_cli(s).exists("k"));
}

// An instance that could not be asked may have the key, and extends it later.
BOOST_AUTO_TEST_CASE(a_release_reaches_an_instance_that_was_away_during_the_adoption) {
    fleet servers(3);
    test_client a(servers);
    auto const token = left_behind(a, servers);
    test_client b(servers, brisk());
    BOOST_REQUIRE(b.all_up());
    servers[2].freeze();
    BOOST_REQUIRE(b.until([&] { return b.status(2).state != instance_state::up; }));
    auto taken = adopted(b, token);
    servers[2].thaw();
    BOOST_REQUIRE(b.all_up());
    BOOST_TEST(b.releases(taken));
    BOOST_TEST(b.sees(servers, "k", false));
}

BOOST_AUTO_TEST_CASE(an_adopted_lease_counts_as_acquired_from_the_instances) {
    server s;
    test_client a({s.address()});
    test_client b({s.address()});
    lock_options const options{.ttl = 60s, .fencing = true, .handover_time = 60s};
    auto first = a.hold("k", options);
    attempt second(a, "k", options);
    BOOST_REQUIRE(waits(a));
    BOOST_TEST(a.releases(first));
    auto held = wait_for_lease(a, second);
    BOOST_REQUIRE(a.locks.stats().handovers == 1U);
    auto taken = adopted(b, given_up(held), options);
    auto const stats = b.locks.stats();
    auto const count = [&](acquire_outcome o) {
        return stats.acquires[static_cast<std::size_t>(o)].count();
    };
    BOOST_TEST(stats.handovers == 0U);
    BOOST_TEST(count(acquire_outcome::handed_over) == 0U);
    BOOST_TEST(count(acquire_outcome::acquired) == 1U);
    BOOST_TEST(b.releases(taken));
}

// Each holder gives the lease up long before it would write the counters again.
BOOST_AUTO_TEST_CASE(a_chain_of_adoptions_keeps_the_counters_of_the_fence) {
    server s;
    auto options = patient();
    options.max_ttl = 3s;
    options.fence_ttl = 3s;
    test_client a({s.address()}, options);
    test_client b({s.address()}, options);
    auto held = a.hold("k", {.ttl = 3s, .fencing = true});
    auto const end = lease_clock::now() + options.fence_ttl + 1s;
    auto* next = &b;
    while (lease_clock::now() < end) {
        auto const token = given_up(held);
        held = adopted(*next, token, {.ttl = 3s});
        next = next == &a ? &b : &a;
        BOOST_REQUIRE_MESSAGE(redis_cli(s).exists("{k}:fence"), "the counter is gone");
    }
}

// A vote against, one for, and one that does not come: the lease may last.
BOOST_AUTO_TEST_CASE(a_frozen_instance_does_not_make_an_adoption_contended) {
    fleet servers(3);
    test_client a(servers);
    test_client b(servers, brisk());
    BOOST_REQUIRE(a.all_up());
    BOOST_REQUIRE(b.all_up());
    auto const token = left_behind(a, servers);
    redis_cli(servers[0]).del("k");
    servers[1].freeze();
    auto const failed = adopt(b, token);
    BOOST_TEST((failed.first == error_condition::unavailable), failed.first.what());
    BOOST_TEST(redis_cli(servers[2]).exists("k"));
    servers[1].thaw();
}

// No other client can need the votes, so there is no reason to give up before the instances do.
BOOST_AUTO_TEST_CASE(an_adoption_waits_for_an_instance_that_is_late) {
    fleet servers(3);
    test_client a(servers);
    test_client b(servers);
    BOOST_REQUIRE(a.all_up());
    BOOST_REQUIRE(b.all_up());
    auto const token = left_behind(a, servers);
    redis_cli(servers[0]).del("k");
    servers[1].freeze();
    adoption taking(b, token);
    b.pass(lease_clock::now() + 1s);
    BOOST_TEST(!taking.done, taking.how.what());
    servers[1].thaw();
    BOOST_REQUIRE(b.until([&] { return taking.done; }));
    BOOST_REQUIRE(taking.won());
    BOOST_TEST(b.releases(taking.held));
    BOOST_TEST(b.sees(servers, "k", false));
}

// It may have forgotten other locks, and not this one.
BOOST_AUTO_TEST_CASE(an_instance_without_a_vote_proves_that_it_has_the_key) {
    server s;
    test_client a({s.address()});
    auto held = a.hold("k");
    auto const token = given_up(held);
    redis_cli(s).config("maxmemory", "100mb");
    redis_cli(s).config("maxmemory-policy", "allkeys-lru");
    test_client b({s.address()});
    BOOST_REQUIRE(b.becomes(0, instance_state::quarantined));
    BOOST_TEST((b.try_acquire("other").first == errc::quarantined));
    auto taken = adopted(b, token);
    BOOST_TEST(b.releases(taken));
    BOOST_TEST(!redis_cli(s).exists("k"));
}

BOOST_AUTO_TEST_SUITE_END()
