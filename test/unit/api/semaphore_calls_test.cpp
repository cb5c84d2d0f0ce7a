// The public calls for semaphores: what they give, what they refuse, and what happens to permits
// within one process. On instances for unit tests, without a server.
#include <holdfast/client.hpp>
#include <holdfast/testing/instance.hpp>

#include "integration/attempt.hpp"
#include "integration/test_client.hpp"
#include "support/text.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

/// For a call that throws this code, and names the value.
auto refusal(errc code, std::string_view words) {
    return [code, words](system_error const& e) {
        BOOST_TEST(contains(e.what(), words), e.what());
        return e.code() == code;
    };
}

struct stage {
    std::array<testing::instance, 3> instances;
    test_client client, second;

    explicit stage(client_options const& options = patient())
        : client(addresses(), options)
        , second(addresses(), options) {
        client.runs_with(second);
        BOOST_REQUIRE(client.all_up());
        BOOST_REQUIRE(second.all_up());
    }
    std::vector<address> addresses() const {
        return {instances[0].address(), instances[1].address(), instances[2].address()};
    }
};

lock workers(test_client& c, unsigned permits, lock_options const& options = long_lived) {
    return c.locks.make_semaphore("workers", permits, options);
}

lease hold(test_client& c, lock const& which) {
    attempt a;
    a.start(which);
    return wait_for_lease(c, a);
}

std::vector<lease> hold(test_client& c, lock const& which, std::size_t count) {
    std::vector<lease> all;
    while (all.size() < count) all.push_back(hold(c, which));
    return all;
}

std::pair<error, lease> try_to(test_client& c, lock const& which) {
    attempt a;
    a.start_try(which);
    BOOST_REQUIRE(c.until([&] { return a.done; }));
    return {std::move(a.how), std::move(a.held)};
}

std::pair<error, lease> adopt(test_client& c, lock const& of, lease_token const& token) {
    auto done = false;
    std::pair<error, lease> got;
    c.locks.adopt(of, token, [&](error e, lease l) {
        got.first = std::move(e);
        got.second = std::move(l);
        done = true;
    });
    BOOST_REQUIRE(c.until([&] { return done; }));
    return got;
}

std::set<unsigned> slots_of(std::vector<lease> const& all) {
    std::set<unsigned> slots;
    for (auto const& each : all) slots.insert(each.slot().value());
    return slots;
}

/// Releases the one with this slot.
void release_slot(test_client& c, std::vector<lease>& all, unsigned slot) {
    auto const at = std::ranges::find_if(all, [&](lease const& l) { return l.slot() == slot; });
    BOOST_REQUIRE((at != all.end()));
    BOOST_TEST(c.releases(*at));
    all.erase(at);
}

/// Asks the servers. All earlier answers come before these.
void catch_up(test_client& c) {
    auto done = false;
    c.locks.inspect("workers", [&](error const&, key_report const&) { done = true; });
    BOOST_REQUIRE(c.until([&] { return done; }));
}

void release_all(test_client& c, std::vector<lease>& all) {
    for (auto& each : all) BOOST_TEST(c.releases(each));
    all.clear();
}

} // namespace

BOOST_AUTO_TEST_SUITE(semaphore_calls)

BOOST_AUTO_TEST_CASE(a_semaphore_is_a_lock_with_a_number) {
    auto options = patient();
    options.key_prefix = "app:";
    stage s(options);
    auto const ten = s.client.locks.make_semaphore("workers", 10, {.ttl = 7s, .fencing = true});
    BOOST_TEST(ten.key() == "app:workers");
    BOOST_TEST((ten.access() == lock_access::permit));
    BOOST_TEST(ten.permits() == 10U);
    BOOST_TEST((ten.options().ttl == 7s));
    BOOST_TEST(ten.options().fencing);
    // Equal options, and another number.
    auto const most = s.client.locks.make_semaphore("workers", max_permits, ten.options());
    BOOST_TEST(most.permits() == 10'000U);
    BOOST_TEST(ten.permits() == 10U);
    BOOST_TEST(s.client.locks.make_lock("workers", ten.options()).permits() == 0U);
    BOOST_TEST(s.client.locks.make_read_write_lock("workers").read().permits() == 0U);
}

BOOST_AUTO_TEST_CASE(bad_input_is_refused_with_its_value) {
    auto options = patient();
    options.max_ttl = 60s;
    stage s(options);
    auto const make = [&](std::string_view key, unsigned permits, lock_options const& o = {}) {
        (void)s.client.locks.make_semaphore(key, permits, o);
    };
    BOOST_CHECK_EXCEPTION(make("", 1), system_error, refusal(errc::invalid_key, "empty"));
    BOOST_CHECK_EXCEPTION(make("k", 0), system_error,
                          refusal(errc::invalid_options, "permits is 0; it must be 1 to 10000"));
    BOOST_CHECK_EXCEPTION(make("k", 10'001), system_error,
                          refusal(errc::invalid_options, "permits is 10001"));
    BOOST_CHECK_EXCEPTION(make("k", 65'536 + 1), system_error,
                          refusal(errc::invalid_options, "permits is 65537"));
    BOOST_CHECK_EXCEPTION(make("k", 1, {.fair = true}), system_error,
                          refusal(errc::invalid_options, "fair is set"));
    BOOST_CHECK_EXCEPTION(make("k", 1, {.ttl = 61s}), system_error,
                          refusal(errc::invalid_options, "ttl is 61000 ms"));
    auto const moved = std::move(s.client.locks);
    BOOST_CHECK_EXCEPTION(make("k", 1), system_error, refusal(errc::shut_down, "moved from"));
}

BOOST_AUTO_TEST_CASE(one_client_holds_many_permits_and_each_has_a_slot) {
    stage s;
    auto const five = workers(s.client, 5);
    auto held = hold(s.client, five, 5);
    BOOST_TEST((slots_of(held) == std::set<unsigned>{0, 1, 2, 3, 4}));
    BOOST_TEST((try_to(s.client, five).first == errc::contended));
    BOOST_TEST((try_to(s.second, workers(s.second, 5)).first == errc::contended));
    release_slot(s.client, held, 3);
    auto [e, again] = try_to(s.second, workers(s.second, 5));
    BOOST_TEST(!e, e.what());
    BOOST_TEST(again.slot().value() == 3U);
    for (auto const& each : held) BOOST_TEST(each.held());
    release_all(s.client, held);
    BOOST_TEST(s.second.releases(again));
    BOOST_TEST(again.slot().value() == 3U); // also after its end
    for (auto const& each : s.instances)
        BOOST_TEST(s.client.until([&] { return !each.holds("workers"); }));
}

BOOST_AUTO_TEST_CASE(only_a_permit_has_a_slot) {
    stage s;
    BOOST_TEST(!lease().slot());
    auto plain = s.client.hold("plain");
    BOOST_TEST(!plain.slot());
    BOOST_TEST(!plain.token().slot);
    auto permit = hold(s.client, workers(s.client, 1));
    BOOST_TEST(permit.slot().value() == 0U);
    BOOST_TEST(permit.token().slot.value() == 0U);
    std::ostringstream text;
    text << permit;
    BOOST_TEST(contains(text.str(), ", slot 0"), text.str());
    BOOST_CHECK_EXCEPTION((void)permit.downgrade([](error) {}), system_error,
                          refusal(errc::invalid_options, "read_write_lock::write()"));
    BOOST_TEST(s.client.releases(permit));
    BOOST_TEST(s.client.releases(plain));
}

// Those that do not wait ask the instances, although others of the process are asking.
BOOST_AUTO_TEST_CASE(acquires_that_do_not_wait_get_all_permits_that_are_free) {
    stage s;
    auto const three = workers(s.client, 3);
    std::array<attempt, 5> tries;
    for (auto& each : tries) each.start_try(three);
    BOOST_REQUIRE(s.client.until(
        [&] { return std::ranges::all_of(tries, [](attempt const& a) { return a.done; }); }));
    BOOST_TEST(std::ranges::count_if(tries, [](attempt const& a) { return a.won(); }) == 3);
    for (auto const& each : tries)
        if (!each.won()) BOOST_TEST((each.how == errc::contended));
    for (auto& each : tries)
        if (each.won()) BOOST_TEST(s.client.releases(each.held));
}

// They do not wait behind one that waits.
BOOST_AUTO_TEST_CASE(acquires_that_do_not_wait_are_refused_when_all_permits_are_taken) {
    stage s;
    auto other = hold(s.second, workers(s.second, 1));
    auto const one = workers(s.client, 1);
    attempt waiter, first, second;
    waiter.start(one);
    first.start_try(one);
    second.start_try(one);
    BOOST_REQUIRE(s.client.until([&] { return first.done && second.done; }));
    BOOST_TEST((first.how == errc::contended));
    BOOST_TEST((second.how == errc::contended));
    BOOST_REQUIRE(waits(s.client));
    BOOST_TEST((try_to(s.client, one).first == errc::contended));
    BOOST_TEST(!waiter.done);
    BOOST_TEST(s.second.releases(other));
    check_gets(s.client, waiter);
}

BOOST_AUTO_TEST_CASE(a_permit_that_is_given_back_goes_to_the_next_waiter_with_its_slot) {
    stage s;
    auto const two = workers(s.client, 2, {.ttl = 60s, .fencing = true});
    auto held = hold(s.client, two, 2);
    std::array<attempt, 3> waiters;
    for (auto& each : waiters) each.start(two);
    BOOST_REQUIRE(waits(s.client, 3));
    auto const before = s.client.locks.stats();
    auto fence = held[1].fence();
    auto const slot = held[1].slot();
    auto now = std::move(held[1]);
    for (auto& next : waiters) {
        BOOST_TEST(s.client.releases(now));
        BOOST_REQUIRE(s.client.until([&] { return next.done; }));
        BOOST_TEST(next.won(), next.how.what());
        BOOST_TEST((next.held.slot() == slot));
        BOOST_TEST(next.held.fence() == fence + 1);
        fence = next.held.fence();
        now = std::move(next.held);
    }
    BOOST_TEST(s.client.locks.stats().handovers == before.handovers + 3);
    BOOST_TEST(held[0].held());
    BOOST_TEST(s.client.releases(now));
    BOOST_TEST(s.client.releases(held[0]));
}

// The limit does not end a tenure that is younger than its acquire took. Without a limit, a tenure
// has 99 leases.
BOOST_AUTO_TEST_CASE(a_permit_is_handed_on_no_more_often_than_the_limit_says) {
    stage s;
    auto const one = workers(s.client, 1, {.ttl = 60s, .fencing = true, .handover_limit = 2});
    auto held = hold(s.client, one);
    auto fence = held.fence();
    auto tenures = 1U;
    for (auto i = 0; i < 90 && tenures == 1; ++i) {
        attempt next;
        next.start(one);
        BOOST_REQUIRE(waits(s.client));
        BOOST_TEST(s.client.releases(held));
        held = wait_for_lease(s.client, next);
        BOOST_TEST(held.fence() > fence);
        tenures += held.fence() / 100 != fence / 100 ? 1 : 0;
        fence = held.fence();
    }
    BOOST_TEST(tenures == 2U);
    BOOST_TEST(s.client.releases(held));
}

BOOST_AUTO_TEST_CASE(while_permits_are_held_here_a_waiter_gets_one_that_another_client_gives_back) {
    stage s;
    auto mine = hold(s.client, workers(s.client, 2));
    auto theirs = hold(s.second, workers(s.second, 2));
    attempt waiter;
    waiter.start(workers(s.client, 2));
    BOOST_REQUIRE(waits(s.client));
    BOOST_TEST(s.second.releases(theirs));
    check_gets(s.client, waiter);
    BOOST_TEST(mine.held());
    BOOST_TEST(s.client.releases(mine));
}

// The extension writes the key, and the server forgets that we want to hear of changes.
BOOST_AUTO_TEST_CASE(an_extension_of_this_client_does_not_deafen_its_waiters) {
    auto options = patient();
    options.max_ttl = 1h;
    testing::instance only; // with others, their tracking would find the permit
    test_client client({only.address()}, options), second({only.address()}, options);
    client.runs_with(second);
    auto mine = hold(client, workers(client, 2));
    auto theirs = hold(second, workers(second, 2));
    auto const rounds = client.locks.stats().rounds;
    attempt waiter;
    waiter.start(workers(client, 2));
    // It waits at the arbiter: an answer to a later question is there.
    BOOST_REQUIRE(client.until([&] { return client.locks.stats().rounds >= rounds + 2; }));
    catch_up(client);
    auto extended = false;
    mine.extend(10min, [&](error const& e) {
        BOOST_TEST(!e, e.what());
        extended = true;
    });
    BOOST_REQUIRE(client.until([&] { return extended; }));
    catch_up(client);
    BOOST_TEST(second.releases(theirs));
    BOOST_TEST(client.until([&] { return waiter.done; }, 4s));
    BOOST_TEST(waiter.won(), waiter.how.what());
    waiter.held = {};
    BOOST_TEST(client.releases(mine));
}

//
// Numbers that differ
//

BOOST_AUTO_TEST_CASE(a_smaller_number_takes_no_slot_above_it) {
    stage s;
    auto held = hold(s.second, workers(s.second, 3), 3);
    attempt one;
    one.start(workers(s.client, 1));
    BOOST_REQUIRE(waits(s.client));
    release_slot(s.second, held, 2);
    auto [e, third] = try_to(s.second, workers(s.second, 3));
    BOOST_TEST(!e, e.what());
    BOOST_TEST(third.slot().value() == 2U);
    BOOST_TEST(!one.done);
    release_slot(s.second, held, 0);
    auto first = wait_for_lease(s.client, one);
    BOOST_TEST(first.slot().value() == 0U);
    BOOST_TEST(s.client.releases(first));
    BOOST_TEST(s.second.releases(third));
    release_all(s.second, held);
}

BOOST_AUTO_TEST_CASE(numbers_that_differ_in_one_process_are_not_mixed_up) {
    stage s;
    auto held = hold(s.client, workers(s.client, 3), 3);
    attempt small, large;
    small.start(workers(s.client, 1));
    large.start(workers(s.client, 4));
    BOOST_REQUIRE(waits(s.client, 2));
    // The first waiter wants slot 0 alone.
    release_slot(s.client, held, 1);
    BOOST_TEST(!small.done);
    release_slot(s.client, held, 0);
    auto first = wait_for_lease(s.client, small);
    BOOST_TEST(first.slot().value() == 0U);
    auto next = wait_for_lease(s.client, large);
    BOOST_TEST((next.slot().value() == 1U || next.slot().value() == 3U));
    BOOST_TEST(s.client.releases(first));
    BOOST_TEST(s.client.releases(next));
    release_all(s.client, held);
}

//
// Adoption
//

BOOST_AUTO_TEST_CASE(a_permit_is_adopted_with_its_slot_and_its_fence) {
    stage s;
    lock_options const fenced{.ttl = 60s, .fencing = true};
    auto const before = hold(s.client, workers(s.client, 3, fenced), 2);
    auto given = hold(s.client, workers(s.client, 3, fenced));
    auto const token = given.token();
    BOOST_TEST((token.slot == given.slot()));
    given.detach();
    // A smaller number does not take it away.
    auto [e, taken] = adopt(s.second, workers(s.second, 1, fenced), token);
    BOOST_REQUIRE_MESSAGE(!e, e.what());
    BOOST_TEST((taken.slot() == token.slot));
    BOOST_TEST(taken.fence() == token.fence);
    BOOST_TEST(!s.second.extend(taken));
    BOOST_TEST((adopt(s.second, workers(s.second, 3), token).first == errc::contended));
    BOOST_TEST(taken.held());
    BOOST_TEST((try_to(s.client, workers(s.client, 3)).first == errc::contended));
    // What is handed on from it has the fences that follow.
    attempt next;
    next.start(workers(s.second, 3, fenced));
    BOOST_REQUIRE(waits(s.second));
    BOOST_TEST(s.second.releases(taken));
    auto last = wait_for_lease(s.second, next);
    BOOST_TEST((last.slot() == token.slot));
    BOOST_TEST(last.fence() == token.fence + 1);
    BOOST_TEST(s.second.releases(last));
    BOOST_TEST((adopt(s.second, workers(s.second, 3), token).first == errc::lease_lost));
}

BOOST_AUTO_TEST_CASE(a_token_fits_its_kind_of_lock) {
    stage s;
    auto& locks = s.client.locks;
    auto const nothing = [](error, lease) {};
    auto const semaphore = workers(s.client, 3);
    BOOST_CHECK_EXCEPTION(locks.adopt(semaphore, {.value = "t"}, nothing), system_error,
                          refusal(errc::invalid_options, "has no slot"));
    BOOST_CHECK_EXCEPTION(locks.adopt(semaphore, {.value = "t", .slot = 10'000}, nothing),
                          system_error, refusal(errc::invalid_options, "slot 10000"));
    BOOST_CHECK_EXCEPTION(
        locks.adopt(locks.make_lock("k"), {.value = "t", .slot = 2}, nothing), system_error,
        refusal(errc::invalid_options, "the slot 2, and the lock is no semaphore"));
    BOOST_CHECK_EXCEPTION(locks.adopt("k", {.value = "t", .slot = 2}, 10s, nothing), system_error,
                          refusal(errc::invalid_options, "no semaphore"));
}

BOOST_AUTO_TEST_CASE(a_permit_is_released_by_its_token) {
    stage s;
    auto const two = workers(s.client, 2);
    auto held = hold(s.client, two, 2);
    auto done = false;
    error how;
    s.second.locks.release(workers(s.second, 2), held[0].token().value, [&](error e) {
        how = std::move(e);
        done = true;
    });
    BOOST_REQUIRE(s.client.until([&] { return done; }));
    BOOST_TEST(!how, how.what());
    auto third = hold(s.second, workers(s.second, 2));
    BOOST_TEST((third.slot() == held[0].slot()));
    BOOST_TEST((s.client.extend(held[0]) == errc::lease_lost));
    BOOST_TEST(held[1].held());
    BOOST_TEST(s.client.releases(held[1]));
    BOOST_TEST(s.second.releases(third));
}

BOOST_AUTO_TEST_SUITE_END()
