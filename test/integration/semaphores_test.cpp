// Semaphores on servers: how many hold at one time, who gets a permit that comes free, and what
// faults of servers, processes and other programs do to them.
#include "integration/attempt.hpp"
#include "integration/child.hpp"
#include "integration/foreign_client.hpp"
#include "integration/permit_crowd.hpp"
#include "integration/proxy_group.hpp"
#include "integration/sections.hpp"

#include <boost/asio/cancellation_type.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

constexpr lock_options quick{.ttl = 60s, .max_retry_delay = 5ms};
constexpr lock_options fenced{.ttl = 60s, .fencing = true, .max_retry_delay = 5ms};

lease hold(test_client& c, lock const& on) {
    attempt a;
    a.start(on);
    return wait_for_lease(c, a);
}

std::vector<lease> hold(test_client& c, lock const& on, std::size_t count) {
    std::vector<lease> all;
    while (all.size() < count) all.push_back(hold(c, on));
    return all;
}

std::pair<error, lease> try_to(test_client& c, lock const& on) {
    attempt a;
    a.start_try(on);
    BOOST_REQUIRE(c.until([&] { return a.done; }));
    return {std::move(a.how), std::move(a.held)};
}

void release_all(test_client& c, std::vector<lease>& all) {
    for (auto& each : all) BOOST_TEST(c.releases(each));
    all.clear();
}

std::set<unsigned> slots_of(std::vector<lease> const& all) {
    std::set<unsigned> slots;
    for (auto const& each : all) slots.insert(each.slot().value());
    return slots;
}

/// The number of tokens that the server has in the semaphore "k".
std::int64_t taken_at(server const& on) {
    return redis_cli(on).command({"ZCARD", "k"}).integer();
}

/// Asks all servers, and waits for each. Commands on one key keep their order, so all answers to
/// earlier ones have come. Where the server did not know the scripts, an extension, a healing and
/// the commands that are sent again follow each other.
void settle(test_client& c) {
    for (int n = 0; n < 4; ++n) {
        auto done = false;
        c.locks.inspect("k", [&](error const& e, key_report const&) {
            BOOST_TEST(!e, e.what());
            done = true;
        });
        BOOST_REQUIRE(c.until([&] { return done; }));
    }
}

/// The servers have all permits, and nothing is under way. An acquire is not sent again to a server
/// that did not know its script if the others were a quorum: the extension heals that.
void everywhere(test_client& c, fleet const& servers, std::vector<lease>& all) {
    for (auto& each : all) BOOST_TEST(!c.extend(each));
    settle(c);
    for (server& each : servers)
        BOOST_TEST(taken_at(each) == static_cast<std::int64_t>(all.size()));
}

/// A process that has a permit, or waits for it, until it is killed.
struct holder_process : child {
    holder_process(fleet const& servers, unsigned permits, std::chrono::milliseconds ttl)
        : child("HOLDFAST_CONTENDER",
                {"--instances", servers.url_list(), "--key", "k", "--ttl",
                 std::to_string(ttl.count()), "--permits", std::to_string(permits)}) {
        BOOST_REQUIRE(line() == "ready");
        say("go");
    }
    void holds() { BOOST_REQUIRE(line() == "held"); }
};

/// Who waits for no more than so many acquires of `c`.
template <std::size_t N>
[[nodiscard]] bool all_done(test_client& c, std::array<attempt, N> const& all) {
    return c.until(
        [&] { return std::ranges::all_of(all, [](attempt const& a) { return a.done; }); });
}

} // namespace

BOOST_AUTO_TEST_SUITE(semaphores)

//
// At most n, and no two with one slot
//

BOOST_AUTO_TEST_CASE(no_more_hold_than_there_are_permits_and_no_two_have_one_slot) {
    with_fleets_of({1, 3, 5}, [](fleet& servers) {
        for (auto const permits : {1U, 3U, 7U}) {
            permit_crowd c(addresses_of(servers), {permits}, fenced);
            c.goes_on(400);
            c.stops();
            BOOST_TEST(c.all.most() == permits); // all of them are used
            BOOST_TEST(c.lost == 0U);
            check_nothing_left(c.group, servers);
        }
    });
}

BOOST_AUTO_TEST_CASE(on_each_kind_of_server) {
    on_every_kind([](fleet& servers) {
        permit_crowd c(addresses_of(servers), {3}, fenced);
        c.goes_on(200);
        c.stops();
        BOOST_TEST(c.lost == 0U);
        check_nothing_left(c.group, servers);
    });
}

BOOST_AUTO_TEST_CASE(one_client_holds_all_permits_and_the_next_is_refused) {
    with_fleets_of({1, 3, 5}, [](fleet& servers) {
        test_client one(servers), two(servers);
        one.runs_with(two);
        auto held = hold(one, workers(one, 10), 10);
        BOOST_TEST(slots_of(held).size() == 10U);
        BOOST_TEST(*slots_of(held).rbegin() == 9U);
        auto plain = one.hold("plain");
        auto const counted = one.locks.stats();
        BOOST_TEST(counted.held == 11U);
        BOOST_TEST(counted.permits == 10U);
        BOOST_TEST(one.releases(plain));
        for (auto* const c : {&one, &two}) {
            auto const [e, none] = try_to(*c, workers(*c, 10));
            BOOST_TEST((e == errc::contended), e.what());
            BOOST_TEST(!none);
        }
        for (auto& each : held) BOOST_TEST(!one.extend(each));
        release_all(one, held);
        BOOST_TEST(one.locks.stats().permits == 0U);
        auto again = hold(two, workers(two, 10), 10);
        BOOST_TEST(slots_of(again).size() == 10U);
        release_all(two, again);
        check_nothing_left(one, servers);
        check_nothing_left(two, servers);
    });
}

// Such a ttl is checked at the server before its first grants count.
BOOST_AUTO_TEST_CASE(a_grant_that_waits_for_another_reply_keeps_its_slot) {
    fleet servers(3);
    test_client one(servers);
    auto held = hold(one, workers(one, 5, {.ttl = 4'567ms, .fencing = true}), 5);
    BOOST_TEST((slots_of(held) == std::set<unsigned>{0, 1, 2, 3, 4}));
    for (auto& each : held) {
        BOOST_TEST(!one.extend(each));
        BOOST_TEST(each.fence() > 0U);
    }
    release_all(one, held);
    check_nothing_left(one, servers);
}

// One command to each server, however many permits are taken.
BOOST_AUTO_TEST_CASE(a_free_permit_costs_one_round_trip) {
    fleet servers(3);
    test_client one(servers, without_questions());
    BOOST_REQUIRE(one.all_up());
    auto held = hold(one, workers(one, 1'000), 20);
    everywhere(one, servers, held); // and the servers know the scripts
    auto const before = one.locks.stats();
    held.push_back(hold(one, workers(one, 1'000)));
    auto const after = one.locks.stats();
    BOOST_TEST(after.rounds == before.rounds + 1);
    BOOST_TEST(after.commands == before.commands + 3);
    BOOST_TEST(after.split_votes == before.split_votes);
    release_all(one, held);
    check_nothing_left(one, servers);
}

//
// Permits that come free
//

BOOST_AUTO_TEST_CASE(a_permit_that_is_released_wakes_a_waiter_of_another_process) {
    with_fleets_of({1, 3, 5}, [](fleet& servers) {
        test_client one(servers), two(servers);
        one.runs_with(two);
        auto held = hold(one, workers(one, 3), 3);
        attempt waiter;
        waiter.start(workers(two, 3));
        BOOST_REQUIRE(waits_for_push(two, servers));
        auto const slot = held.back().slot();
        BOOST_TEST(one.releases(held.back()));
        held.pop_back();
        auto got = wait_for_lease(two, waiter);
        BOOST_TEST((got.slot() == slot));
        BOOST_TEST(two.releases(got));
        release_all(one, held);
        check_nothing_left(one, servers);
        check_nothing_left(two, servers);
    });
}

BOOST_AUTO_TEST_CASE(extensions_wake_nobody) {
    fleet servers(1);
    test_client one(servers), two(servers);
    one.runs_with(two);
    auto held = hold(one, workers(one, 1));
    attempt waiter;
    waiter.start(workers(two, 1));
    BOOST_REQUIRE(waits_for_push(two, servers));
    auto const before = two.locks.stats();
    for (auto i = 0; i < 20; ++i) BOOST_TEST(!one.extend(held));
    BOOST_TEST(two.locks.stats().pushes == before.pushes);
    BOOST_TEST(two.locks.stats().rounds == before.rounds);
    BOOST_TEST(one.releases(held));
    check_gets(two, waiter);
    check_nothing_left(one, servers);
}

BOOST_AUTO_TEST_CASE(permits_of_killed_processes_come_back_and_those_of_others_stay) {
    fleet servers(3);
    test_client one(servers);
    auto mine = hold(one, workers(one, 3, {.ttl = renewed_ttl}));
    holder_process first(servers, 3, 1'500ms), second(servers, 3, 1'500ms);
    first.holds();
    second.holds();
    std::array<attempt, 2> waiters;
    for (auto& each : waiters) each.start(workers(one, 3));
    BOOST_REQUIRE(waits(one, 2));
    first.kill();
    second.kill();
    BOOST_REQUIRE(all_done(one, waiters));
    std::set<unsigned> slots{mine.slot().value()};
    for (auto& each : waiters) {
        BOOST_TEST(each.won(), each.how.what());
        slots.insert(each.held.slot().value());
    }
    BOOST_TEST(slots.size() == 3U);
    BOOST_TEST(mine.held());
    for (auto& each : waiters) BOOST_TEST(one.releases(each.held));
    BOOST_TEST(one.releases(mine));
    check_nothing_left(one, servers);
}

BOOST_AUTO_TEST_CASE(a_permit_left_to_its_ttl_comes_back_after_it) {
    fleet servers(3);
    test_client one(servers), two(servers);
    one.runs_with(two);
    auto stays = hold(one, workers(one, 2));
    auto goes = hold(one, workers(one, 2, unwatched(500ms)));
    auto const slot = goes.slot();
    auto const deadline = goes.deadline();
    goes.detach();
    attempt waiter;
    waiter.start(workers(two, 2));
    auto got = wait_for_lease(two, waiter);
    BOOST_TEST((got.slot() == slot));
    BOOST_TEST((stays.slot() != slot));
    BOOST_TEST((waiter.when >= deadline));
    BOOST_TEST(stays.held());
    BOOST_TEST(one.releases(stays));
    BOOST_TEST(two.releases(got));
    check_nothing_left(one, servers);
}

BOOST_AUTO_TEST_CASE(cancelled_waiters_leave_nothing_behind) {
    with_fleets_of({1, 3}, [](fleet& servers) {
        test_client one(servers), two(servers);
        one.runs_with(two);
        auto held = hold(one, workers(one, 1));
        for (auto const type : every_type) {
            attempt gone, stays;
            gone.start(workers(two, 1));
            stays.start(workers(two, 1));
            BOOST_REQUIRE(waits(two, 2));
            gone.signal.emit(type);
            BOOST_REQUIRE(two.until([&] { return gone.done; }));
            BOOST_TEST((gone.how == errc::cancelled));
            BOOST_TEST(one.releases(held));
            held = wait_for_lease(two, stays);
            BOOST_TEST(two.releases(held));
            held = hold(one, workers(one, 1));
        }
        // While its try is under way: a grant that comes later is given back.
        BOOST_TEST(one.releases(held));
        attempt trying;
        trying.start(workers(two, 1));
        two.context.restart();
        two.context.poll_one();
        trying.signal.emit(asio::cancellation_type::partial);
        BOOST_REQUIRE(two.until([&] { return trying.done; }));
        trying.held = {};
        check_nothing_left(one, servers);
        check_nothing_left(two, servers);
    });
}

BOOST_AUTO_TEST_CASE(a_wait_with_a_limit_ends_and_the_report_says_why) {
    fleet servers(3);
    test_client one(servers), two(servers);
    one.runs_with(two);
    auto held = hold(one, workers(one, 2), 2);
    attempt waiter;
    waiter.start_for(workers(two, 2), 200ms);
    BOOST_REQUIRE(two.until([&] { return waiter.done; }));
    BOOST_TEST((waiter.how == errc::wait_timeout), waiter.how.what());
    BOOST_REQUIRE(waiter.how.report() != nullptr);
    release_all(one, held);
    check_nothing_left(two, servers);
}

//
// Numbers that differ
//

BOOST_AUTO_TEST_CASE(clients_whose_numbers_differ_hold_no_more_than_the_greatest) {
    fleet servers(3);
    permit_crowd c(addresses_of(servers), {2, 4, 3}, fenced);
    c.goes_on(600);
    c.stops();
    BOOST_TEST(c.lost == 0U);
    check_nothing_left(c.group, servers);
}

// First some of the processes have the new number, and then all.
BOOST_AUTO_TEST_CASE(the_number_changes_while_permits_are_held) {
    fleet servers(3);
    test_client one(servers), two(servers);
    one.runs_with(two);
    auto held = hold(one, workers(one, 3), 3);
    BOOST_TEST((try_to(two, workers(two, 3)).first == errc::contended));
    // Growing is safe at once.
    auto more = hold(two, workers(two, 5), 2);
    BOOST_TEST((slots_of(more) == std::set<unsigned>{3, 4}));
    BOOST_TEST((try_to(two, workers(two, 5)).first == errc::contended));
    // Shrinking: those above drain, and nobody gets their slots.
    BOOST_TEST((try_to(one, workers(one, 2)).first == errc::contended));
    for (auto& each : more) BOOST_TEST(each.held());
    auto const above =
        std::ranges::find_if(held, [](lease const& l) { return l.slot().value() == 2; });
    BOOST_REQUIRE((above != held.end()));
    BOOST_TEST(one.releases(*above));
    held.erase(above);
    release_all(two, more);
    BOOST_TEST((try_to(two, workers(two, 2)).first == errc::contended));
    BOOST_TEST(one.releases(held.back()));
    held.pop_back();
    auto [e, last] = try_to(two, workers(two, 2));
    BOOST_TEST(!e, e.what());
    BOOST_TEST(last.slot().value() < 2U);
    BOOST_TEST(two.releases(last));
    release_all(one, held);
    check_nothing_left(one, servers);
    check_nothing_left(two, servers);
}

//
// Many
//

BOOST_AUTO_TEST_CASE(a_thousand_workers_share_the_permits) {
    fleet servers(3);
    for (auto const permits : {10U, 100U, 1'000U}) {
        permit_crowd c(addresses_of(servers), {permits}, quick, unhurried(),
                       {.clients = 1, .workers = 1'000, .section = 200us});
        c.goes_on(3'000);
        c.stops();
        BOOST_TEST(c.all.most() <= permits);
        BOOST_TEST(c.all.most() >= 10U);
        BOOST_TEST(c.lost == 0U);
        check_nothing_left(c.group, servers);
    }
}

BOOST_AUTO_TEST_CASE(a_thousand_workers_of_four_processes_share_the_permits) {
    fleet servers(3);
    for (auto const permits : {10U, 100U, 1'000U}) {
        permit_crowd c(addresses_of(servers), {permits}, quick, unhurried(),
                       {.clients = 4, .workers = 250, .section = 200us});
        c.goes_on(3'000);
        // Nobody starves.
        for (auto const& each : c.group.clients) BOOST_TEST(each->stats().acquired > 0U);
        c.stops();
        BOOST_TEST(c.all.most() <= permits);
        BOOST_TEST(c.lost == 0U);
        check_nothing_left(c.group, servers);
    }
}

BOOST_AUTO_TEST_CASE(a_thousand_permits_are_held_by_one_process) {
    fleet servers(3);
    test_client one(servers);
    auto const semaphore = workers(one, 1'000);
    std::deque<attempt> all(1'000);
    for (auto& each : all) each.start(semaphore);
    BOOST_REQUIRE(one.until(
        [&] { return std::ranges::all_of(all, [](attempt const& a) { return a.done; }); }, 60s));
    std::set<unsigned> slots;
    for (auto& each : all) {
        BOOST_REQUIRE_MESSAGE(each.won(), each.how.what());
        slots.insert(each.held.slot().value());
    }
    BOOST_TEST(slots.size() == 1'000U);
    BOOST_TEST((try_to(one, semaphore).first == errc::contended));
    all.clear();
    check_nothing_left(one, servers);
}

//
// Faults
//

BOOST_AUTO_TEST_CASE(a_frozen_minority_does_not_stop_them) {
    for (auto const size : {3U, 5U}) {
        fleet servers(size);
        permit_crowd c(addresses_of(servers), {3}, quick);
        c.goes_on(100);
        servers.freeze(size / 2);
        c.goes_on(150);
        servers.thaw_all();
        c.goes_on(100);
        c.stops();
        BOOST_TEST(c.lost == 0U);
        check_nothing_left(c.group, servers);
    }
}

BOOST_AUTO_TEST_CASE(a_dead_minority_does_not_stop_them) {
    fleet servers(3);
    permit_crowd c(addresses_of(servers), {3}, quick);
    c.goes_on(100);
    servers.kill(1);
    c.goes_on(200);
    c.stops();
    BOOST_TEST(c.lost == 0U);
    check_nothing_left(c.group, servers);
}

// The instance gets the slots that its permits have elsewhere, and not others.
BOOST_AUTO_TEST_CASE(an_instance_that_lost_its_memory_gets_the_permits_again) {
    fleet servers(3);
    test_client one(servers, trusting(patient())), two(servers, trusting(patient()));
    one.runs_with(two);
    two.runs_with(one);
    BOOST_REQUIRE(one.all_up());
    BOOST_REQUIRE(two.all_up());
    auto held = hold(one, workers(one, 4), 3);
    everywhere(one, servers, held);
    redis_cli(servers[0]).flush();
    // Another one gets the slot that is free elsewhere: it has a quorum there alone.
    auto other = hold(two, workers(two, 4));
    BOOST_TEST(slots_of(held).count(other.slot().value()) == 0U);
    // The empty server may have given it a slot of ours. It leaves that before we ask, or we would
    // get the slot at our next renewal only.
    BOOST_TEST(!two.extend(other));
    settle(two);
    for (auto& each : held) BOOST_TEST(!one.extend(each));
    settle(one);
    BOOST_TEST(taken_at(servers[0]) == 4);
    for (auto& each : held) {
        BOOST_TEST(each.held());
        auto const at = redis_cli(servers[0]).command({"ZSCORE", "k", each.token().value});
        BOOST_TEST(at.string() == std::to_string(each.slot().value()));
    }
    BOOST_TEST((try_to(two, workers(two, 4)).first == errc::contended));
    release_all(one, held);
    BOOST_TEST(two.releases(other));
    check_nothing_left(one, servers);
    check_nothing_left(two, servers);
}

BOOST_AUTO_TEST_CASE(all_permits_are_lost_with_the_memory_of_a_majority) {
    fleet servers(3);
    test_client one(servers, trusting(patient()));
    BOOST_REQUIRE(one.all_up());
    auto held = hold(one, workers(one, 4), 2);
    everywhere(one, servers, held);
    for (auto const i : {0U, 1U}) redis_cli(servers[i]).flush();
    for (auto& each : held) {
        auto const how = one.extend(each);
        BOOST_TEST((how == errc::lease_lost), how.what());
        BOOST_TEST((each.ended_by() == lease_end::key_gone));
    }
    check_nothing_left(one, servers);
}

// A token may have another slot at an instance that answers late.
BOOST_AUTO_TEST_CASE(an_instance_with_another_slot_is_put_right) {
    fleet servers(3);
    test_client one(servers, without_questions());
    BOOST_REQUIRE(one.all_up());
    auto held = hold(one, workers(one, 5));
    auto const ours = held.slot().value();
    auto const wrong = std::to_string((ours + 1) % 5);
    auto const token = held.token().value;
    BOOST_TEST(!one.extend(held));
    settle(one);
    BOOST_TEST(taken_at(servers[2]) == 1);
    (void)redis_cli(servers[2]).command({"ZADD", "k", wrong, token});
    auto const how = one.extend(held);
    BOOST_TEST(!how, how.what());
    BOOST_TEST(one.until([&] {
        auto const slot = redis_cli(servers[2]).command({"ZSCORE", "k", token});
        return !slot.is_nil() && slot.string() == std::to_string(ours);
    }));
    BOOST_TEST(one.releases(held));
    check_nothing_left(one, servers);
}

//
// Other kinds of lock on the key
//

BOOST_AUTO_TEST_CASE(a_foreign_lock_keeps_permits_out_and_is_kept_out) {
    fleet servers(3);
    test_client one(servers);
    BOOST_REQUIRE(one.all_up());
    foreign_client foreign(servers);
    foreign.hold("k");
    BOOST_TEST((try_to(one, workers(one, 3)).first == errc::wrong_type));
    foreign.del("k");
    auto held = hold(one, workers(one, 3), 1);
    everywhere(one, servers, held);
    for (server& each : servers)
        BOOST_TEST(!redis_cli(each).set_if_absent("k", foreign_client::token, 60s));
    BOOST_TEST((one.try_acquire("k").first == errc::wrong_type));
    BOOST_TEST(held[0].held());
    release_all(one, held);
    check_nothing_left(one, servers);
}

BOOST_AUTO_TEST_CASE(locks_of_this_client_and_permits_on_one_key_exclude_each_other) {
    fleet servers(3);
    test_client one(servers), two(servers);
    one.runs_with(two);
    auto plain = one.hold("k");
    BOOST_TEST((try_to(one, workers(one, 3)).first == errc::contended));
    BOOST_TEST((try_to(two, workers(two, 3)).first == errc::wrong_type));
    // One of this client waits for it, as for any lock.
    attempt permit;
    permit.start(workers(one, 3));
    BOOST_REQUIRE(waits(one));
    BOOST_TEST(one.releases(plain));
    auto held = wait_for_lease(one, permit);
    BOOST_TEST(!one.extend(held));
    BOOST_TEST((one.try_acquire("k").first == errc::wrong_type));
    BOOST_TEST(one.releases(held));
    BOOST_REQUIRE(one.sees(servers, "k", false));
    auto again = two.hold("k");
    BOOST_TEST(two.releases(again));
    check_nothing_left(one, servers);
}

BOOST_AUTO_TEST_SUITE_END()
