// Readers and writers on one key: who keeps out whom, who shares, and in which order they come.
#include "integration/client_group.hpp"
#include "integration/foreign_client.hpp"
#include "integration/readers_writers.hpp"
#include "support/proxy.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

struct named_lock {
    char const* name;
    lock on;
};

/// One of each kind that wants "k".
std::vector<named_lock> all_kinds(test_client& c) {
    auto const both = page(c);
    return {{"reader", both.read()},
            {"writer", both.write()},
            {"plain lock", c.locks.make_lock("k", long_lived)},
            {"lock on two keys", c.locks.make_multi_lock({"j", "k"}, long_lived)}};
}

bool are_readers(named_lock const& a, named_lock const& b) {
    return a.on.access() == lock_access::read && b.on.access() == lock_access::read;
}

/// The number of servers that give the key to a program which uses SET NX.
std::size_t grants_to_others(fleet const& servers) {
    std::size_t n = 0;
    for (server& each : servers)
        n += redis_cli(each).set_if_absent("k", foreign_client::token, 60s) ? 1 : 0;
    return n;
}

asio::awaitable<void> pause_for(std::chrono::milliseconds d) {
    asio::steady_timer timer(co_await asio::this_coro::executor, d);
    co_await timer.async_wait(asio::deferred);
}

} // namespace

BOOST_AUTO_TEST_SUITE(read_write_locks)

BOOST_AUTO_TEST_CASE(readers_of_different_processes_overlap) {
    fleet servers(3);
    test_client one(servers), two(servers);
    one.runs_with(two);
    auto a = reads(one);
    auto b = reads(two);
    BOOST_TEST(a.held());
    BOOST_TEST(a.token().value != b.token().value);
    // The end of one changes nothing for the other.
    BOOST_TEST(one.releases(a));
    BOOST_TEST(is_held(servers));
    BOOST_TEST(!two.extend(b));
    BOOST_TEST(b.held());
    BOOST_TEST(two.releases(b));
    check_nothing_left(one, servers);
    check_nothing_left(two, servers);
}

BOOST_AUTO_TEST_CASE(who_keeps_out_whom) {
    fleet servers(3);
    test_client one(servers), two(servers);
    one.runs_with(two);
    for (auto const& holds : all_kinds(one)) {
        for (auto* const c : {&one, &two}) {
            for (auto const& wants : all_kinds(*c)) {
                BOOST_TEST_CONTEXT(wants.name << " of " << (c == &one ? "this" : "another")
                                              << " client against a " << holds.name) {
                    auto held = hold(one, holds.on);
                    auto [e, l] = try_to(*c, wants.on);
                    if (are_readers(holds, wants)) {
                        BOOST_TEST(!e, e.what());
                        BOOST_TEST(l.held());
                        if (l) BOOST_TEST(c->releases(l));
                    } else {
                        BOOST_TEST((e == errc::contended), e.what());
                        auto const* const reason = c == &one ? "this client" : "held";
                        BOOST_TEST(contains(e.what(), reason), e.what());
                    }
                    BOOST_TEST(held.held());
                    BOOST_TEST(one.releases(held));
                    // A call that does not wait leaves no key of any kind.
                    check_nothing_left(one, servers);
                    check_nothing_left(two, servers);
                }
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(programs_of_others_keep_out_all_and_are_kept_out) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    foreign_client other(servers);
    for (auto const& each : all_kinds(client)) {
        BOOST_TEST_CONTEXT(each.name) {
            other.hold("k");
            auto const [e, none] = try_to(client, each.on);
            BOOST_TEST((e == errc::contended), e.what());
            other.del_by_script("k");
            auto held = hold(client, each.on);
            // An instance may answer the acquire last, and give the key to the other before.
            BOOST_TEST(grants_to_others(servers) < servers.quorum());
            for (auto& cli : other.clis) cli.del_if_equal("k", foreign_client::token);
            BOOST_TEST(client.releases(held));
            check_nothing_left(client, servers);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_report_names_the_readers_that_stand_in_the_way) {
    fleet servers(3);
    auto named = patient();
    named.holder_label = "host-7";
    test_client one(servers, named), two(servers);
    one.runs_with(two);
    auto held = reads_everywhere(one, servers);
    BOOST_REQUIRE(one.until([&] { return copies(servers, "k") == 3; }));
    for (auto const& each : all_kinds(two)) {
        if (each.on.access() == lock_access::read) continue;
        auto const [e, none] = try_to(two, each.on);
        BOOST_TEST((e == errc::contended), e.what());
        BOOST_TEST(contains(e.what(), "held by readers"), each.name << ": " << e.what());
    }
    BOOST_TEST(one.releases(held));
    // A writer has a name of its own.
    held = writes_everywhere(one, servers);
    for (auto const& each : all_kinds(two)) {
        auto const [e, none] = try_to(two, each.on);
        BOOST_TEST(contains(e.what(), "held by host-7"), each.name << ": " << e.what());
    }
    BOOST_TEST(one.releases(held));
    // A reader that waits because a writer waits.
    held = reads_everywhere(one, servers);
    attempt writer;
    writer.start(page(two).write());
    BOOST_REQUIRE(is_noted(two, servers));
    test_client three(servers);
    one.runs_with(three);
    auto const [e, none] = try_to(three, page(three).read());
    BOOST_TEST((e == errc::contended), e.what());
    BOOST_TEST(contains(e.what(), "held by readers while a writer waits"), e.what());
    BOOST_TEST(one.releases(held));
    check_gets(two, writer);
}

//
// Readers of one process
//

// A newcomer shares for five times what the tenure took to win. A machine that is busy may take
// longer, and then the newcomer asks the servers, and this is tried again.
BOOST_AUTO_TEST_CASE(the_second_reader_of_a_process_sends_nothing) {
    fleet servers(3);
    test_client client(servers, without_questions());
    BOOST_REQUIRE(client.all_up());
    teach(client, servers);
    auto shared = 0;
    for (int i = 0; i < 50 && shared < 3; ++i) {
        auto const begun = lease_clock::now();
        auto a = reads(client);
        auto const before = client.locks.stats();
        auto b = reads(client);
        auto const after = client.locks.stats();
        auto const shares = after.rounds == before.rounds;
        if (lease_clock::now() < begun + 1ms) BOOST_TEST(shares); // the least time
        if (shares) {
            BOOST_TEST(after.commands == before.commands);
            BOOST_TEST(after.handovers == before.handovers + 1);
            BOOST_TEST(a.token().value == b.token().value);
            ++shared;
        }
        BOOST_TEST(client.releases(a));
        BOOST_TEST(b.held());
        BOOST_TEST(client.releases(b));
        check_nothing_left(client, servers);
    }
    BOOST_TEST(shared == 3);
}

BOOST_AUTO_TEST_CASE(readers_that_waited_side_by_side_share_one_round) {
    fleet servers(3);
    test_client client(servers, without_questions());
    BOOST_REQUIRE(client.all_up());
    auto held = writes(client);
    std::array<attempt, 20> all;
    for (auto& each : all) each.start(page(client).read());
    auto const rounds = client.locks.stats().rounds;
    BOOST_TEST(client.releases(held));
    BOOST_REQUIRE(client.until([&] {
        return std::all_of(all.begin(), all.end(), [](attempt const& a) { return a.won(); });
    }));
    BOOST_TEST(client.locks.stats().rounds == rounds + 1);
    for (server& each : servers) BOOST_TEST(readers_at(each) <= 1);
    for (auto& each : all) BOOST_TEST(client.releases(each.held));
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(they_leave_in_any_order_and_the_last_sends) {
    fleet servers(3);
    test_client client(servers, without_questions());
    BOOST_REQUIRE(client.all_up());
    teach(client, servers);
    std::array<std::size_t, 3> order{0, 1, 2};
    do {
        for (auto const drops : {false, true}) {
            std::array<attempt, 3> all;
            for (auto& each : all) each.start(page(client).read());
            BOOST_REQUIRE(client.until([&] { return all[2].done; }));
            BOOST_REQUIRE(client.sees(servers, "k", true));
            auto const commands = client.locks.stats().commands;
            for (auto const i : order) {
                BOOST_TEST(all[i].held.held());
                auto const last = i == order.back();
                if (drops) {
                    all[i].held = {};
                } else {
                    BOOST_TEST(client.releases(all[i].held));
                }
                if (!last) {
                    BOOST_TEST(client.until([&] {
                        return client.locks.stats().held == (i == order.front() ? 2U : 1U);
                    }));
                    BOOST_TEST(client.locks.stats().commands == commands);
                    BOOST_TEST(copies(servers, "k") == 3U);
                }
            }
            check_nothing_left(client, servers);
            BOOST_TEST(client.locks.stats().commands == commands + 3);
        }
    } while (std::next_permutation(order.begin(), order.end()));
}

BOOST_AUTO_TEST_CASE(in_one_process_it_is_first_come_first_served) {
    fleet servers(3);
    test_client client(servers);
    auto const both = page(client);
    auto held = hold(client, both.write());
    std::array<attempt, 9> all;
    auto const writers = {2, 5, 8};
    auto next = 0U;
    for (auto& each : all) {
        auto const alone = std::find(writers.begin(), writers.end(), next++) != writers.end();
        each.start(alone ? both.write() : both.read());
    }
    BOOST_REQUIRE(waits(client, 9));
    BOOST_TEST(client.releases(held));
    for (std::size_t i = 0; i < all.size(); i += 3) {
        // The two readers have it together, and those behind the writer not yet.
        BOOST_REQUIRE(client.until([&] { return all[i].done && all[i + 1].done; }));
        BOOST_TEST(all[i].won());
        BOOST_TEST(all[i + 1].won());
        BOOST_TEST(client.locks.stats().waiters == 7 - i);
        BOOST_TEST(client.releases(all[i].held));
        BOOST_TEST(client.releases(all[i + 1].held));
        BOOST_REQUIRE(client.until([&] { return all[i + 2].done; }));
        BOOST_TEST(all[i + 2].won());
        BOOST_TEST(client.locks.stats().waiters == 6 - i);
        BOOST_TEST(client.releases(all[i + 2].held));
    }
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(plain_locks_stand_in_the_same_line) {
    fleet servers(3);
    test_client client(servers);
    auto held = reads(client);
    attempt plain, reader, both, writer;
    plain.start(client.locks.make_lock("k", long_lived));
    reader.start(page(client).read());
    writer.start(page(client).write());
    BOOST_REQUIRE(waits(client, 3));
    BOOST_TEST(client.releases(held));
    BOOST_REQUIRE(client.until([&] { return plain.done; }));
    BOOST_TEST(!reader.done);
    check_gets(client, plain);
    BOOST_REQUIRE(client.until([&] { return reader.done; }));
    BOOST_TEST(!writer.done);
    check_gets(client, reader);
    check_gets(client, writer);
    check_only_turns_left(client, servers);
}

// No reader is let in past a writer of this process, not even while newcomers share.
BOOST_AUTO_TEST_CASE(a_newcomer_does_not_pass_a_writer_that_waits) {
    fleet servers(3);
    test_client client(servers);
    for (int i = 0; i < 5; ++i) {
        auto held = reads(client);
        attempt writer, reader;
        writer.start(page(client).write());
        reader.start(page(client).read());
        BOOST_REQUIRE(waits(client, 2));
        auto const [e, none] = try_to(client, page(client).read());
        BOOST_TEST((e == errc::contended), e.what());
        BOOST_TEST(client.releases(held));
        BOOST_REQUIRE(client.until([&] { return writer.done; }));
        BOOST_TEST(!reader.done);
        check_gets(client, writer);
        check_gets(client, reader);
    }
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(who_asks_for_more_than_the_tenure_has_gets_one_of_its_own) {
    fleet servers(3);
    lock_options const plain{.ttl = 20s};
    auto longer = plain, with_fence = plain, limited = plain, by_hand = plain;
    longer.ttl = 30s;
    with_fence.fencing = true;
    limited.max_hold = 10s;
    by_hand.watchdog = false;
    struct pair {
        char const* name;
        lock_options first, second;
        bool shares;
    };
    for (auto const& [name, first, second, shares] :
         std::vector<pair>{{"equal", plain, plain, true},
                           {"longer ttl", plain, longer, false},
                           {"shorter ttl", longer, plain, true},
                           {"with a fence", plain, with_fence, false},
                           {"without a fence", with_fence, plain, true},
                           {"max_hold", plain, limited, false},
                           {"after max_hold", limited, plain, false},
                           {"no watchdog", plain, by_hand, false},
                           {"after no watchdog", by_hand, plain, false}}) {
        BOOST_TEST_CONTEXT(name) {
            test_client client(servers, without_questions());
            BOOST_REQUIRE(client.all_up());
            // Side by side, so that no time passes between them.
            attempt a, b;
            a.start(page(client, first).read());
            b.start(page(client, second).read());
            BOOST_REQUIRE(client.until([&] { return a.done && b.done; }));
            BOOST_TEST(a.won());
            BOOST_TEST(b.won());
            BOOST_TEST(client.locks.stats().rounds == (shares ? 1U : 2U));
            BOOST_TEST((a.held.token().value == b.held.token().value) == shares);
            BOOST_TEST((b.held.fence() != 0) == second.fencing);
            BOOST_TEST((b.held.remaining() > second.ttl * 9 / 10 || second.max_hold.count() != 0));
            BOOST_TEST(client.releases(a.held));
            BOOST_TEST(b.held.held());
            BOOST_TEST(client.releases(b.held));
            check_nothing_left(client, servers);
        }
    }
}

BOOST_AUTO_TEST_CASE(tenures_of_one_process_end_one_by_one) {
    fleet servers(3);
    test_client client(servers, without_questions());
    BOOST_REQUIRE(client.all_up());
    std::vector<lease> all;
    for (int i = 1; i <= 5; ++i) all.push_back(reads_everywhere(client, servers, {.ttl = i * 10s}));
    for (server& each : servers) BOOST_REQUIRE(client.until([&] { return readers_at(each) == 5; }));
    attempt writer;
    writer.start(page(client).write());
    BOOST_REQUIRE(waits(client));
    for (auto const i : {2U, 0U, 4U, 1U, 3U}) {
        BOOST_TEST(!writer.done);
        for (auto const& each : all) BOOST_TEST((!each || each.held()));
        BOOST_TEST(!client.extend(all[i]));
        BOOST_TEST(client.releases(all[i]));
        all[i] = {};
    }
    check_gets(client, writer);
    check_nothing_left(client, servers);
}

BOOST_AUTO_TEST_CASE(a_reader_with_a_limit_is_let_go_alone) {
    fleet servers(3);
    test_client client(servers);
    auto limited = reads(client, {.ttl = 3s, .max_hold = 300ms});
    auto other = reads(client);
    auto how = lease_end::none;
    limited.wait_end([&](error, lease_end e) { how = e; });
    BOOST_REQUIRE(client.until([&] { return how != lease_end::none; }));
    BOOST_TEST((how == lease_end::expired));
    BOOST_TEST(other.held());
    BOOST_TEST(!client.extend(other));
    BOOST_TEST(client.releases(other));
    check_nothing_left(client, servers);
}

//
// Taking turns with other processes
//

namespace {

/// Readers that overlap, until told to stop.
struct endless_readers {
    explicit endless_readers(client_group& g)
        : group(g) {}

    client_group& group;
    lock_options options = long_lived;
    std::chrono::milliseconds length{10};
    read_write_ledger all;
    bool ends = false;
    std::vector<std::size_t> reads_by;

    void start(std::size_t of_client) {
        auto const number = reads_by.size();
        reads_by.push_back(0);
        group.start(
            read(group.clients.at(of_client)->make_read_write_lock("k", options).read(), number));
    }
    asio::awaitable<void> read(lock on, std::size_t number) {
        co_await pause_for(std::chrono::milliseconds(number % 10)); // so that they overlap
        while (!ends) {
            auto held = co_await on.acquire();
            all.reader_enters();
            ++reads_by[number];
            co_await pause_for(length);
            all.reader_leaves();
            co_await held.release();
        }
    }
};

struct endless_writers {
    explicit endless_writers(read_write_ledger& l)
        : all(l) {}

    read_write_ledger& all;
    bool ends = false;
    std::size_t writes = 0;

    asio::awaitable<void> write(lock on) {
        while (!ends) {
            auto held = co_await on.acquire();
            all.writer_enters();
            ++writes;
            co_await pause_for(1ms);
            all.writer_leaves();
            co_await held.release();
        }
    }
};

} // namespace

// A reader reads for 10 ms, and newcomers share for 50 ms. Without notes the writer never comes.
BOOST_AUTO_TEST_CASE(a_writer_gets_its_turn_although_readers_never_stop) {
    fleet servers(3);
    client_group group(servers, 3, patient());
    endless_readers readers(group);
    for (std::size_t i = 0; i < 10; ++i) readers.start(i % 2);
    auto const writer = group.clients[2]->make_read_write_lock("k", long_lived).write();
    std::size_t most = 0;
    for (int i = 0; i < 20; ++i) {
        // They read again before the next write.
        auto const reads = readers.all.reads();
        BOOST_REQUIRE(group.until([&] { return readers.all.reads() >= reads + 20; }));
        auto const before = readers.reads_by;
        attempt a;
        a.start(writer);
        BOOST_REQUIRE(group.until([&] { return a.done; }));
        BOOST_TEST(a.won(), a.how.what());
        readers.all.writer_enters();
        for (std::size_t n = 0; n < before.size(); ++n)
            most = std::max(most, readers.reads_by[n] - before[n]);
        readers.all.writer_leaves();
        auto released = false;
        a.held.release([&](release_result) { released = true; });
        BOOST_REQUIRE(group.until([&] { return released; }));
    }
    BOOST_TEST(most <= 12U);
    BOOST_TEST_MESSAGE("at most " << most << " reads of one reader before the writer's turn");
    readers.ends = true;
    BOOST_REQUIRE(group.until([&] { return group.working == 0; }));
    BOOST_TEST(readers.all.overlaps() == 0U);
    BOOST_TEST(readers.all.most_readers() > 1);
    check_only_turns_left(group, servers);
}

BOOST_AUTO_TEST_CASE(readers_get_their_turn_although_writers_never_stop) {
    fleet servers(3);
    client_group group(servers, 3, patient());
    endless_readers readers(group);
    endless_writers writers(readers.all);
    for (std::size_t i = 0; i < 6; ++i)
        group.start(
            writers.write(group.clients[i % 3]->make_read_write_lock("k", long_lived).write()));
    BOOST_REQUIRE(group.until([&] { return writers.writes >= 30; }));
    for (std::size_t i = 0; i < 3; ++i) readers.start(i);
    std::size_t most = 0;
    for (int i = 0; i < 20; ++i) {
        auto const reads = readers.reads_by;
        auto const writes = writers.writes;
        auto const each_has_read = [&] {
            for (std::size_t n = 0; n < reads.size(); ++n)
                if (readers.reads_by[n] == reads[n]) return false;
            return true;
        };
        BOOST_REQUIRE(group.until(each_has_read));
        most = std::max(most, writers.writes - writes);
    }
    BOOST_TEST_MESSAGE("at most " << most << " writes between the reads of a reader");
    BOOST_TEST(most <= 60U);
    readers.ends = writers.ends = true;
    BOOST_REQUIRE(group.until([&] { return group.working == 0; }));
    BOOST_TEST(readers.all.overlaps() == 0U);
    check_only_turns_left(group, servers);
}

// Each process has both, so that its writer stands behind readers, and its try was refused before.
BOOST_AUTO_TEST_CASE(nobody_starves_where_each_process_reads_and_writes) {
    fleet servers(3);
    client_group group(servers, 3, patient());
    endless_readers readers(group);
    for (std::size_t i = 0; i < 12; ++i) readers.start(i % 3);
    struct writer {
        std::size_t most = 0, writes = 0;
    };
    std::vector<writer> writers(3);
    auto const write = [&](lock on, writer& own) -> asio::awaitable<void> {
        while (!readers.ends) {
            co_await pause_for(15ms);
            auto const before = readers.reads_by;
            auto held = co_await on.acquire();
            readers.all.writer_enters();
            for (std::size_t n = 0; n < before.size(); ++n)
                own.most = std::max(own.most, readers.reads_by[n] - before[n]);
            ++own.writes;
            co_await pause_for(1ms);
            readers.all.writer_leaves();
            co_await held.release();
        }
    };
    for (std::size_t i = 0; i < writers.size(); ++i)
        group.start(
            write(group.clients[i]->make_read_write_lock("k", long_lived).write(), writers[i]));
    auto const reads = readers.reads_by;
    BOOST_TEST(group.until([&] {
        for (auto const& each : writers)
            if (each.writes < 20) return false;
        for (std::size_t n = 0; n < reads.size(); ++n)
            if (readers.reads_by[n] < 20) return false;
        return true;
    }));
    for (auto const& each : writers) {
        BOOST_TEST(each.writes >= 20U);
        BOOST_TEST(each.most <= 12U);
        BOOST_TEST_MESSAGE(each.writes << " writes, each after at most " << each.most
                                       << " reads of one reader");
    }
    readers.ends = true;
    BOOST_REQUIRE(group.until([&] { return group.working == 0; }));
    BOOST_TEST(readers.all.overlaps() == 0U);
    check_only_turns_left(group, servers);
}

BOOST_AUTO_TEST_CASE(readers_wait_for_a_writer_that_waits_elsewhere) {
    fleet servers(3);
    test_client one(servers), two(servers), three(servers);
    one.runs_with(two);
    one.runs_with(three);
    two.runs_with(three);
    teach(one, servers);
    auto held = reads_everywhere(one, servers);
    attempt writer, reader;
    writer.start(page(two).write());
    BOOST_REQUIRE(is_noted(two, servers));
    reader.start(page(three).read());
    BOOST_REQUIRE(waits_for_push(three, servers));
    // The reader that has it goes on.
    BOOST_TEST(!one.extend(held));
    BOOST_TEST(one.releases(held));
    BOOST_REQUIRE(two.until([&] { return writer.done || reader.done; }));
    BOOST_TEST(!reader.done);
    check_gets(two, writer);
    check_gets(three, reader);
    for (auto* const c : {&one, &two, &three}) check_nothing_left(*c, servers);
}

// It has 60 s, and the reader must not wait for that.
BOOST_AUTO_TEST_CASE(a_writer_that_gives_up_withdraws_its_note) {
    fleet servers(3);
    enum class how {
        limit,
        cancel,
        shutdown,
        destroyed
    };
    for (auto const gives_up : {how::limit, how::cancel, how::shutdown, how::destroyed}) {
        BOOST_TEST_CONTEXT("way " << static_cast<int>(gives_up)) {
            test_client one(servers), three(servers);
            teach(one, servers);
            std::optional<test_client> two(std::in_place, servers);
            one.runs_with(three);
            auto held = reads_everywhere(one, servers);
            BOOST_REQUIRE(two->all_up());
            BOOST_REQUIRE(three.all_up());
            attempt writer, reader;
            if (gives_up == how::limit) {
                writer.start_for(page(*two).write(), 1s);
            } else {
                writer.start(page(*two).write());
            }
            BOOST_REQUIRE(is_noted(*two, servers));
            reader.start(page(three).read());
            BOOST_REQUIRE(waits(three));
            auto down = false;
            if (gives_up == how::cancel) {
                writer.signal.emit(asio::cancellation_type::terminal);
            } else if (gives_up == how::shutdown) {
                two->locks.shutdown([&](error) { down = true; });
            } else if (gives_up == how::destroyed) {
                auto gone = std::move(two->locks);
                (void)gone;
            }
            BOOST_REQUIRE(two->until([&] { return writer.done; }));
            BOOST_TEST(!writer.won());
            BOOST_TEST(two->sees(servers, intent_on_k, false));
            BOOST_TEST((gives_up != how::shutdown || two->until([&] { return down; })));
            check_gets(three, reader);
            BOOST_TEST(held.held());
            BOOST_TEST(one.releases(held));
            check_only_turns_left(one, servers);
            check_only_turns_left(three, servers);
            forget_turns(servers);
        }
    }
}

// Readers of the same process, behind the writer.
BOOST_AUTO_TEST_CASE(a_writer_that_gives_up_lets_those_behind_it_in) {
    fleet servers(3);
    test_client client(servers);
    teach(client, servers);
    for (auto const in_time : {true, false}) {
        auto held = reads_everywhere(client, servers);
        attempt writer, reader;
        in_time ? writer.start(page(client).write())
                : writer.start_for(page(client).write(), 300ms);
        BOOST_REQUIRE(is_noted(client, servers));
        reader.start(page(client).read());
        BOOST_REQUIRE(waits(client, 2));
        if (in_time) writer.signal.emit(asio::cancellation_type::total);
        BOOST_REQUIRE(client.until([&] { return writer.done && reader.done; }));
        BOOST_TEST(!writer.won());
        BOOST_TEST(reader.won(), reader.how.what());
        BOOST_TEST(client.releases(held));
        BOOST_TEST(client.releases(reader.held));
        check_only_turns_left(client, servers);
    }
}

// One more writer of the process still waits, so the note stays.
BOOST_AUTO_TEST_CASE(the_note_of_a_process_stays_while_one_of_its_writers_waits) {
    fleet servers(3);
    test_client one(servers), two(servers), three(servers);
    one.runs_with(two);
    one.runs_with(three);
    two.runs_with(three);
    teach(one, servers);
    auto held = reads_everywhere(one, servers);
    attempt first, second, reader;
    first.start(page(two).write());
    second.start(page(two).write());
    BOOST_REQUIRE(is_noted(two, servers));
    reader.start(page(three).read());
    BOOST_REQUIRE(waits_for_push(three, servers));
    first.signal.emit(asio::cancellation_type::terminal);
    BOOST_REQUIRE(two.until([&] { return first.done; }));
    BOOST_TEST(one.releases(held));
    BOOST_REQUIRE(two.until([&] { return second.done || reader.done; }));
    BOOST_TEST(!reader.done);
    check_gets(two, second);
    check_gets(three, reader);
    for (auto* const c : {&one, &two, &three}) check_nothing_left(*c, servers);
}

// One writer wins without an instance, which keeps the note. When no other writer waits any more,
// the note goes.
BOOST_AUTO_TEST_CASE(the_note_that_a_winner_leaves_to_the_next_writer_is_withdrawn) {
    fleet servers(3);
    proxy first_wire(servers[0]), second_wire(servers[1]);
    test_client one(servers);
    test_client two({first_wire.url(), second_wire.url(), servers[2].url()});
    one.runs_with(two);
    teach(one, servers);
    auto held = reads_everywhere(one, servers);
    attempt first, second;
    first.start(page(two).write());
    second.start(page(two).write());
    BOOST_REQUIRE(is_noted(two, servers));
    redis_cli last(servers[2]);
    (void)last.command({"ZADD", readers_of_k, "99999999999999", "another"});
    // The refusal comes before the grants.
    for (auto* const wire : {&first_wire, &second_wire}) wire->delay_replies(100ms);
    BOOST_TEST(one.releases(held));
    BOOST_REQUIRE(two.until([&] { return first.done; }));
    BOOST_TEST(last.exists(intent_on_k));
    second.signal.emit(asio::cancellation_type::terminal);
    BOOST_REQUIRE(two.until([&] { return second.done; }));
    BOOST_TEST(two.until([&] { return !last.exists(intent_on_k); }));
    BOOST_TEST(two.releases(first.held));
    last.del("k");
    last.del(readers_of_k);
    check_nothing_left(two, servers);
}

BOOST_AUTO_TEST_CASE(an_acquire_that_is_cancelled_at_any_step_leaves_nothing) {
    fleet servers(3);
    test_client other(servers);
    for (auto const access : {lock_access::read, lock_access::write}) {
        for (int steps = 1; steps < 60; ++steps) {
            test_client client(servers);
            client.runs(other);
            BOOST_REQUIRE(client.all_up());
            client.context.restart();
            std::optional<lease> in_the_way;
            if (steps % 3 == 0) in_the_way = reads(other);
            if (steps % 3 == 1) in_the_way = writes(other);
            attempt a;
            auto const both = page(client);
            a.start(access == lock_access::read ? both.read() : both.write());
            for (int i = 0; i < steps && !a.done; ++i) client.context.run_one_for(10ms);
            a.signal.emit(asio::cancellation_type::terminal);
            BOOST_REQUIRE(client.until([&] { return a.done; }));
            if (!a.how) BOOST_TEST(client.releases(a.held));
            BOOST_TEST(client.sees(servers, intent_on_k, false), steps);
            if (in_the_way) BOOST_TEST(other.releases(*in_the_way));
            check_only_turns_left(client, servers);
            BOOST_TEST(other.idle());
            forget_turns(servers);
        }
    }
}

// Its tries are refused by a quorum, and released where that has not answered yet.
BOOST_AUTO_TEST_CASE(the_note_lasts_as_long_as_the_writer_waits) {
    fleet servers(3);
    test_client one(servers), two(servers);
    one.runs_with(two);
    teach(one, servers);
    auto held = reads_everywhere(one, servers);
    attempt writer;
    writer.start(page(two, {.ttl = renewed_ttl}).write());
    BOOST_REQUIRE(is_noted(two, servers));
    auto const rounds = two.locks.stats().rounds;
    std::size_t least = servers.size();
    BOOST_REQUIRE(two.until([&] {
        least = std::min(least, copies(servers, intent_on_k));
        return two.locks.stats().rounds >= rounds + 4;
    }));
    BOOST_TEST(least == servers.size());
    BOOST_TEST(one.releases(held));
    check_gets(two, writer);
    check_nothing_left(two, servers);
}

BOOST_AUTO_TEST_SUITE_END()
