// Readers and writers while servers, processes and other programs do their worst.
#include "integration/child.hpp"
#include "integration/foreign_client.hpp"
#include "integration/loss_wait.hpp"
#include "integration/proxy_group.hpp"
#include "integration/read_write_crowd.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

constexpr lock_options quick{.ttl = 60s, .max_retry_delay = 5ms};

/// A process that has the lock, or waits for it, until it is killed.
struct holder_process : child {
    holder_process(fleet const& servers, std::string const& access, std::chrono::milliseconds ttl)
        : child("HOLDFAST_CONTENDER", {"--instances", servers.url_list(), "--key", "k", "--ttl",
                                       std::to_string(ttl.count()), "--access", access}) {
        BOOST_REQUIRE(line() == "ready");
        say("go");
    }
    void holds() { BOOST_REQUIRE(line() == "held"); }
};

/// The last script that a client has sent to each server, with its words.
class recorder {
public:
    explicit recorder(proxy_group& proxies) {
        seen_->sent.resize(proxies.all.size());
        for (std::size_t i = 0; i < proxies.all.size(); ++i) {
            proxies[i].intercept([seen = seen_, i](command_line const& words) {
                std::lock_guard const lock(seen->mutex);
                auto const runs = words.at(0) == "EVALSHA" || words.at(0) == "EVAL";
                if (runs && words.at(2) != "0") seen->sent[i] = words;
                return std::optional<std::string>();
            });
        }
    }
    std::vector<command_line> last() const {
        std::lock_guard const lock(seen_->mutex);
        return seen_->sent;
    }

private:
    struct record {
        std::mutex mutex;
        std::vector<command_line> sent;
    };
    std::shared_ptr<record> const seen_ = std::make_shared<record>();
};

/// Each server executes the recorded command now, as one that had been held up.
void execute(fleet const& servers, std::vector<command_line> const& late) {
    std::size_t i = 0;
    for (server& each : servers) {
        auto const r = redis_cli(each).command(late.at(i++));
        BOOST_TEST(!r.is_error(), r);
    }
}

/// How many scripts the server has executed.
unsigned long scripts_at(server const& on) {
    auto const told = redis_cli(on).info("cmdstat_evalsha"); // calls=5,usec=120,..
    return told.empty() ? 0 : std::stoul(told.substr(told.find('=') + 1));
}

/// The keys with their values and members, without their times.
std::string contents(fleet const& servers) {
    std::string all;
    for (server& each : servers) {
        redis_cli cli(each);
        all += cli.get("k").value_or("none");
        auto const members = cli.command({"ZRANGE", readers_of_k, "0", "-1"});
        for (auto const& member : members.elements()) all += ' ' + member.string();
        all += '\n';
    }
    return all;
}

void no_locks_left(read_write_crowd& c, fleet const& servers) {
    check_only_turns_left(c.group, servers);
}

} // namespace

BOOST_AUTO_TEST_SUITE(read_write_faults)

//
// Servers
//

BOOST_AUTO_TEST_CASE(a_frozen_minority_does_not_stop_them) {
    fleet servers(5);
    read_write_crowd c(addresses_of(servers), quick);
    c.goes_on(200, 50);
    servers.freeze(2);
    c.goes_on(400, 100);
    servers.thaw_all();
    c.goes_on(200, 50);
    c.stops();
    BOOST_TEST(c.lost == 0U);
    no_locks_left(c, servers);
}

BOOST_AUTO_TEST_CASE(a_dead_minority_does_not_stop_them) {
    fleet servers(3);
    read_write_crowd c(addresses_of(servers), quick);
    c.goes_on(200, 50);
    servers.kill(1);
    c.goes_on(400, 100);
    c.stops();
    BOOST_TEST(c.lost == 0U);
    no_locks_left(c, servers);
}

BOOST_AUTO_TEST_CASE(minorities_that_restart_in_turn_do_not_stop_them) {
    fleet servers(3);
    auto options = unhurried();
    options.max_ttl = 1s; // the quarantine of a server that may have lost its locks
    read_write_crowd c(addresses_of(servers), {.ttl = 1s, .max_retry_delay = 5ms}, options);
    for (std::size_t i = 0; i < 3; ++i) {
        c.goes_on(100, 20);
        servers[i].kill();
        c.goes_on(50, 10);
        servers[i].restart();
        BOOST_REQUIRE(c.group.all_up());
        c.goes_on(100, 20);
    }
    c.stops();
    no_locks_left(c, servers);
}

BOOST_AUTO_TEST_CASE(an_outage_is_waited_out) {
    fleet servers(3);
    read_write_crowd c(addresses_of(servers), quick);
    c.goes_on(100, 20);
    servers.freeze(3);
    auto const until = lease_clock::now() + 4s;
    BOOST_TEST(c.group.until([&] { return lease_clock::now() >= until; }));
    servers.thaw_all();
    c.goes_on(200, 50);
    c.stops();
    no_locks_left(c, servers);
}

BOOST_AUTO_TEST_CASE(connections_that_break_leave_nothing) {
    fleet servers(3);
    proxy_group proxies(servers);
    read_write_crowd c(proxies.addresses(), quick);
    for (int i = 0; i < 20; ++i) {
        c.goes_on(20, 5);
        proxies[static_cast<std::size_t>(i % 3)].cut();
    }
    c.goes_on(50, 10);
    c.stops();
    no_locks_left(c, servers);
}

BOOST_AUTO_TEST_CASE(servers_that_forget_the_scripts_learn_them_again) {
    fleet servers(3);
    read_write_crowd c(addresses_of(servers), quick);
    for (int i = 0; i < 30; ++i) {
        c.goes_on(10, 3);
        forget_scripts(servers);
    }
    c.stops();
    BOOST_TEST(c.lost == 0U);
    no_locks_left(c, servers);
}

// The try of a writer that has its quorum already is not sent again in other words. The server has
// the note of an earlier try.
BOOST_AUTO_TEST_CASE(a_server_that_forgets_the_scripts_keeps_no_note) {
    fleet servers(3);
    proxy_group proxies(servers);
    test_client holder(servers), waiting(proxies.addresses());
    waiting.runs_with(holder);
    BOOST_REQUIRE(waiting.all_up());
    teach(holder, servers);
    auto held = reads_everywhere(holder, servers);
    attempt a;
    a.start(page(waiting).write());
    BOOST_REQUIRE(is_noted(waiting, servers));
    proxies[2].hold_requests();
    BOOST_REQUIRE(redis_cli(servers[2]).command({"SCRIPT", "FLUSH"}).is_ok());
    BOOST_TEST(holder.releases(held));
    auto mine = wait_for_lease(waiting, a);
    // Another has the key there, so the lease cannot be healed.
    redis_cli cli(servers[2]);
    BOOST_REQUIRE(waiting.until([&] { return !cli.exists("k"); }));
    BOOST_REQUIRE(cli.command({"SET", "k", "another", "PX", "60000"}).is_ok());
    BOOST_REQUIRE(cli.command({"CONFIG", "RESETSTAT"}).is_ok());
    proxies[2].resume();
    BOOST_REQUIRE(waiting.until([&] { return cli.info("cmdstat_script|load") != ""; }));
    catch_up(waiting);
    BOOST_TEST(waiting.releases(mine));
    BOOST_TEST(waiting.until([&] { return !cli.exists(intent_on_k); }));
    cli.del("k");
    check_only_turns_left(waiting, servers);
}

BOOST_AUTO_TEST_CASE(connections_that_are_killed_do_not_hide_the_end_of_a_lock) {
    fleet servers(3);
    foreign_client other(servers);
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
    for (int i = 0; i < 3; ++i) {
        BOOST_TEST(other.kill_clients() > 0);
        BOOST_REQUIRE(
            one.until([&] { return is_up(one.locks) && is_up(two.locks) && is_up(three.locks); }));
    }
    BOOST_TEST(one.releases(held));
    BOOST_REQUIRE(two.until([&] { return writer.done || reader.done; }));
    check_gets(two, writer);
    check_gets(three, reader);
    for (auto* const c : {&one, &two, &three}) check_only_turns_left(*c, servers);
}

// Pushes are lost there, so those that wait ask now and then.
BOOST_AUTO_TEST_CASE(a_full_table_of_tracked_keys_delays_and_does_not_stop) {
    fleet servers(3, {.arguments = {"--tracking-table-max-keys", "1"}});
    std::vector<redis_cli> caching;
    for (server& each : servers) {
        caching.emplace_back(each);
        (void)caching.back().command({"HELLO", "3"});
        (void)caching.back().command({"CLIENT", "TRACKING", "ON"});
        for (int i = 0; i < 100; ++i)
            (void)caching.back().command({"GET", "cached:" + std::to_string(i)});
    }
    read_write_crowd c(addresses_of(servers), quick);
    for (int i = 0; i < 10; ++i) {
        c.goes_on(20, 5);
        for (auto& cli : caching)
            for (int n = 0; n < 100; ++n) (void)cli.command({"GET", "cached:" + std::to_string(n)});
    }
    c.stops();
    BOOST_TEST(c.lost == 0U);
    no_locks_left(c, servers);
}

//
// Keys that vanish
//

BOOST_AUTO_TEST_CASE(a_flush_is_told_to_readers_and_writers) {
    fleet servers(3);
    test_client client(servers, trusting(patient()));
    for (auto const writer : {false, true}) {
        auto held = writer ? writes_everywhere(client, servers, {.ttl = renewed_ttl})
                           : reads_everywhere(client, servers, {.ttl = renewed_ttl});
        loss_wait end(held);
        for (server& each : servers) redis_cli(each).flush();
        BOOST_REQUIRE(client.until([&] { return end.done; }));
        BOOST_TEST((end.how == lease_end::key_gone));
        auto next = writes(client);
        BOOST_TEST(client.releases(next));
    }
    check_nothing_left(client, servers);
}

// Who the readers were is unknown then, so nobody gets the key until their time is over.
BOOST_AUTO_TEST_CASE(an_evicted_set_of_readers_admits_nobody) {
    fleet servers(3);
    test_client one(servers), two(servers);
    one.runs_with(two);
    auto held = reads_everywhere(one, servers, unwatched(2s));
    for (server& each : servers) BOOST_TEST(redis_cli(each).del(readers_of_k));
    for (auto const& on : {page(two).write(), page(two).read()}) {
        auto const e = try_to(two, on).first;
        BOOST_TEST((e == errc::contended), e.what());
    }
    BOOST_TEST(copies(servers, readers_of_k) == 0U);
    attempt reader, writer;
    writer.start(page(two).write());
    reader.start(page(two).read());
    BOOST_REQUIRE(two.until([&] { return writer.done; }));
    BOOST_TEST(!held.held());
    check_gets(two, writer);
    check_gets(two, reader);
    check_only_turns_left(two, servers);
    // The watchdog hears of it.
    held = reads_everywhere(one, servers, {.ttl = renewed_ttl});
    loss_wait end(held);
    for (server& each : servers) BOOST_TEST(redis_cli(each).del(readers_of_k));
    BOOST_REQUIRE(one.until([&] { return end.done; }));
    BOOST_TEST((end.how == lease_end::key_gone));
}

BOOST_AUTO_TEST_CASE(sets_of_readers_that_are_evicted_all_the_time_let_no_two_meet) {
    fleet servers(3);
    read_write_crowd c(addresses_of(servers), {.ttl = 200ms, .max_retry_delay = 5ms});
    for (int i = 0; i < 20; ++i) {
        c.goes_on(10, 1);
        redis_cli(servers[static_cast<std::size_t>(i % 3)]).del(readers_of_k);
    }
    c.stops();
    no_locks_left(c, servers);
}

//
// Processes
//

BOOST_AUTO_TEST_CASE(a_killed_reader_blocks_for_no_longer_than_its_ttl) {
    fleet servers(1);
    test_client one(servers), two(servers);
    one.runs_with(two);
    holder_process dies(servers, "read", 3s);
    dies.holds();
    auto held = reads(one);
    BOOST_REQUIRE(readers_at(servers[0]) == 2);
    attempt writer;
    writer.start(page(two).write());
    waits_quietly(two, 0);
    dies.kill();
    BOOST_TEST(!one.extend(held));
    // However long others go on, the dead one does not.
    BOOST_TEST(one.releases(held));
    // Long before the writer asks by itself.
    BOOST_REQUIRE(two.until([&] { return writer.done; }, 5s));
    check_gets(two, writer);
    check_nothing_left(two, servers);
    check_nothing_left(one, servers);
}

// The instance answers that it had no such reader, and has deleted the key.
BOOST_AUTO_TEST_CASE(a_writer_of_the_process_hears_of_the_end_of_a_dead_reader) {
    fleet servers(1);
    test_client client(servers);
    auto held = reads(client);
    auto const rounds = client.locks.stats().rounds;
    attempt writer;
    writer.start(page(client).write());
    waits_quietly(client, rounds);
    (void)redis_cli(servers[0]).command({"ZADD", readers_of_k, "5", held.token().value});
    BOOST_TEST(!client.releases(held));
    // Long before the writer asks by itself.
    BOOST_REQUIRE(client.until([&] { return writer.done; }, 5s));
    check_gets(client, writer);
}

// A withdrawal writes the key, and the server tells its own client nothing more of it.
BOOST_AUTO_TEST_CASE(who_watches_hears_of_the_key_after_a_writer_of_the_client_gave_up) {
    fleet servers(1);
    test_client one(servers), two(servers);
    one.runs_with(two);
    auto held = reads(two);
    key_report told;
    auto changed = false;
    auto const watch = [&] {
        changed = false;
        one.locks.wait_change("k", told, [&](error const& e, key_report r) {
            BOOST_TEST(!e, e.what());
            told = std::move(r);
            changed = true;
        });
    };
    attempt writer;
    writer.start(page(one).write());
    waits_quietly(one, 0);
    while (!told.writer) {
        watch();
        BOOST_REQUIRE(one.until([&] { return changed; }));
    }
    // The watch asks once more for this call, and then waits for the server.
    auto const commands = one.locks.stats().commands;
    watch();
    BOOST_REQUIRE(one.until([&] { return one.locks.stats().commands > commands; }));
    catch_up(one);
    BOOST_REQUIRE(!changed);
    writer.signal.emit(asio::cancellation_type::terminal);
    // Long before the watch asks by itself.
    BOOST_REQUIRE(one.until([&] { return writer.done && changed; }, 5s));
    BOOST_TEST(!told.writer.has_value());
    watch();
    BOOST_TEST(two.releases(held));
    BOOST_REQUIRE(one.until([&] { return changed; }, 5s));
    BOOST_CHECK(told.state == key_state::free);
}

BOOST_AUTO_TEST_CASE(a_killed_writer_blocks_for_its_ttl) {
    fleet servers(3);
    test_client client(servers);
    BOOST_REQUIRE(client.all_up());
    holder_process dies(servers, "write", 2s);
    dies.holds();
    attempt reader, writer;
    reader.start(page(client).read());
    writer.start(page(client).write());
    BOOST_REQUIRE(waits(client, 2));
    dies.kill();
    check_gets(client, reader);
    check_gets(client, writer);
    check_only_turns_left(client, servers);
}

BOOST_AUTO_TEST_CASE(a_killed_writer_that_waited_blocks_readers_for_its_ttl) {
    fleet servers(3);
    test_client one(servers), two(servers);
    one.runs_with(two);
    teach(one, servers);
    auto held = reads_everywhere(one, servers);
    holder_process dies(servers, "write", 2s);
    BOOST_REQUIRE(is_noted(one, servers));
    attempt reader;
    reader.start(page(two).read());
    BOOST_REQUIRE(waits(two));
    dies.kill();
    BOOST_REQUIRE(two.until([&] { return reader.done; }));
    BOOST_TEST(reader.won());
    BOOST_TEST(held.held());
    BOOST_TEST(two.releases(reader.held));
    BOOST_TEST(one.releases(held));
    check_only_turns_left(one, servers);
    check_only_turns_left(two, servers);
}

BOOST_AUTO_TEST_CASE(a_stopped_process_sees_that_its_leases_are_gone) {
    for (std::string const access : {"read", "write"}) {
        for (std::string const loop : {"busy", "events"}) {
            BOOST_TEST_CONTEXT(access << ' ' << loop) {
                fleet servers(3);
                test_client client(servers);
                BOOST_REQUIRE(client.all_up());
                child c("HOLDFAST_SLEEPER", {"--instances", servers.url_list(), "--keys", "1",
                                             "--ttl", "4000", "--loop", loop, "--access", access});
                BOOST_REQUIRE(c.line() == "held");
                std::string const key = "sleeper:0";
                BOOST_REQUIRE(copies(servers, key) >= servers.quorum());
                c.stop();
                // A reader's key has half a ttl more, in which its members do not count.
                auto const mine_by = page(client, long_lived, key);
                auto mine = hold(client, access == "read" ? mine_by.write() : mine_by.read());
                mine = [&] {
                    BOOST_TEST(!client.extend(mine));
                    return std::move(mine);
                }();
                c.go_on();
                BOOST_TEST(c.line() == "held=0 told=1 lost=1 wrong=0");
                BOOST_TEST(c.status() == 0);
                // It has sent commands since, but the new lease is unchanged.
                BOOST_TEST(mine.held());
                BOOST_TEST(!client.extend(mine));
                BOOST_TEST(copies(servers, key) == 3U);
                BOOST_TEST(client.releases(mine));
                check_only_turns_left(client, servers);
            }
        }
    }
}

//
// Commands that are late, or lost
//

// An extension of a reader, and the one that makes a writer a reader.
BOOST_AUTO_TEST_CASE(an_extension_that_is_executed_late_brings_nobody_back) {
    for (auto const downgrades : {false, true}) {
        BOOST_TEST_CONTEXT((downgrades ? "downgrade" : "extension")) {
            fleet servers(3);
            proxy_group proxies(servers);
            recorder seen(proxies);
            test_client one(proxies.addresses(), without_questions()), two(servers);
            one.runs_with(two);
            BOOST_REQUIRE(one.all_up());
            teach(one, servers);
            auto held =
                downgrades ? writes_everywhere(one, servers) : reads_everywhere(one, servers);
            BOOST_REQUIRE(one.until([&] { return proxies.are_quiet(); }));
            auto const e = downgrades ? downgrade(one, held) : one.extend(held);
            BOOST_TEST(!e, e.what());
            BOOST_REQUIRE(one.until([&] { return proxies.are_quiet(); }));
            auto const late = seen.last();
            for (auto const& words : late) BOOST_REQUIRE(!words.empty());
            // While it has the lease, the command changes nothing.
            auto before = contents(servers);
            execute(servers, late);
            BOOST_TEST(contents(servers) == before);
            BOOST_TEST(one.releases(held));
            check_nothing_left(one, servers);
            execute(servers, late);
            check_nothing_left(one, servers);
            for (auto const writer : {true, false}) {
                auto next =
                    writer ? writes_everywhere(two, servers) : reads_everywhere(two, servers);
                before = contents(servers);
                execute(servers, late);
                BOOST_TEST(contents(servers) == before);
                BOOST_TEST(!two.extend(next));
                BOOST_TEST(two.releases(next));
                check_nothing_left(two, servers);
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(a_writer_that_waits_keeps_its_turn_when_connections_break) {
    fleet servers(3);
    proxy_group proxies(servers);
    test_client one(servers), two(proxies.addresses()), three(servers);
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
    for (std::size_t i = 0; i < 3; ++i) {
        proxies[i].cut();
        BOOST_REQUIRE(two.until([&] { return is_up(two.locks); }));
        BOOST_TEST(copies(servers, intent_on_k) == 3U);
    }
    BOOST_TEST(one.releases(held));
    BOOST_REQUIRE(two.until([&] { return writer.done || reader.done; }));
    BOOST_TEST(!reader.done);
    check_gets(two, writer);
    check_gets(three, reader);
    for (auto* const c : {&one, &two, &three}) check_only_turns_left(*c, servers);
}

// An instance that is away when the writer gives up hears of it when it is back.
BOOST_AUTO_TEST_CASE(a_note_is_withdrawn_where_the_instance_was_away) {
    fleet servers(3);
    proxy_group proxies(servers);
    test_client one(servers), two(proxies.addresses());
    one.runs_with(two);
    teach(one, servers);
    auto held = reads_everywhere(one, servers);
    attempt writer;
    writer.start(page(two).write());
    BOOST_REQUIRE(is_noted(two, servers));
    proxies[1].down();
    BOOST_REQUIRE(two.becomes(1, instance_state::down));
    writer.signal.emit(asio::cancellation_type::terminal);
    BOOST_REQUIRE(two.until([&] { return writer.done && copies(servers, intent_on_k) == 1; }));
    proxies[1].up();
    BOOST_TEST(two.sees(servers, intent_on_k, false));
    BOOST_TEST(one.releases(held));
    check_only_turns_left(one, servers);
    check_only_turns_left(two, servers);
}

// A server that was frozen refuses the try of a writer that has won long ago, and so notes it.
BOOST_AUTO_TEST_CASE(a_note_that_is_left_late_is_withdrawn) {
    fleet servers(3);
    test_client one(servers), two(servers, unhurried());
    one.runs_with(two);
    teach(one, servers);
    for (auto const released : {false, true}) {
        auto held = reads_everywhere(one, servers);
        // This server refuses the writer later, too.
        auto const far = std::to_string(9'000'000'000'000);
        (void)redis_cli(servers[0]).command({"ZADD", readers_of_k, far, "another"});
        attempt writer;
        auto const scripts = scripts_at(servers[0]);
        servers[0].freeze();
        writer.start(page(two).write());
        BOOST_REQUIRE(waits(two));
        // The release of the reader comes to the server behind the writer's try.
        held.release([](release_result) {});
        BOOST_REQUIRE(two.until([&] { return writer.done; }));
        BOOST_TEST(writer.won());
        if (released) BOOST_TEST(two.releases(writer.held));
        servers[0].thaw();
        BOOST_REQUIRE(two.until([&] { return scripts_at(servers[0]) >= scripts + 2; }));
        BOOST_TEST(two.sees(servers, intent_on_k, false));
        (void)redis_cli(servers[0]).command({"DEL", "k", readers_of_k});
        if (!released) BOOST_TEST(two.releases(writer.held));
        check_only_turns_left(one, servers);
        check_only_turns_left(two, servers);
    }
}

BOOST_AUTO_TEST_SUITE_END()
