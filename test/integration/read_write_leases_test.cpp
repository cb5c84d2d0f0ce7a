// The leases of readers and writers: downgrade, hand-on, extension, fences, events and the end of a
// client.
#include <holdfast/fence_gate.hpp>
#include <holdfast/lead.hpp>
#include <holdfast/observer.hpp>
#include <holdfast/with_lock.hpp>

#include "integration/fences.hpp"
#include "integration/foreign_client.hpp"
#include "integration/loss_wait.hpp"
#include "integration/readers_writers.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

/// Asks each server for the key between the steps of the clients, and counts what it gets.
struct greedy_program {
    explicit greedy_program(fleet const& servers) {
        for (server& each : servers) clis.emplace_back(each);
    }
    void ask() {
        for (auto& cli : clis) granted += cli.set_if_absent("k", "greedy", 60s) ? 1 : 0;
    }
    std::vector<redis_cli> clis;
    std::size_t granted = 0;
};

lease_token given_up(lease& l) {
    auto token = l.token();
    l.detach();
    return token;
}

std::chrono::milliseconds least_left(fleet const& servers) {
    auto least = std::chrono::milliseconds::max();
    for (server& each : servers) least = std::min(least, redis_cli(each).pttl("k"));
    return least;
}

} // namespace

BOOST_AUTO_TEST_SUITE(read_write_leases)

//
// Downgrade
//

BOOST_AUTO_TEST_CASE(a_downgrade_has_no_gap_for_writers_and_lets_readers_in) {
    fleet servers(3);
    test_client one(servers), two(servers), three(servers);
    one.runs_with(two);
    one.runs_with(three);
    two.runs_with(three);
    auto held = writes_everywhere(one, servers);
    attempt writer, plain, reader;
    reader.start(page(three).read());
    BOOST_REQUIRE(waits_for_push(three, servers));
    plain.start(two.locks.make_lock("k", long_lived));
    BOOST_REQUIRE(waits(two));
    greedy_program other(servers);
    auto done = false;
    error result;
    held.downgrade([&](error e) {
        result = std::move(e);
        done = true;
    });
    BOOST_REQUIRE(one.until([&] {
        other.ask();
        return done;
    }));
    BOOST_TEST(!result, result.what());
    BOOST_TEST(held.held());
    BOOST_REQUIRE(one.until([&] {
        other.ask();
        return reader.done;
    }));
    BOOST_TEST(reader.won(), reader.how.what());
    BOOST_TEST(held.held());
    // A writer waits for both.
    writer.start(page(two).write());
    BOOST_REQUIRE(waits(two, 2));
    BOOST_TEST(one.releases(held));
    BOOST_TEST(!three.extend(reader.held));
    other.ask();
    BOOST_TEST(other.granted == 0U);
    BOOST_TEST(!plain.done);
    BOOST_TEST(!writer.done);
    BOOST_TEST(three.releases(reader.held));
    check_gets(two, plain);
    check_gets(two, writer);
    for (auto* const c : {&one, &two, &three}) check_only_turns_left(*c, servers);
}

BOOST_AUTO_TEST_CASE(readers_of_the_process_come_in_after_a_downgrade) {
    fleet servers(3);
    test_client client(servers);
    auto held = writes(client);
    attempt first, second, writer, third;
    first.start(page(client).read());
    second.start(page(client).read());
    writer.start(page(client).write());
    third.start(page(client).read());
    BOOST_REQUIRE(waits(client, 4));
    BOOST_TEST(!downgrade(client, held));
    BOOST_REQUIRE(client.until([&] { return first.done && second.done; }));
    BOOST_TEST(first.won());
    BOOST_TEST(second.won());
    BOOST_TEST(held.held());
    BOOST_TEST(!writer.done);
    BOOST_TEST(client.releases(first.held));
    BOOST_TEST(client.releases(held));
    BOOST_TEST(client.releases(second.held));
    BOOST_REQUIRE(client.until([&] { return writer.done; }));
    BOOST_TEST(!third.done);
    check_gets(client, writer);
    check_gets(client, third);
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(newcomers_share_what_was_a_writers_lease) {
    fleet servers(3);
    test_client client(servers);
    auto held = writes(client);
    BOOST_TEST(!downgrade(client, held));
    std::vector<lease> all;
    for (int i = 0; i < 5; ++i) all.push_back(reads(client));
    for (auto& each : all) BOOST_TEST(each.token().value == held.token().value);
    BOOST_TEST(client.releases(held));
    for (auto& each : all) {
        BOOST_TEST(each.held());
        BOOST_TEST(!client.extend(each));
        BOOST_TEST(client.releases(each));
    }
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(a_second_downgrade_is_an_extension) {
    fleet servers(3);
    test_client client(servers);
    auto held = writes(client);
    BOOST_TEST(!downgrade(client, held));
    auto const before = held.deadline();
    BOOST_TEST(!downgrade(client, held));
    BOOST_TEST((held.deadline() > before));
    auto other = reads(client);
    BOOST_TEST(!downgrade(client, held));
    BOOST_TEST(client.releases(held));
    BOOST_TEST(other.held());
    BOOST_TEST(client.releases(other));
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(only_writers_can_be_downgraded) {
    fleet servers(1);
    test_client client(servers);
    auto plain = client.hold("j");
    auto reader = reads(client);
    for (auto* const each : {&plain, &reader}) {
        BOOST_CHECK_EXCEPTION((void)each->downgrade([](error) {}), system_error,
                              [](system_error const& e) {
                                  return e.code() == errc::invalid_options &&
                                         contains(e.what(), "read_write_lock::write()");
                              });
        BOOST_TEST(each->held());
        BOOST_TEST(client.releases(*each));
    }
    auto gone = writes(client);
    BOOST_TEST(client.releases(gone));
    BOOST_TEST((downgrade(client, gone) == errc::lease_released));
    lease none;
    BOOST_TEST(throws_released([&] { none.downgrade([](error) {}); }));
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(a_lease_that_was_handed_over_is_downgraded) {
    fleet servers(3);
    test_client client(servers), other(servers);
    client.runs_with(other);
    auto first = writes(client, handed_on);
    attempt second, third;
    second.start(page(client, handed_on).write());
    third.start(page(client, handed_on).write());
    BOOST_REQUIRE(waits(client, 2));
    BOOST_TEST(client.releases(first));
    BOOST_REQUIRE(client.until([&] { return second.done; }));
    BOOST_TEST(client.locks.stats().handovers == 1U);
    BOOST_TEST(!downgrade(client, second.held));
    auto elsewhere = try_to(other, page(other).read());
    // A writer of the first process waits, and this may have been noted.
    if (elsewhere.first) BOOST_TEST((elsewhere.first == errc::contended));
    BOOST_TEST(!third.done);
    if (elsewhere.second) BOOST_TEST(other.releases(elsewhere.second));
    BOOST_TEST(client.releases(second.held));
    check_gets(client, third);
    check_only_turns_left(client, servers);
}

BOOST_AUTO_TEST_CASE(an_adopted_lease_is_downgraded) {
    fleet servers(3);
    test_client one(servers), two(servers);
    one.runs_with(two);
    auto first = writes_everywhere(one, servers, {.ttl = 60s, .fencing = true});
    auto const token = given_up(first);
    auto [e, second] = adopt(two, page(two, {.ttl = 60s, .fencing = true}).write(), token);
    BOOST_REQUIRE_MESSAGE(!e, e.what());
    BOOST_TEST(second.fence() == token.fence);
    BOOST_TEST(!downgrade(two, second));
    BOOST_REQUIRE(two.sees(servers, readers_of_k, true)); // or a reader may be refused, and wait
    auto reader = reads(one);
    BOOST_TEST(two.releases(second));
    BOOST_TEST(reader.held());
    BOOST_TEST(!one.extend(reader));
    BOOST_TEST(one.releases(reader));
    check_nothing_left(one, servers);
}

BOOST_AUTO_TEST_CASE(a_lost_lease_is_not_downgraded) {
    fleet servers(3);
    test_client client(servers), other(servers);
    client.runs_with(other);
    for (auto const taken : {false, true}) {
        auto held = writes_everywhere(client, servers);
        for (server& each : servers) redis_cli(each).del("k");
        std::optional<lease> next;
        if (taken) next = writes_everywhere(other, servers);
        auto const e = downgrade(client, held);
        BOOST_TEST((e == errc::lease_lost), e.what());
        BOOST_TEST(!held.held());
        BOOST_TEST((client.release(held) == errc::lease_lost));
        if (!next) continue;
        BOOST_TEST(!other.extend(*next));
        BOOST_TEST(other.releases(*next));
    }
    check_nothing_left(client, servers);
}

// The lease goes on to its deadline, as a reader's, and the watchdog tries again.
BOOST_AUTO_TEST_CASE(without_a_quorum_a_downgrade_fails_and_the_lease_is_a_readers) {
    fleet servers(3);
    test_client client(servers, hasty()), other(servers);
    client.runs_with(other);
    auto held = writes_everywhere(client, servers, {.ttl = 9s});
    servers.freeze(2);
    auto const e = downgrade(client, held);
    BOOST_TEST((e == errc::no_quorum || e == errc::instance_timeout), e.what());
    BOOST_TEST(held.held());
    // Where it could be asked, readers are let in already.
    BOOST_TEST(readers_at(servers[2]) == 1);
    servers.thaw_all();
    BOOST_REQUIRE(
        client.until([&] { return readers_at(servers[0]) == 1 && readers_at(servers[1]) == 1; }));
    auto reader = reads(other);
    BOOST_TEST(held.held());
    BOOST_TEST(client.releases(held));
    BOOST_TEST(other.releases(reader));
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(a_downgrade_without_a_quorum_ends_at_its_deadline) {
    fleet servers(3);
    test_client client(servers, hasty());
    auto held = writes_everywhere(client, servers, {.ttl = 1s});
    servers.freeze(2);
    loss_wait end(held);
    (void)downgrade(client, held);
    auto const deadline = held.deadline();
    BOOST_REQUIRE(client.until([&] { return end.done; }));
    BOOST_TEST((end.how == lease_end::expired));
    BOOST_TEST((end.deadline == deadline));
    servers.thaw_all();
    check_nothing_left(client, servers);
}

// One instance misses it, and learns it from the next extension.
BOOST_AUTO_TEST_CASE(an_instance_that_missed_the_downgrade_learns_it) {
    fleet servers(3);
    test_client client(servers, hasty());
    auto held = writes_everywhere(client, servers, {.ttl = 9s});
    servers[0].freeze();
    BOOST_TEST(!downgrade(client, held));
    servers[0].thaw();
    BOOST_REQUIRE(client.until([&] { return readers_at(servers[0]) == 1; }));
    BOOST_TEST(client.releases(held));
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(an_instance_that_never_learned_of_the_downgrade_is_released) {
    fleet servers(3);
    test_client client(servers, hasty());
    auto held = writes_everywhere(client, servers);
    servers[0].freeze();
    BOOST_TEST(!downgrade(client, held));
    BOOST_TEST(client.releases(held));
    servers[0].thaw();
    check_nothing_left(client, servers);
}

//
// Extension and loss, among readers that share
//

BOOST_AUTO_TEST_CASE(an_extension_is_for_all_that_share) {
    fleet servers(3);
    test_client client(servers);
    attempt a, b;
    a.start(page(client, {.ttl = 20s}).read());
    b.start(page(client, {.ttl = 20s}).read());
    BOOST_REQUIRE(client.until([&] { return a.done && b.done; }));
    auto const before = a.held.deadline();
    BOOST_TEST((b.held.deadline() == before));
    BOOST_TEST(!client.extend(a.held));
    BOOST_TEST((a.held.deadline() > before));
    BOOST_TEST((b.held.deadline() == a.held.deadline()));
    // Longer: for both. Shorter: of no effect while they share.
    BOOST_TEST(!extend(client, b.held, 50s));
    BOOST_TEST((a.held.remaining() > 40s));
    BOOST_TEST((b.held.remaining() > 40s));
    BOOST_TEST(!extend(client, a.held, 5s));
    BOOST_TEST((a.held.remaining() > 40s));
    BOOST_TEST((b.held.remaining() > 40s));
    BOOST_TEST(client.releases(a.held));
    BOOST_TEST(!extend(client, b.held, 5s));
    BOOST_TEST((b.held.remaining() < 6s));
    BOOST_TEST(client.releases(b.held));
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(readers_are_extended_while_one_of_them_wants_it) {
    fleet servers(3);
    test_client client(servers);
    attempt a, b;
    a.start(page(client, {.ttl = renewed_ttl}).read());
    b.start(page(client, {.ttl = renewed_ttl}).read());
    BOOST_REQUIRE(client.until([&] { return a.done && b.done; }));
    BOOST_TEST(a.held.token().value == b.held.token().value);
    for (auto* const unwanted : {&b.held, &a.held}) {
        a.held.extend_while({});
        b.held.extend_while({});
        unwanted->extend_while([] { return false; });
        BOOST_TEST(client.renews(2));
        BOOST_TEST(a.held.held());
        BOOST_TEST(b.held.held());
    }
    BOOST_TEST(client.releases(b.held));
    loss_wait end(a.held);
    BOOST_REQUIRE(client.until([&] { return end.done; }));
    BOOST_TEST((end.how == lease_end::expired));
    check_nothing_left(client, servers);
}

// The first one wanted no more extensions, so there was none when the second one came.
BOOST_AUTO_TEST_CASE(a_reader_that_joins_late_is_extended) {
    fleet servers(3);
    test_client client(servers);
    auto const lock = page(client, {.ttl = renewed_ttl}).read();
    auto first = hold(client, lock);
    auto asked = false;
    first.extend_while([&] {
        asked = true;
        return false;
    });
    BOOST_REQUIRE(client.until([&] { return asked; }));
    auto second = hold(client, lock);
    BOOST_TEST(second.token().value == first.token().value);
    BOOST_TEST(client.renews(2));
    BOOST_TEST(first.held());
    BOOST_TEST(second.held());
    BOOST_TEST(client.releases(second));
    BOOST_TEST(client.releases(first));
    check_nothing_left(client, servers);
}

// One of them has left the key to its ttl, and so did the tenure.
BOOST_AUTO_TEST_CASE(nobody_joins_readers_who_leave_the_key) {
    fleet servers(1);
    test_client client(servers);
    attempt a, b;
    a.start(page(client).read());
    b.start(page(client).read());
    BOOST_REQUIRE(client.until([&] { return a.done && b.done; }));
    BOOST_TEST(a.held.token().value == b.held.token().value);
    b.held.detach();
    auto late = reads(client);
    BOOST_TEST(late.token().value != a.held.token().value);
    BOOST_TEST(client.releases(late));
    BOOST_TEST(client.releases(a.held));
    BOOST_TEST(readers_at(servers[0]) == 1);
    redis_cli(servers[0]).flush();
}

BOOST_AUTO_TEST_CASE(all_that_share_hear_of_the_loss) {
    fleet servers(3);
    test_client client(servers);
    std::vector<attempt> all(5);
    for (auto& each : all) each.start(page(client, {.ttl = renewed_ttl}).read());
    BOOST_REQUIRE(client.until([&] { return all.back().done; }));
    std::vector<loss_wait> ends(5);
    for (std::size_t i = 0; i < 5; ++i) ends[i].start(all[i].held);
    BOOST_TEST(client.releases(all[2].held));
    BOOST_REQUIRE(client.until([&] { return ends[2].done; }));
    BOOST_TEST((ends[2].how == lease_end::released));
    for (server& each : servers) redis_cli(each).del("k");
    BOOST_REQUIRE(client.until([&] {
        return std::all_of(ends.begin(), ends.end(), [](loss_wait const& e) { return e.done; });
    }));
    for (std::size_t i = 0; i < 5; ++i) {
        if (i == 2) continue;
        BOOST_TEST((ends[i].how == lease_end::key_gone));
        BOOST_TEST(!all[i].held.held());
        BOOST_TEST((client.release(all[i].held) == errc::lease_lost));
    }
    auto const s = client.locks.stats();
    BOOST_TEST(s.lost == 4U);
    BOOST_TEST(s.released == 1U);
    // The key can be had again.
    auto next = writes(client);
    BOOST_TEST(client.releases(next));
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(a_minority_that_lost_the_readers_gets_them_back) {
    fleet servers(3);
    test_client client(servers);
    auto held = reads_everywhere(client, servers, {.ttl = renewed_ttl});
    for (auto const* const key : {"k", "{k}:readers"}) {
        redis_cli(servers[1]).del(key);
        // Without its set the key is nobody's until its ttl is over.
        BOOST_REQUIRE(client.until(
            [&] { return readers_at(servers[1]) == 1 && redis_cli(servers[1]).exists("k"); }, 20s));
        BOOST_TEST(held.held());
    }
    BOOST_TEST(client.releases(held));
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(objects_of_one_readers_lease) {
    fleet servers(3);
    test_client client(servers);
    attempt a, b;
    a.start(page(client).read());
    b.start(page(client).read());
    BOOST_REQUIRE(client.until([&] { return a.done && b.done; }));
    auto again = a.held.share();
    BOOST_TEST(client.releases(a.held));
    BOOST_TEST(again.held());
    BOOST_TEST(client.releases(b.held));
    BOOST_TEST(again.held());
    BOOST_TEST(is_held(servers));
    BOOST_TEST(client.releases(again));
    check_nothing_left(client, servers);
}

//
// Handing a lease to another process
//

BOOST_AUTO_TEST_CASE(a_readers_lease_goes_on_in_another_process) {
    fleet servers(3);
    test_client one(servers), two(servers);
    one.runs_with(two);
    auto first = reads_everywhere(one, servers, {.ttl = 20s, .fencing = true});
    auto const token = given_up(first);
    auto [e, second] = adopt(two, page(two, {.ttl = 60s, .fencing = true}).read(), token);
    BOOST_REQUIRE_MESSAGE(!e, e.what());
    BOOST_TEST(second.fence() == token.fence);
    BOOST_TEST((second.remaining() > 40s));
    first = {};
    BOOST_REQUIRE(one.idle());
    BOOST_TEST(is_held(servers));
    // It shares the key with others as before, and keeps writers out.
    auto third = reads(one);
    BOOST_TEST((try_to(one, page(one).write()).first == errc::contended));
    BOOST_TEST(!two.extend(second));
    BOOST_TEST(one.releases(third));
    BOOST_TEST(two.releases(second));
    auto next = writes(one, fenced);
    BOOST_TEST(next.fence() > token.fence);
    BOOST_TEST(one.releases(next));
    check_nothing_left(one, servers);
    check_nothing_left(two, servers);
}

BOOST_AUTO_TEST_CASE(an_adoption_of_the_wrong_kind_takes_nothing) {
    fleet servers(3);
    test_client one(servers), two(servers);
    one.runs_with(two);
    auto held = reads_everywhere(one, servers);
    auto [e, none] = adopt(two, page(two).write(), held.token());
    BOOST_TEST(e);
    BOOST_TEST(!none);
    auto [f, no_plain] = adopt(two, two.locks.make_lock("k", long_lived), held.token());
    BOOST_TEST(f);
    BOOST_TEST(!no_plain);
    BOOST_TEST(!one.extend(held));
    BOOST_TEST(one.releases(held));
    auto [g, gone] = adopt(two, page(two).read(), {.value = "nobody:0123456789abcdef"});
    BOOST_TEST(g);
    check_nothing_left(one, servers);
}

// What is detached stays, and those that share with it go on.
BOOST_AUTO_TEST_CASE(one_of_those_that_share_is_detached) {
    fleet servers(3);
    test_client client(servers), other(servers);
    client.runs_with(other);
    attempt a, b;
    a.start(page(client).read());
    b.start(page(client).read());
    BOOST_REQUIRE(client.until([&] { return a.done && b.done; }));
    a.held.detach();
    BOOST_TEST(!a.held.held());
    BOOST_TEST(b.held.held());
    b.held = everywhere(client, servers, std::move(b.held));
    BOOST_TEST(client.releases(b.held));
    BOOST_REQUIRE(client.idle());
    // The key stays for its ttl, for readers too.
    BOOST_TEST(is_held(servers));
    BOOST_TEST((least_left(servers) > 40s));
    BOOST_TEST((try_to(other, page(other).write()).first == errc::contended));
    auto third = reads(other);
    BOOST_TEST(other.releases(third));
    BOOST_TEST(is_held(servers));
    auto const s = client.locks.stats();
    BOOST_TEST(s.acquired == 2U);
    BOOST_TEST(s.released == 2U);
}

BOOST_AUTO_TEST_CASE(one_of_those_that_share_goes_on_in_another_process_and_ends_for_none) {
    fleet servers(3);
    test_client one(servers), two(servers);
    one.runs_with(two);
    auto first = reads_everywhere(one, servers), second = reads(one);
    auto const token = given_up(first);
    BOOST_TEST(token.shared);
    auto [e, adopted] = adopt(two, page(two).read(), token);
    BOOST_REQUIRE_MESSAGE(!e, e.what());
    BOOST_TEST(adopted.token().shared);
    BOOST_TEST(!two.extend(adopted));
    // It serves no other reader of its new process.
    auto third = reads(two);
    BOOST_TEST(third.token().value != token.value);
    BOOST_TEST(!third.token().shared);
    BOOST_TEST(two.releases(third));
    BOOST_TEST(two.releases(adopted));
    BOOST_REQUIRE(two.idle());
    BOOST_TEST((try_to(two, page(two).write()).first == errc::contended));
    BOOST_TEST(!one.extend(second));
    BOOST_TEST(one.releases(second));
    BOOST_REQUIRE(one.idle());
    // Nobody knows whether there is another one.
    BOOST_TEST((try_to(two, page(two).write()).first == errc::contended));
    BOOST_TEST((least_left(servers) > 40s));
}

// The process that has adopted it does not extend it, and its deadline passes.
BOOST_AUTO_TEST_CASE(the_loss_of_a_reader_that_was_adopted_ends_those_that_share_it_not) {
    fleet servers(3);
    test_client one(servers), two(servers);
    one.runs_with(two);
    auto first = reads_everywhere(one, servers), second = reads(one);
    auto const token = given_up(first);
    auto tried = adopt(two, page(two, {.ttl = 2s, .watchdog = false}).read(), token);
    BOOST_REQUIRE_MESSAGE(!tried.first, tried.first.what());
    auto& adopted = tried.second;
    auto how = lease_end::none;
    adopted.wait_end([&](error, lease_end end) { how = end; });
    BOOST_REQUIRE(two.until([&] { return how != lease_end::none; }));
    BOOST_TEST(how == lease_end::expired);
    BOOST_REQUIRE(two.until([&] { return lease_clock::now() > adopted.deadline(); }));
    // What is sent at the deadline comes before this.
    BOOST_TEST((try_to(two, page(two).write()).first == errc::contended));
    BOOST_REQUIRE(two.idle());
    for (server& each : servers) BOOST_TEST(readers_at(each) == 1);
    BOOST_TEST(!one.extend(second));
    BOOST_TEST((try_to(two, page(two).write()).first == errc::contended));
    BOOST_TEST(one.releases(second));
}

BOOST_AUTO_TEST_CASE(no_reader_joins_one_that_is_to_be_handed_over) {
    fleet servers(3);
    test_client one(servers), two(servers);
    one.runs_with(two);
    auto first = reads_everywhere(one, servers);
    auto const token = first.token();
    BOOST_TEST(!token.shared);
    auto second = reads(one);
    BOOST_TEST(second.token().value != token.value);
    first.detach();
    auto [e, adopted] = adopt(two, page(two).read(), token);
    BOOST_REQUIRE_MESSAGE(!e, e.what());
    BOOST_TEST(two.releases(adopted));
    BOOST_TEST((try_to(two, page(two).write()).first == errc::contended));
    BOOST_TEST(!one.extend(second));
    BOOST_TEST(one.releases(second));
    auto next = writes(two);
    BOOST_TEST(two.releases(next));
    check_nothing_left(one, servers);
    check_nothing_left(two, servers);
}

// A writer is a reader from a downgrade on, and its token may be known already.
BOOST_AUTO_TEST_CASE(no_reader_joins_a_writer_that_is_to_be_handed_over) {
    fleet servers(3);
    test_client client(servers);
    auto held = writes(client);
    auto const token = held.token();
    BOOST_TEST(!downgrade(client, held));
    auto other = reads(client);
    BOOST_TEST(other.token().value != token.value);
    BOOST_TEST(client.releases(held));
    BOOST_TEST(!client.extend(other));
    BOOST_TEST(client.releases(other));
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(the_token_of_a_shared_reader_is_refused_for_any_other_lock) {
    fleet servers(1);
    test_client client(servers);
    lease_token const token{.value = "some:0123456789abcdef0123456789abcdef", .shared = true};
    auto const is_named = [](system_error const& e) {
        return e.code() == errc::invalid_options &&
               std::string(e.what()).find("a shared reader") != std::string::npos;
    };
    auto const ignored = [](error, lease) {};
    BOOST_CHECK_EXCEPTION(client.locks.adopt("k", token, lock_options(), ignored), system_error,
                          is_named);
    BOOST_CHECK_EXCEPTION(client.locks.adopt(page(client).write(), token, ignored), system_error,
                          is_named);
}

//
// Sections
//

BOOST_AUTO_TEST_CASE(sections_of_readers_overlap_and_those_of_writers_do_not) {
    fleet servers(3);
    test_client client(servers);
    read_write_ledger all;
    auto ended = 0;
    auto const section = [&](bool writer) {
        return [&all, writer](lease& held) -> asio::awaitable<void> {
            writer ? all.writer_enters() : all.reader_enters();
            asio::steady_timer timer(co_await asio::this_coro::executor, 20ms);
            co_await timer.async_wait(asio::deferred);
            BOOST_TEST(held.held());
            writer ? all.writer_leaves() : all.reader_leaves();
        };
    };
    auto const end = [&](std::exception_ptr e) {
        BOOST_TEST(!e);
        ++ended;
    };
    auto const both = page(client);
    for (int i = 0; i < 12; ++i) {
        auto const writer = i % 4 == 3;
        with_lock(writer ? both.write() : both.read(), section(writer), end);
    }
    BOOST_REQUIRE(client.until([&] { return ended == 12; }));
    BOOST_TEST(all.overlaps() == 0U);
    BOOST_TEST(all.most_readers() == 3);
    check_nothing_left(client, servers);
}

// A section whose writer goes on as a reader.
BOOST_AUTO_TEST_CASE(a_section_downgrades_its_lease) {
    fleet servers(3);
    test_client client(servers), other(servers);
    client.runs_with(other);
    auto steps = 0;
    auto ended = false;
    auto const both = page(client);
    auto const theirs = page(other).read();
    with_lock(
        both.write(),
        [&](lease& held) -> asio::awaitable<void> {
            co_await held.downgrade();
            ++steps;
            while (other.locks.stats().held == 0) {
                asio::steady_timer timer(co_await asio::this_coro::executor, 1ms);
                co_await timer.async_wait(asio::deferred);
            }
            BOOST_TEST(held.held());
            ++steps;
        },
        [&](std::exception_ptr e) {
            BOOST_TEST(!e);
            ended = true;
        });
    BOOST_REQUIRE(client.until([&] { return steps == 1; }));
    attempt reader;
    reader.start(theirs);
    BOOST_REQUIRE(client.until([&] { return ended; }));
    BOOST_TEST(steps == 2);
    check_gets(other, reader);
    check_only_turns_left(client, servers); // the last server may have refused the reader
}

// Any number of processes lead at one time, and none while there is a writer.
BOOST_AUTO_TEST_CASE(several_lead_with_a_read_lock) {
    fleet servers(3);
    test_client one(servers), two(servers);
    one.runs_with(two);
    auto leading = 0, ended = 0;
    asio::cancellation_signal stop_one, stop_two;
    auto const body = [&](lease&) -> asio::awaitable<void> {
        ++leading;
        co_await wait_for_signal();
        --leading;
    };
    auto const end = [&](std::exception_ptr) { ++ended; };
    auto writer = writes(one);
    lead(page(one).read(), body, asio::bind_cancellation_slot(stop_one.slot(), end));
    lead(page(two).read(), body, asio::bind_cancellation_slot(stop_two.slot(), end));
    BOOST_REQUIRE(waits(one));
    BOOST_REQUIRE(waits(two));
    BOOST_TEST(leading == 0);
    BOOST_TEST(one.releases(writer));
    BOOST_REQUIRE(one.until([&] { return leading == 2; }));
    stop_one.emit(asio::cancellation_type::terminal);
    stop_two.emit(asio::cancellation_type::terminal);
    BOOST_REQUIRE(one.until([&] { return ended == 2; }));
    BOOST_TEST(leading == 0);
    check_only_turns_left(one, servers);
    check_only_turns_left(two, servers);
}

//
// Fences
//

BOOST_AUTO_TEST_CASE(fences_order_writers_and_readers) {
    fleet servers(3);
    test_client one(servers), two(servers);
    one.runs_with(two);
    fence_gate gate(10);
    std::mt19937 random(7);
    std::uint64_t last_writer = 0, last_reader = 0;
    for (int i = 0; i < 60; ++i) {
        auto& c = random() % 2 == 0 ? one : two;
        if (random() % 2 == 0) {
            auto held = writes(c, fenced);
            BOOST_TEST(held.fence() > last_writer);
            BOOST_TEST(held.fence() > last_reader);
            last_writer = held.fence();
            BOOST_TEST(gate.admit("k", held.fence()));
            BOOST_TEST(!gate.admit_shared("k", last_reader));
            BOOST_TEST(c.releases(held));
        } else {
            // They may have different fences, or equal ones.
            auto a = reads(one, fenced);
            auto b = reads(two, fenced);
            for (auto* const each : {&a, &b}) {
                BOOST_TEST(each->fence() > last_writer);
                BOOST_TEST(gate.admit_shared("k", each->fence()));
                last_reader = std::max(last_reader, each->fence());
            }
            BOOST_TEST(one.releases(a));
            BOOST_TEST(gate.admit_shared("k", b.fence()));
            BOOST_TEST(two.releases(b));
        }
    }
    check_nothing_left(one, servers);
}

BOOST_AUTO_TEST_CASE(the_first_reader_of_a_key_has_a_fence_below_the_first_writers) {
    fleet servers(3);
    test_client client(servers);
    auto reader = reads(client, fenced);
    BOOST_TEST(reader.fence() > 0U);
    BOOST_TEST(client.releases(reader));
    auto writer = writes(client, fenced);
    BOOST_TEST(writer.fence() > reader.fence());
    BOOST_TEST(client.releases(writer));
}

// Leases that were handed on count, up to the last that a number has.
BOOST_AUTO_TEST_CASE(a_reader_is_above_all_writers_before_it_however_often_they_handed_on) {
    fleet servers(1);
    test_client client(servers);
    lock_options const often{
        .ttl = 60s, .fencing = true, .handover_limit = max_handover_limit, .handover_time = 60s};
    // The clocks are behind the counter, so the next number is by one greater.
    set_counters(servers, std::to_string(number_now() + minute));
    auto const writer = page(client, often).write();
    auto held = hold(client, writer);
    std::vector<attempt> behind(150);
    for (auto& each : behind) each.start(writer);
    BOOST_REQUIRE(waits(client, behind.size()));
    std::uint64_t last = held.fence(), most = 0;
    BOOST_TEST(client.releases(held));
    for (std::size_t i = 0; i < behind.size(); ++i) {
        auto& each = behind[i];
        BOOST_REQUIRE(client.until([&] { return each.done; }));
        BOOST_TEST(each.held.fence() > last);
        last = each.held.fence();
        most = std::max(most, last % 100);
        // A reader follows upon the last lease that the number may have.
        if (most >= 98)
            for (auto at = i + 1; at < behind.size(); ++at)
                behind[at].signal.emit(asio::cancellation_type::terminal);
        BOOST_TEST(client.releases(each.held));
        if (most >= 98) break;
    }
    BOOST_TEST(most == 98U);
    auto after = reads(client, fenced);
    BOOST_TEST(after.fence() > last);
    BOOST_TEST(client.releases(after));
    // One more writer would have the fence of the readers.
    held = hold(client, writer);
    std::vector<attempt> more(150);
    for (auto& each : more) each.start(writer);
    last = held.fence();
    BOOST_TEST(client.releases(held));
    for (auto& each : more) {
        BOOST_REQUIRE(client.until([&] { return each.done; }));
        BOOST_TEST(each.held.fence() > last);
        BOOST_TEST(each.held.fence() % 100 != 99U);
        last = each.held.fence();
        BOOST_TEST(client.releases(each.held));
    }
}

BOOST_AUTO_TEST_CASE(a_downgraded_lease_keeps_its_fence_and_later_readers_are_not_below) {
    fleet servers(3);
    test_client client(servers), other(servers);
    client.runs_with(other);
    fence_gate gate(10);
    auto held = writes(client, fenced);
    auto const fence = held.fence();
    BOOST_TEST(gate.admit("k", fence));
    BOOST_TEST(!downgrade(client, held));
    BOOST_TEST(held.fence() == fence);
    BOOST_TEST(gate.admit_shared("k", fence));
    for (auto* const c : {&client, &other}) {
        auto reader = reads(*c, fenced);
        BOOST_TEST(reader.fence() > fence);
        BOOST_TEST(gate.admit_shared("k", reader.fence()));
        BOOST_TEST(c->releases(reader));
    }
    BOOST_TEST(client.releases(held));
    auto next = writes(other, fenced);
    BOOST_TEST(next.fence() > fence + 98);
    BOOST_TEST(gate.admit("k", next.fence()));
    BOOST_TEST(!gate.admit_shared("k", fence));
    BOOST_TEST(other.releases(next));
}

//
// Numbers, events, and the end of a client
//

namespace {

struct event_counts final : observer {
    void on_acquired(acquired_event const&) override { ++acquired; }
    void on_handed_over(acquired_event const&) override { ++handed_over; }
    void on_lost(lost_event const&) override { ++lost; }
    void on_released(released_event const& e) override {
        ++released;
        BOOST_TEST((e.held >= 0ns));
    }
    void on_failed(failed_event const& e) override { failed += e.call == reported_call::acquire; }
    std::uint64_t acquired = 0, handed_over = 0, lost = 0, released = 0, failed = 0;
};

} // namespace

BOOST_AUTO_TEST_CASE(numbers_and_events_agree) {
    fleet servers(3);
    event_counts seen;
    auto options = patient();
    options.observer = &seen;
    test_client client(servers, options);
    BOOST_REQUIRE(client.all_up());
    std::mt19937 random(3);
    std::vector<std::unique_ptr<attempt>> all;
    std::uint64_t failed = 0, won = 0;
    for (int i = 0; i < 600; ++i) {
        auto a = std::make_unique<attempt>();
        lock_options o{.ttl = 3s};
        if (random() % 8 == 0) o.max_hold = std::chrono::milliseconds(100 + random() % 50);
        auto const both = page(client, o);
        auto const& on = random() % 4 == 0 ? both.write() : both.read();
        switch (random() % 3) {
        case 0:
            a->start(on);
            break;
        case 1:
            a->start_try(on);
            break;
        default:
            a->start_for(on, std::chrono::milliseconds(1 + random() % 20));
        }
        all.push_back(std::move(a));
        client.context.restart();
        client.context.poll();
        auto& other = *all[random() % all.size()];
        switch (random() % 6) {
        case 0:
            other.signal.emit(asio::cancellation_type::terminal);
            break;
        case 1:
            if (other.held.held()) (void)client.release(other.held);
            break;
        case 2:
            // Readers that share with it go on, and the key stays for its ttl.
            if (i % 100 == 99 && other.held.held()) other.held.detach();
            break;
        default:
            other.held = {};
        }
        auto const s = client.locks.stats();
        BOOST_TEST(s.acquired >= s.released + s.lost + s.held);
    }
    for (auto& each : all) each->held = {};
    BOOST_REQUIRE(client.until(
        [&] {
            for (auto& each : all)
                if (each->done) each->held = {};
            return std::all_of(all.begin(), all.end(), [](auto const& a) { return a->done; });
        },
        60s));
    for (auto& each : all) each->held = {};
    BOOST_REQUIRE(client.until([&] {
        auto const s = client.locks.stats();
        return is_idle(client.locks) && s.acquired == s.released + s.lost;
    }));
    for (auto const& each : all) (each->how ? failed : won) += 1;
    auto const s = client.locks.stats();
    BOOST_TEST(s.held == 0U);
    BOOST_TEST(s.acquired == won);
    BOOST_TEST(s.acquired == s.released + s.lost);
    BOOST_TEST(seen.acquired + seen.handed_over == s.acquired);
    BOOST_TEST(seen.handed_over == s.handovers);
    BOOST_TEST(seen.released == s.released);
    BOOST_TEST(seen.lost == s.lost);
    BOOST_TEST(seen.failed == failed);
    BOOST_TEST(s.handovers > 0U);
    BOOST_TEST_MESSAGE(won << " won, " << s.handovers << " of them shared or handed over, "
                           << s.lost << " lost, " << failed << " failed");
}

BOOST_AUTO_TEST_CASE(a_drain_lets_readers_finish_and_tells_those_that_wait) {
    fleet servers(3);
    test_client client(servers);
    attempt a, b, writer, behind;
    a.start(page(client).read());
    b.start(page(client).read());
    BOOST_REQUIRE(client.until([&] { return a.done && b.done; }));
    writer.start(page(client).write());
    behind.start(page(client).read());
    BOOST_REQUIRE(waits(client, 2));
    auto drained = false;
    client.locks.drain(1h, [&](error e) {
        BOOST_TEST(!e, e.what());
        drained = true;
    });
    BOOST_REQUIRE(client.until([&] { return writer.done && behind.done; }));
    BOOST_TEST((writer.how == errc::shut_down));
    BOOST_TEST((behind.how == errc::shut_down));
    BOOST_TEST((try_to(client, page(client).read()).first == errc::shut_down));
    BOOST_TEST(a.held.held());
    BOOST_TEST(!client.extend(b.held));
    BOOST_TEST(client.releases(a.held));
    BOOST_TEST(!drained);
    BOOST_TEST(client.releases(b.held));
    BOOST_REQUIRE(client.until([&] { return drained; }));
    check_nothing_left(servers, 5s);
}

BOOST_AUTO_TEST_CASE(a_drain_that_takes_too_long_takes_the_leases_of_all_that_share) {
    fleet servers(3);
    test_client client(servers);
    attempt a, b;
    a.start(page(client).read());
    b.start(page(client).read());
    BOOST_REQUIRE(client.until([&] { return a.done && b.done; }));
    loss_wait one(a.held), two(b.held);
    auto drained = false;
    client.locks.drain(50ms, [&](error) { drained = true; });
    BOOST_REQUIRE(client.until([&] { return drained && one.done && two.done; }));
    BOOST_TEST(!a.held.held());
    BOOST_TEST(!b.held.held());
    check_nothing_left(servers, 5s);
}

BOOST_AUTO_TEST_CASE(a_client_that_ends_gives_all_back) {
    fleet servers(3);
    test_client other(servers);
    for (auto const by_shutdown : {true, false}) {
        asio::io_context context;
        std::optional<client> locks(std::in_place, context.get_executor(), addresses_of(servers),
                                    patient());
        auto const both = locks->make_read_write_lock("k", long_lived);
        attempt a, b, writer, behind;
        a.start(both.read());
        b.start(both.read());
        BOOST_REQUIRE(run_until(context, [&] { return a.done && b.done; }));
        writer.start(both.write());
        behind.start(both.read());
        BOOST_REQUIRE(run_until(context, [&] { return locks->stats().waiters == 2; }));
        auto down = false;
        if (by_shutdown) {
            locks->shutdown([&](error) { down = true; });
            BOOST_REQUIRE(run_until(context, [&] { return down; }));
        } else {
            locks.reset();
        }
        BOOST_REQUIRE(run_until(context, [&] { return writer.done && behind.done; }));
        BOOST_TEST((writer.how == errc::shut_down));
        BOOST_TEST((behind.how == errc::shut_down));
        a.held = {};
        b.held = {};
        for (server& each : servers)
            BOOST_TEST(
                has_no_locks(each, [&](auto const& none) { return run_until(context, none); }));
    }
}

// The leak checker sees what it keeps.
BOOST_AUTO_TEST_CASE(a_context_ends_while_a_writer_waits) {
    fleet servers(3);
    test_client other(servers);
    auto held = reads_everywhere(other, servers);
    attempt writer;
    {
        test_client client(servers);
        writer.start(page(client).write());
        BOOST_REQUIRE(is_noted(client, servers));
    }
    BOOST_TEST(!writer.done);
    BOOST_TEST(other.releases(held));
}

// Destroyed with everything under way; keys go with their ttl.
BOOST_AUTO_TEST_CASE(a_context_that_ends_leaves_no_trouble) {
    fleet servers(3);
    lease outlives;
    for (int steps = 0; steps < 40; ++steps) {
        attempt a, b, writer, behind;
        test_client client(servers, trusting(patient()));
        BOOST_REQUIRE(client.all_up());
        auto const both = page(client, {.ttl = 1s});
        client.context.restart();
        a.start(both.read());
        b.start(both.read());
        writer.start(both.write());
        behind.start(both.read());
        for (int i = 0; i < steps; ++i) client.context.run_one_for(2ms);
        if (a.held) outlives = std::move(a.held);
    }
    BOOST_TEST(!outlives.held());
    for (server& each : servers) BOOST_TEST(lasting_keys(*std::make_unique<redis_cli>(each)) == "");
}

BOOST_AUTO_TEST_SUITE_END()
