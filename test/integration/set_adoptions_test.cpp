// Leases on several keys that a client takes over from another one, beside acquires of its own that
// want some of the keys.
#include <holdfast/lease_token.hpp>

#include "integration/attempt.hpp"
#include "integration/client_group.hpp"
#include "integration/test_client.hpp"

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

using key_names = std::vector<std::string>;

/// Of one key, or of several.
lock lock_on(test_client& c, key_names const& keys, lock_options const& options = long_lived) {
    return keys.size() == 1 ? c.locks.make_lock(keys.front(), options)
                            : c.locks.make_multi_lock(keys, options);
}

struct adoption : attempt {
    adoption(test_client& c, key_names const& keys, lease_token const& token,
             lock_options const& options = long_lived) {
        c.locks.adopt(lock_on(c, keys, options), token, [this](error e, lease l) {
            how = std::move(e);
            held = std::move(l);
            done = true;
        });
    }
};

lease hold_all(test_client& c, key_names const& keys, lock_options const& options = long_lived) {
    attempt a;
    a.start(lock_on(c, keys, options));
    return wait_for_lease(c, a);
}

lease_token given_up(lease&& l) {
    auto token = l.token();
    l.detach();
    return token;
}

/// Waits until all servers have all keys, or none of them has one.
[[nodiscard]] bool sees_all(test_client& c, fleet const& servers, key_names const& keys,
                            bool held) {
    return std::all_of(keys.begin(), keys.end(),
                       [&](std::string const& key) { return c.sees(servers, key, held); });
}

/// Two clients of three servers. Each runs while a test waits for the other.
struct clients {
    clients() {
        one.runs_with(two);
        BOOST_REQUIRE(one.all_up());
        BOOST_REQUIRE(two.all_up());
    }
    fleet servers{3};
    test_client one{servers}, two{servers};
};

struct beside {
    char const* what;
    key_names keys;
    unsigned patience = lock_options{}.patience;
    friend std::ostream& operator<<(std::ostream& to, beside const& b) { return to << b.what; }
};

std::array<beside, 6> const others{{
    {"a waiter for one key", {"a"}},
    {"a waiter for the same keys", {"a", "b"}},
    {"a waiter for another key as well", {"b", "c"}},
    {"a waiter for more keys", {"a", "b", "c"}},
    {"a waiter that takes the same keys in order", {"a", "b"}, 0},
    {"a waiter that takes more keys in order", {"0", "a", "b"}, 0},
}};

} // namespace

BOOST_FIXTURE_TEST_SUITE(set_adoptions, clients)

BOOST_AUTO_TEST_CASE(a_lease_on_several_keys_is_adopted_whole) {
    auto first = hold_all(one, {"a", "b"}, {.ttl = 60s, .fencing = true});
    auto const fence = first.fence();
    adoption second(two, {"a", "b"}, given_up(std::move(first)));
    auto held = wait_for_lease(two, second);
    BOOST_TEST(held.fence() == fence);
    BOOST_TEST(two.releases(held));
    BOOST_TEST(sees_all(two, servers, {"a", "b"}, false));
}

// `contended` is for a lease of the client alone. Its waiters stand behind the adoption.
BOOST_DATA_TEST_CASE(an_adoption_goes_before_waiters, others) {
    auto first = hold_all(one, {"a", "b"});
    attempt waiting;
    waiting.start(lock_on(two, sample.keys, {.ttl = 60s, .patience = sample.patience}));
    auto const takes = sample.keys.front() == "0" ? 3U : 0U;
    BOOST_REQUIRE(waits(two));
    BOOST_REQUIRE(two.until([&] { return copies(servers, "0") == takes; }));
    adoption taking(two, {"a", "b"}, given_up(std::move(first)));
    auto held = wait_for_lease(two, taking);
    BOOST_TEST(!waiting.done);
    // It leaves the others what it has not.
    BOOST_TEST(sees_all(two, servers, {"0", "c"}, false));
    BOOST_TEST(!two.extend(held));
    BOOST_TEST(sees_all(two, servers, {"a", "b"}, true));
    BOOST_TEST(two.releases(held));
    auto next = wait_for_lease(two, waiting);
    BOOST_TEST(two.releases(next));
    BOOST_TEST(sees_all(two, servers, {"0", "a", "b", "c"}, false));
}

// The tries of the others are under way when it comes.
BOOST_DATA_TEST_CASE(an_adoption_goes_before_tries, others) {
    auto const token = given_up(hold_all(one, {"a", "b"}));
    attempt waiting;
    waiting.start(lock_on(two, sample.keys, {.ttl = 60s, .patience = sample.patience}));
    attempt trying;
    trying.start_try(lock_on(two, sample.keys));
    adoption taking(two, {"a", "b"}, token);
    auto held = wait_for_lease(two, taking);
    BOOST_REQUIRE(two.until([&] { return trying.done; }));
    BOOST_TEST((trying.how == errc::contended), trying.how.what());
    BOOST_TEST(!waiting.done);
    BOOST_TEST(two.releases(held));
    auto next = wait_for_lease(two, waiting);
    BOOST_TEST(two.releases(next));
    BOOST_TEST(sees_all(two, servers, {"0", "a", "b", "c"}, false));
}

BOOST_AUTO_TEST_CASE(an_adopted_lease_is_handed_on_to_a_waiter_for_the_same_keys) {
    auto first = hold_all(one, {"a", "b"});
    attempt waiting;
    waiting.start(lock_on(two, {"a", "b"}, handed_on));
    BOOST_REQUIRE(waits(two));
    adoption taking(two, {"a", "b"}, given_up(std::move(first)), handed_on);
    auto held = wait_for_lease(two, taking);
    BOOST_TEST(two.releases(held));
    auto next = wait_for_lease(two, waiting);
    BOOST_TEST(two.locks.stats().handovers == 1U);
    BOOST_TEST(two.releases(next));
}

// The servers refuse a token that they do not have. Those that wait get the lock in their turn.
BOOST_DATA_TEST_CASE(an_adoption_that_is_refused_leaves_the_waiters_their_turn, others) {
    auto first = hold_all(one, {"a", "b"});
    attempt waiting;
    waiting.start(lock_on(two, sample.keys, {.ttl = 60s, .patience = sample.patience}));
    BOOST_REQUIRE(waits(two));
    adoption forged(two, {"a", "b"}, {"a token of nobody", 0});
    BOOST_REQUIRE(two.until([&] { return forged.done; }));
    BOOST_TEST((forged.how == errc::lease_lost), forged.how.what());
    BOOST_TEST(first.held());
    BOOST_TEST(one.releases(first));
    auto next = wait_for_lease(two, waiting);
    BOOST_TEST(two.releases(next));
}

BOOST_DATA_TEST_CASE(a_client_that_has_one_of_the_keys_adopts_nothing, others) {
    auto held = hold_all(one, sample.keys);
    adoption own(one, {"a", "b"}, held.token());
    BOOST_REQUIRE(one.until([&] { return own.done; }));
    BOOST_TEST((own.how == errc::contended), own.how.what());
    BOOST_TEST(held.held());
    BOOST_TEST(!one.extend(held));
    BOOST_TEST(sees_all(one, servers, sample.keys, true));
    BOOST_TEST(one.releases(held));
}

// Its try is called off, so it had no effect, and nothing is left to wait for.
BOOST_DATA_TEST_CASE(a_total_cancellation_does_not_wait_for_an_adopted_lease, others) {
    auto const token = given_up(hold_all(one, {"a", "b"}));
    for (server& each : servers) each.freeze();
    attempt waiting;
    waiting.start(lock_on(two, sample.keys, {.ttl = 60s, .patience = sample.patience}));
    two.context.poll();
    waiting.signal.emit(asio::cancellation_type::total);
    adoption taking(two, {"a", "b"}, token);
    two.context.poll();
    for (server& each : servers) each.thaw();
    auto held = wait_for_lease(two, taking);
    BOOST_TEST(two.until([&] { return waiting.done; }));
    BOOST_TEST((waiting.how == errc::cancelled), waiting.how.what());
    BOOST_TEST(held.held());
    BOOST_TEST(two.releases(held));
    BOOST_TEST(sees_all(two, servers, {"0", "a", "b", "c"}, false));
}

BOOST_AUTO_TEST_CASE(one_of_several_adoptions_wins) {
    auto const token = given_up(hold_all(one, {"a", "b"}));
    adoption first(two, {"a", "b"}, token);
    adoption second(two, {"a", "b"}, token);
    adoption other(two, {"b", "c"}, token);
    attempt waiting;
    waiting.start(lock_on(two, {"b", "c"}));
    BOOST_REQUIRE(two.until([&] { return first.done && second.done && other.done; }));
    BOOST_REQUIRE(first.won());
    BOOST_TEST((second.how == errc::contended), second.how.what());
    BOOST_TEST((other.how == errc::lease_lost), other.how.what());
    BOOST_TEST(!waiting.done);
    BOOST_TEST(two.releases(first.held));
    check_gets(two, waiting);
}

// The adoption of a lease on one key goes before a waiter for several, too.
BOOST_AUTO_TEST_CASE(a_lease_on_one_key_is_adopted_beside_waiters_for_several) {
    auto first = hold_all(one, {"a"});
    attempt waiting;
    waiting.start(lock_on(two, {"a", "b"}));
    BOOST_REQUIRE(waits(two));
    adoption taking(two, {"a"}, given_up(std::move(first)));
    auto held = wait_for_lease(two, taking);
    BOOST_TEST(!waiting.done);
    BOOST_TEST(two.releases(held));
    check_gets(two, waiting);
}

BOOST_AUTO_TEST_SUITE_END()
