// Fair locks: processes get the key in the order in which they asked, and a release tells the next
// one alone. A process that has gone, a server that forgets, and programs that are not fair delay
// the others for a moment only.
#include "integration/attempt.hpp"
#include "integration/fair_line.hpp"
#include "integration/foreign_client.hpp"
#include "integration/kinds.hpp"
#include "support/access.hpp"
#include "support/fleet.hpp"
#include "support/redis_cli.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

std::vector<std::size_t> lists_on(fleet const& servers, std::string const& key) {
    std::vector<std::size_t> all;
    for (server& instance : servers) {
        if (!instance.running() || instance.frozen()) continue;
        auto const length = redis_cli(instance).command({"LLEN", line_of(key)}).integer();
        all.push_back(static_cast<std::size_t>(length));
    }
    return all;
}
std::size_t in_line(fleet const& servers, std::string const& key) {
    return sum(lists_on(servers, key));
}

/// What each server counts of the processes that have joined a line behind others.
std::vector<std::string> joined(fleet const& servers) {
    std::vector<std::string> all;
    for (server& instance : servers) all.push_back(redis_cli(instance).info("cmdstat_rpush"));
    return all;
}

/// Before the line is made.
struct joined_earlier {
    std::vector<std::string> joined_before;
};

/// A line for the key "k".
struct line : private joined_earlier, fair_line {
    explicit line(fleet const& s, std::size_t size, lock_options const& o = fair)
        : joined_earlier{joined(s)}
        , fair_line(
              addresses_of(s), "k", size, [&s] { return lists_on(s, "k"); }, o)
        , servers(s) {}
    void check_nothing_left() { test::check_nothing_left(group, servers); }
    /// An answer that this process reads 2 ms late makes it leave for another instance. A list
    /// there may come and go while nobody looks.
    bool was_split() const {
        auto const now = joined(servers);
        auto used = 0;
        for (std::size_t i = 0; i < now.size(); ++i) used += now[i] != joined_before[i] ? 1 : 0;
        return split || used > 1;
    }
    /// After the last turn. Where a line was split, another list ends by itself.
    bool ends(bool right) {
        if (!was_split()) check_nothing_left();
        return right;
    }

    fleet const& servers;
};

/// The instance with the line for "k".
server& arbiter_of(fleet const& servers) {
    for (server& instance : servers) {
        if (redis_cli(instance).exists(line_of("k"))) return instance;
    }
    throw std::runtime_error("nobody stands in line");
}

/// The line is with an instance that fails. The others are a quorum.
void check_goes_on(void (server::*fails)()) {
    fleet servers(3);
    line all(servers, 3);
    server& instance = arbiter_of(servers);
    (instance.*fails)();
    all.release(all.holder);
    for (int n = 0; n < 3; ++n) {
        auto const i = all.next();
        all.release(all.waiting[i].held);
        all.waiting[i].held = {};
    }
    if (instance.frozen()) instance.thaw();
    all.check_nothing_left();
}

} // namespace

BOOST_AUTO_TEST_SUITE(fair_locks)

BOOST_DATA_TEST_CASE(processes_get_the_key_in_the_order_in_which_they_asked,
                     boost::unit_test::data::make({1U, 3U, 5U}), instances) {
    fleet servers(instances);
    BOOST_TEST(in_order([&] { return line(servers, 8); }));
    check_nothing_left(servers, 5s);
}

BOOST_AUTO_TEST_CASE(on_each_server_in_the_order_in_which_they_asked) {
    on_oldest_and_newest([](server_kind const& kind) {
        fleet servers(3, {.kind = kind});
        BOOST_TEST(in_order([&] { return line(servers, 4, fair_fenced); }));
        check_nothing_left(servers, 5s);
    });
}

BOOST_AUTO_TEST_CASE(fences_grow_along_the_line) {
    fleet servers(3);
    BOOST_TEST(in_order([&] { return line(servers, 6, fair_fenced); })); // compares the fences
    check_nothing_left(servers, 5s);
}

// Without the line, each release wakes all who wait.
BOOST_AUTO_TEST_CASE(a_release_tells_the_next_process_alone) {
    fleet servers(3);
    auto const alone = [](line& all) {
        if (all.pass() != first_to_last(8)) return false;
        auto const& clients = all.group.clients;
        return all.ends(std::none_of(clients.begin(), clients.end(),
                                     [](auto const& c) { return c->stats().wasted_wakeups > 0; }));
    };
    BOOST_TEST(on_one_line([&] { return line(servers, 8); }, alone));
    check_nothing_left(servers, 5s);
}

BOOST_AUTO_TEST_CASE(a_waiter_that_leaves_takes_its_place_out_of_the_line) {
    fleet servers(3);
    auto const goes_on = [](line& all) {
        all.waiting[0].signal.emit(asio::cancellation_type::terminal);
        all.waiting[2].signal.emit(asio::cancellation_type::terminal);
        BOOST_REQUIRE(all.group.until(
            [&] { return all.waiting[0].done && all.waiting[2].done && all.in_line() == 2; }));
        BOOST_TEST((all.waiting[0].how == errc::cancelled), all.waiting[0].how.what());
        return all.ends(all.pass() == std::vector<std::size_t>{1, 3});
    };
    BOOST_TEST(on_one_line([&] { return line(servers, 4); }, goes_on));
    check_nothing_left(servers, 5s);
}

// A client waits that has ended its life without a word: its entry stays in the line. Once the
// moment is over the next processes try at all instances, so their order is not promised.
BOOST_AUTO_TEST_CASE(entries_of_the_dead_cost_a_moment_each) {
    fleet servers(3);
    auto const goes_on = [](line& all) {
        for (server& instance : all.servers) {
            redis_cli cli(instance);
            if (!cli.exists(line_of("k"))) continue;
            for (auto const* const dead : {"dead:0123456789abcdef0123456789abcdef", "",
                                           "dead:1123456789abcdef0123456789abcdef"})
                (void)cli.command({"LPUSH", line_of("k"), dead});
        }
        auto order = all.pass();
        std::sort(order.begin(), order.end());
        return all.ends(order == first_to_last(2));
    };
    BOOST_TEST(on_one_line([&] { return line(servers, 2); }, goes_on));
    check_nothing_left(servers, 5s);
}

BOOST_AUTO_TEST_CASE(a_newcomer_does_not_pass_those_who_stand_in_line) {
    fleet servers(1);
    test_client client(servers);
    redis_cli cli(servers[0]);
    (void)cli.command({"RPUSH", line_of("k"), "other:0123456789abcdef0123456789abcdef"});
    auto const [e, l] = client.try_acquire("k", fair);
    BOOST_TEST((e == errc::contended));
    (void)cli.command({"DEL", line_of("k")});
    auto held = client.hold("k", fair);
    BOOST_TEST(client.releases(held));
    check_nothing_left(client, servers);
}

// A process that joined the line first gets the key also if it finds it free itself.
BOOST_AUTO_TEST_CASE(the_first_in_line_keeps_its_turn_when_the_key_expires) {
    fleet servers(1);
    line all(servers, 3);
    redis_cli cli(servers[0]);
    std::vector<lease> lost;
    for (std::size_t n = 0; n < 3; ++n) {
        BOOST_TEST(cli.del("k"));
        BOOST_TEST(all.next() == n);
        all.holder = {};
        lost.push_back(std::move(all.waiting[n].held));
    }
    lost.clear();
    all.check_nothing_left();
}

// A waiter with other options takes over the place of a waiter that leaves.
BOOST_AUTO_TEST_CASE(a_place_in_line_is_one_however_often_it_is_inherited) {
    fleet servers(1);
    line all(servers, 1);
    auto slow = fair;
    slow.max_retry_delay = 60s;
    attempt heir;
    heir.start(all.group.key_of(1, "k", slow));
    BOOST_REQUIRE(all.group.until([&] { return all.group.clients[1]->stats().waiters == 2; }));
    all.waiting[0].signal.emit(asio::cancellation_type::terminal);
    BOOST_REQUIRE(all.group.until([&] { return all.waiting[0].done; }));
    auto const asked = [&] { return all.group.clients[1]->stats().rounds; };
    auto const before = asked();
    BOOST_REQUIRE(all.group.until([&] { return asked() > before; })); // renews its place
    BOOST_TEST(in_line(servers, "k") == 1U);
    all.release(all.holder);
    BOOST_REQUIRE(all.group.until([&] { return heir.done; }));
    BOOST_TEST(!heir.how, heir.how.what());
    all.release(heir.held);
    all.check_nothing_left();
}

// A server tells of a key once. So it must not remember the keys of waiters that have gone.
BOOST_AUTO_TEST_CASE(waiters_that_leave_are_forgotten_by_the_servers) {
    fleet servers(1);
    line all(servers, 0);
    auto const before = tracked_keys(servers);
    for (int n = 0; n < 20; ++n) {
        attempt waiting;
        waiting.start(all.group.key_of(0, "other", fair));
        BOOST_REQUIRE(all.group.until([&] { return waiting.done; }));
        attempt next;
        all.group.clients.push_back(std::make_unique<client>(all.group.context.get_executor(),
                                                             addresses_of(servers), patient()));
        BOOST_REQUIRE(all.group.all_up());
        next.start(all.group.key_of(all.group.clients.size() - 1, "other", fair));
        BOOST_REQUIRE(all.group.until([&] { return in_line(servers, "other") == 1; }));
        next.signal.emit(asio::cancellation_type::terminal);
        BOOST_REQUIRE(all.group.until([&] { return next.done && in_line(servers, "other") == 0; }));
        all.release(waiting.held);
    }
    BOOST_TEST(all.group.until([&] { return tracked_keys(servers) <= before; }));
    all.release(all.holder);
    all.check_nothing_left();
}

// A process that asks in turn, and gets the key, has registered for its turn too.
BOOST_AUTO_TEST_CASE(tenures_of_one_process_leave_no_registrations) {
    fleet servers(1);
    test_client client(servers);
    auto options = fair;
    options.handover_limit = 1;
    auto const before = tracked_keys(servers);
    auto const lock = client.locks.make_lock("k", options);
    int left = 0;
    auto const work = [&]() -> asio::awaitable<void> {
        for (int n = 0; n < 50; ++n) {
            auto held = co_await lock.acquire();
            co_await held.release();
        }
        --left;
    };
    for (; left < 3; ++left) asio::co_spawn(client.context, work(), asio::detached);
    BOOST_REQUIRE(client.until([&] { return left == 0; }));
    BOOST_TEST(client.until([&] { return tracked_keys(servers) <= before + 1; }));
    check_nothing_left(client, servers);
}

// It left while its connection was down.
BOOST_AUTO_TEST_CASE(a_place_is_given_up_when_its_instance_is_back) {
    fleet servers(1);
    line all(servers, 2);
    redis_cli cli(servers[0]);
    (void)cli.command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
    all.waiting[0].signal.emit(asio::cancellation_type::terminal);
    BOOST_REQUIRE(all.group.until([&] { return all.waiting[0].done && all.group.all_up(); }));
    // The second one keeps the list alive.
    BOOST_TEST(all.group.until([&] { return all.in_line() == 1; }));
    all.renew(1);
    BOOST_TEST(all.in_line() == 1U);
    all.release(all.holder);
    BOOST_TEST(all.next() == 1U);
    all.release(all.waiting[1].held);
    all.check_nothing_left();
}

BOOST_AUTO_TEST_CASE(a_value_in_place_of_the_line_stays_as_it_is) {
    fleet servers(1);
    redis_cli cli(servers[0]);
    (void)cli.command({"HSET", line_of("k"), "field", "of another program"});
    test_client first(servers), second(servers);
    first.runs_with(second);
    auto held = first.hold("k", fair);
    attempt waiting(second, "k", fair);
    BOOST_TEST(waits_for_push(second, servers));
    BOOST_TEST((cli.pttl(line_of("k")) == -1ms));
    BOOST_TEST(first.releases(held));
    check_gets(second, waiting);
    BOOST_TEST((cli.pttl(line_of("k")) == -1ms));
    (void)cli.command({"DEL", line_of("k")});
    check_nothing_left(second, servers);
}

// A user who may not write the keys that call processes: the key is free after a release.
BOOST_AUTO_TEST_CASE(a_process_that_cannot_be_called_finds_the_key) {
    fleet servers(1, {.refuses = true});
    redis_cli admin(servers[0]);
    auto rules = access::all("k");
    std::erase(rules, "~{k*}:queue*");
    rules.insert(rules.begin(), "~{k*}:queue");
    BOOST_REQUIRE(admin.command(access::set_user(access::user, rules)).is_ok());
    line all(servers, 1);
    BOOST_TEST(all.pass() == first_to_last(1));
    BOOST_TEST(all.group.idle());
}

// The releasing process has long pauses.
BOOST_AUTO_TEST_CASE(a_reservation_is_short_however_long_the_pauses) {
    fleet servers(1);
    test_client client(servers);
    redis_cli cli(servers[0]);
    auto slow = fair;
    slow.max_retry_delay = 60s;
    auto held = client.hold("k", slow);
    (void)cli.command({"RPUSH", line_of("k"), "other:0123456789abcdef0123456789abcdef"});
    BOOST_TEST(client.releases(held));
    auto const left = cli.pttl("k");
    BOOST_TEST((left > 0ms));
    BOOST_TEST((left <= 2'100ms));
    auto again = client.hold("k", fair);
    BOOST_TEST(client.releases(again));
    check_nothing_left(client, servers);
}

// The key is given to the first in line for so long that it can take the key.
BOOST_AUTO_TEST_CASE(a_reservation_ends_by_itself) {
    fleet servers(1);
    test_client client(servers);
    redis_cli cli(servers[0]);
    auto held = client.hold("k", fair);
    (void)cli.command({"RPUSH", line_of("k"), "other:0123456789abcdef0123456789abcdef"});
    BOOST_TEST(client.releases(held));
    BOOST_TEST(cli.get("k").value_or("") == "other:0123456789abcdef0123456789abcdef");
    auto again = client.hold("k", fair);
    BOOST_TEST(client.releases(again));
    check_nothing_left(client, servers);
}

// After 100 ms a waiter hears of the other instances too. They are free before the process that was
// called has taken its turn. Here that one does not come.
BOOST_AUTO_TEST_CASE(a_waiter_that_hears_of_a_free_quorum_lets_the_called_one_pass) {
    fleet servers(3);
    auto slow = fair;
    slow.max_retry_delay = 1s; // so a turn is long, too
    std::size_t before = 0;
    auto const make = [&] {
        before = tracked_keys(servers);
        return line(servers, 1, slow);
    };
    auto const lets_pass = [&](line& all) {
        constexpr auto called = "other:0123456789abcdef0123456789abcdef";
        // At the arbiter and at one more.
        BOOST_REQUIRE(all.group.until([&] { return tracked_keys(servers) >= before + 2; }));
        redis_cli cli(arbiter_of(servers));
        (void)cli.command({"LPUSH", line_of("k"), called});
        auto const first = cli.get("k");
        all.release(all.holder); // ends at a quorum, perhaps without the arbiter
        auto next = first;
        BOOST_REQUIRE(all.group.until([&] { return (next = cli.get("k")) != first; }));
        auto const was_called = next.value_or("") == called;
        (void)all.next();
        auto const passed = cli.get("k").value_or("") != called;
        return all.ends(all.turns() == first_to_last(1) && was_called && passed);
    };
    // Where an answer is late, the waiter may take the key at the two others. So one line of four
    // is enough: who does not let the called one pass does so in none.
    auto right = false;
    for (auto n = 0; n < 4 && !right; ++n) right = on_one_line(make, lets_pass);
    BOOST_TEST(right);
    check_nothing_left(servers, 5s);
}

BOOST_AUTO_TEST_CASE(a_flush_of_all_servers_costs_no_waiter_its_lock) {
    fleet servers(3);
    auto options = patient();
    options.on_restart = restart_policy::off;
    test_client first(servers, options), second(servers, options);
    first.runs_with(second);
    auto held = first.hold("k", fair);
    attempt waiting(second, "k", fair);
    BOOST_REQUIRE(first.until([&] { return in_line(servers, "k") == 1; }));
    for (server& instance : servers) redis_cli(instance).flush();
    check_gets(second, waiting);
    (void)first.release(held);
    check_nothing_left(second, servers);
}

BOOST_AUTO_TEST_CASE(a_key_that_another_program_deletes_goes_to_the_first_in_line) {
    fleet servers(3);
    auto const in_turn = [](line& all) {
        BOOST_TEST(foreign_client(all.servers).del_if_there("k") > 0U);
        auto const right = all.turns() == first_to_last(2);
        all.holder = {};
        return all.ends(right);
    };
    BOOST_TEST(on_one_line([&] { return line(servers, 2); }, in_turn));
    check_nothing_left(servers, 5s);
}

BOOST_AUTO_TEST_CASE(a_line_whose_instance_dies_goes_on_elsewhere) {
    check_goes_on(&server::kill);
}

BOOST_AUTO_TEST_CASE(a_line_whose_instance_freezes_goes_on_elsewhere) {
    check_goes_on(&server::freeze);
}

BOOST_AUTO_TEST_CASE(fair_and_other_locks_exclude_each_other) {
    fleet servers(3);
    line all(servers, 1);
    test_client plain(servers);
    BOOST_TEST((plain.try_acquire("k").first == errc::contended));
    attempt other(plain, "k", long_lived);
    BOOST_TEST(waits(plain));
    BOOST_TEST(all.pass() == first_to_last(1));
    check_gets(plain, other);
    check_nothing_left(plain, servers);
}

// A client that has a fair and another lock on one key treats both as fair.
BOOST_AUTO_TEST_CASE(fair_and_other_waiters_of_one_process_get_the_key) {
    fleet servers(3);
    line all(servers, 1);
    attempt other;
    other.start(all.group.key_of(1, "k", long_lived));
    all.release(all.holder);
    BOOST_TEST(all.next() == 0U);
    all.release(all.waiting[0].held);
    BOOST_REQUIRE(all.group.until([&] { return other.done; }));
    BOOST_TEST(!other.how, other.how.what());
    all.release(other.held);
    all.check_nothing_left();
}

BOOST_AUTO_TEST_CASE(a_shutdown_leaves_the_line) {
    fleet servers(3);
    auto const goes_on = [](line& all) {
        all.group.clients[1]->close();
        BOOST_REQUIRE(all.group.until([&] { return all.waiting[0].done; }));
        BOOST_TEST((all.waiting[0].how == errc::shut_down));
        return all.ends(all.pass() == std::vector<std::size_t>{1, 2});
    };
    BOOST_TEST(on_one_line([&] { return line(servers, 3); }, goes_on));
    check_nothing_left(servers, 5s);
}

// A server that does not push: those who wait ask again and again.
BOOST_AUTO_TEST_CASE(without_pushes_the_order_stays) {
    fleet servers(1, {.refuses = true, .missing_rules = {"+client|tracking"}});
    line all(servers, 4);
    BOOST_TEST(all.pass() == first_to_last(4));
    all.check_nothing_left();
}

BOOST_AUTO_TEST_SUITE_END()
