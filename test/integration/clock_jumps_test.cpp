// If the clock of an instance jumps ahead, its keys expire early. A client that sees the jump
// quarantines the instance. Without the guard a lock then has two holders.
#include "integration/attempt.hpp"
#include "integration/guards.hpp"
#include "integration/loss_wait.hpp"
#include "integration/proxy_group.hpp"
#include "support/proxy.hpp"

#include <boost/algorithm/string/join.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

// Shifts all servers together. For a client that is a standstill of its own clock.
void stand_still(fleet& servers, std::chrono::milliseconds by) {
    for (server& instance : servers) instance.shift_clock(by);
}

} // namespace

BOOST_AUTO_TEST_SUITE(clock_jumps)

//
// The clocks of instances
//

BOOST_AUTO_TEST_CASE(a_server_whose_clock_jumps_ahead_is_quarantined) {
    constexpr auto longest = 3s;
    fleet servers(2, {.shiftable_clock = true});
    test_client client(servers, guarded(restart_policy::observed, longest, brisk()));
    BOOST_REQUIRE(client.all_up());
    auto const before = lease_clock::now();
    servers[0].shift_clock(10s);
    servers[1].shift_clock(120s); // this jump also exceeds the server's uptime
    std::vector<lease_clock::time_point> over(2);
    BOOST_REQUIRE(client.until([&] {
        for (std::size_t k = 0; k < 2; ++k) {
            if (!is_quarantined(client, k) || over[k] != lease_clock::time_point{}) continue;
            check_quarantined(client, k, jumped);
            over[k] = client.status(k).quarantined_until;
            BOOST_TEST((over[k] >= before + longest));
            BOOST_TEST((over[k] <= lease_clock::now() + longest));
            auto const [e, none] = client.acquire("k", unwatched(longest));
            BOOST_TEST((e == errc::quarantined), e.what());
            BOOST_TEST(contains(e.what(), jumped), e.what());
        }
        return over[0] != lease_clock::time_point{} && over[1] != lease_clock::time_point{};
    }));
    BOOST_TEST(client.until([&] { return all_trusted(client); }));
    BOOST_TEST((lease_clock::now() >= std::max(over[0], over[1])));
    auto l = client.hold("k", unwatched(longest));
    BOOST_TEST(client.releases(l));
}

BOOST_AUTO_TEST_CASE(a_jump_in_quarantine_makes_it_longer) {
    server instance({.shiftable_clock = true});
    test_client client({instance.url()}, guarded(restart_policy::observed, 60s, brisk()));
    BOOST_REQUIRE(client.all_up());
    crash(instance, client);
    check_quarantined(client, 0, restarted);
    auto const until = client.status(0).quarantined_until;
    instance.shift_clock(10s);
    BOOST_TEST(client.until([&] { return client.status(0).quarantined_until > until; }));
    check_quarantined(client, 0, jumped);
}

// A grant counts only if the clock was checked shortly before, also behind a long backlog.
BOOST_AUTO_TEST_CASE(the_time_is_asked_for_under_a_backlog_too) {
    fleet servers(1);
    proxy_group proxies(servers);
    auto options = guarded(restart_policy::off, 60s);
    options.instance_timeout = 20s;
    test_client client(proxies.addresses(), options);
    BOOST_REQUIRE(client.all_up());
    BOOST_REQUIRE(client.until([&] { return proxies.are_quiet(); }));
    std::mutex mutex;
    std::vector<std::string> seen;
    proxies[0].intercept([&](command_line const& words) -> std::optional<std::string> {
        std::lock_guard const lock(mutex);
        seen.push_back(words[0] == "SET" ? words[1] : words[0]);
        return std::nullopt;
    });
    proxies[0].hold_requests();
    std::vector<std::unique_ptr<attempt>> all;
    auto const sends = [&](std::string const& key) {
        auto const before = client.locks.stats().pending;
        all.push_back(std::make_unique<attempt>(client, key, unwatched(60s)));
        BOOST_REQUIRE(client.until([&] { return client.locks.stats().pending > before; }));
    };
    for (auto const* const key : {"a", "b", "c", "d"}) sends(key); // too many to send at once
    client.pass(lease_clock::now() + 1100ms);
    sends("last");
    proxies[0].resume();
    BOOST_REQUIRE(client.until([&] { return all.back()->done; }));
    std::lock_guard const lock(mutex);
    auto const at = [&](std::string_view command) {
        return std::find(seen.begin(), seen.end(), command);
    };
    BOOST_TEST((at("d") < at("TIME") && at("TIME") < at("last") && at("last") != seen.end()),
               boost::algorithm::join(seen, " "));
}

// The waiter acquires the free key. In the same turn its client reads that the clock has jumped.
BOOST_AUTO_TEST_CASE(a_grant_of_a_quarantined_arbiter_is_released) {
    fleet servers(3, {.shiftable_clock = true});
    for (server& instance : servers) redis_cli(instance).set("k", "foreign");
    proxy_group proxies(servers);
    test_client client(proxies.addresses(), guarded(restart_policy::observed, 60s, brisk()));
    BOOST_REQUIRE(client.all_up());
    attempt w(client, "k", unwatched(60s));
    BOOST_REQUIRE(client.until([&] { return tracking_instances(servers).size() == 1; }));
    auto const arbiter = tracking_instances(servers).front();
    auto& wire = proxies[arbiter];
    redis_cli cli(servers[arbiter]);
    wire.hold_requests();
    BOOST_REQUIRE(
        client.until([&] { return wire.commands_held() > 0; })); // the held command is TIME
    BOOST_TEST(cli.del("k"));
    BOOST_REQUIRE(
        client.until([&] { return wire.commands_held() > 1; })); // the second held command is SET
    BOOST_TEST(!is_quarantined(client, arbiter));
    servers[arbiter].shift_clock(120s);
    wire.resume();
    BOOST_REQUIRE(client.becomes(arbiter, instance_state::quarantined));
    // The waiter moves to another instance.
    BOOST_TEST(client.until([&] {
        auto const those = tracking_instances(servers);
        return std::any_of(those.begin(), those.end(), [&](std::size_t i) { return i != arbiter; });
    }));
    BOOST_TEST(client.sees_no_locks(servers[arbiter]));
    BOOST_TEST(!w.done);
    for (server& instance : servers) redis_cli(instance).del("k");
    BOOST_TEST(client.until([&] { return w.done; }));
    BOOST_TEST(!w.how, w.how.what());
    BOOST_TEST(w.held.held());
    BOOST_TEST(!cli.exists("k"));
    check_quarantined(client, arbiter, jumped);
    BOOST_TEST(client.releases(w.held));
}

// The watcher sees the jump. The other clients could have seen it by then.
BOOST_AUTO_TEST_CASE(a_jump_is_seen_only_by_clients_that_ask_the_time) {
    server instance({.arguments = {"--user", "guest", "on", ">pw", "~*", "&*", "+@all", "-time"},
                     .shiftable_clock = true});
    test_client watcher({instance.url()}, guarded(restart_policy::observed, 60s, brisk()));
    test_client denied({"redis://guest:pw@" + instance.address()},
                       guarded(restart_policy::observed, 60s, brisk()));
    auto options = guarded(restart_policy::observed, 60s, brisk());
    options.detect_clock_jumps = false;
    test_client careless({instance.url()}, options);
    for (auto* client : {&watcher, &denied, &careless}) BOOST_REQUIRE(client->all_up());
    watcher.runs_with(denied);
    watcher.runs_with(careless);
    instance.shift_clock(120s);
    BOOST_REQUIRE(watcher.until([&] { return is_quarantined(watcher, 0); }));
    // Waits for the commands of two questions for the time, or of attempts to ask.
    auto const enough = [](test_client& client) {
        return [&client, n = client.locks.stats().commands + 4] {
            return client.locks.stats().commands >= n;
        };
    };
    BOOST_TEST(watcher.until([a = enough(watcher), b = enough(denied),
                              c = enough(careless)] { return a() && b() && c(); },
                             30s));
    for (auto* client : {&denied, &careless}) {
        BOOST_TEST(were_always_trusted(client->locks));
        auto l = client->hold("k", unwatched(60s));
        BOOST_TEST(!client->extend(l));
        BOOST_TEST(client->releases(l));
    }
}

BOOST_AUTO_TEST_CASE(a_clock_that_goes_back_is_no_jump_but_its_return_is) {
    server instance({.shiftable_clock = true});
    test_client client({instance.url()}, guarded(restart_policy::observed, 60s, brisk()));
    BOOST_REQUIRE(client.all_up());
    instance.shift_clock(-120s);
    BOOST_TEST(asks_the_time(client, 2));
    BOOST_TEST(were_always_trusted(client.locks));
    auto l = client.hold("k", unwatched(60s));
    BOOST_TEST(client.releases(l));
    instance.shift_clock(120s);
    BOOST_TEST(client.becomes(0, instance_state::quarantined));
    check_quarantined(client, 0, jumped);
}

BOOST_AUTO_TEST_CASE(a_clock_that_goes_back_lengthens_the_life_of_a_key_by_as_much) {
    server instance({.shiftable_clock = true});
    test_client client({instance.url()}, brisk());
    auto held = client.hold("k", unwatched(2s));
    held.detach();
    instance.shift_clock(-20s);
    attempt waiter(client, "k", unwatched(2s));
    BOOST_REQUIRE(waits(client));
    auto const left = redis_cli(instance).command({"PTTL", "k"}).integer();
    BOOST_TEST(left > 18'000);
    BOOST_TEST(left <= 22'000);
    // The waiter gets the key as soon as the clock is right again.
    instance.shift_clock(20s);
    BOOST_TEST(client.until([&] { return waiter.done; }));
    BOOST_TEST((!waiter.how || waiter.how == errc::quarantined), waiter.how.what());
}

BOOST_AUTO_TEST_CASE(a_jump_while_no_client_is_connected_is_seen_afterwards) {
    server instance({.arguments = fsync_always, .shiftable_clock = true});
    test_client client({instance.url()}, guarded(restart_policy::observed, 60s, brisk()));
    BOOST_REQUIRE(client.all_up());
    crash(instance, client);
    BOOST_TEST(were_always_trusted(client.locks));
    auto const before = connections_of(client);
    instance.kill();
    instance.shift_clock(120s);
    instance.restart();
    BOOST_REQUIRE(is_back(client, before, {0}));
    check_quarantined(client, 0, jumped);
}

// The client sends a check if it has sent nothing since the last one. The next check comes after
// that answer could be overdue.
BOOST_AUTO_TEST_CASE(an_idle_client_sends_less_than_a_command_a_second_to_each_instance) {
    server instance;
    test_client client({instance.url()}, brisk());
    BOOST_REQUIRE(client.all_up());
    auto const sent = client.locks.stats().commands;
    BOOST_REQUIRE(client.until([&] { return client.locks.stats().commands > sent; }));
    auto const first = client.locks.stats().commands;
    auto const since = lease_clock::now();
    // Each check is two questions.
    BOOST_REQUIRE(client.until([&] { return client.locks.stats().commands >= first + 4; }));
    auto const took =
        std::chrono::duration_cast<std::chrono::milliseconds>(lease_clock::now() - since);
    BOOST_TEST(took.count() >= 2 * (1'000 + 1'250) - 100, took.count() << " ms");
}

BOOST_AUTO_TEST_CASE(neither_a_frozen_server_nor_a_slow_wire_nor_a_stalled_client_is_a_jump) {
    server instance({.shiftable_clock = true});
    {
        test_client client({instance.url()}, hasty());
        BOOST_REQUIRE(client.all_up());
        instance.freeze();
        BOOST_TEST(client.becomes(
            0, instance_state::suspect)); // a question for the time is the only command under way
        instance.thaw();
        BOOST_TEST(client.all_up());
        instance.freeze();
        BOOST_TEST(client.becomes(0, instance_state::down));
        instance.thaw();
        BOOST_TEST(client.all_up());
        BOOST_TEST(were_always_trusted(client.locks));
    }
    proxy wire(instance);
    test_client client({wire.url()}, brisk());
    test_client other({instance.url()}, brisk()); // runs while `client` does not
    BOOST_REQUIRE(client.all_up());
    BOOST_REQUIRE(other.all_up());
    // The question arrives late.
    wire.hold_requests();
    BOOST_REQUIRE(client.until([&] { return wire.commands_held() > 0; }));
    other.pass(lease_clock::now() + 700ms);
    wire.resume();
    BOOST_TEST(asks_the_time(client, 1));
    // The answer has arrived, but the client reads it after its time limit.
    wire.hold_replies();
    BOOST_REQUIRE(client.until([&] { return wire.replies_held() > 0; }));
    wire.resume();
    other.pass(lease_clock::now() + 1200ms);
    BOOST_TEST(asks_the_time(client, 2));
    BOOST_TEST(were_always_trusted(client.locks));
    BOOST_TEST(were_always_trusted(other.locks));
    // The client can still see a jump.
    instance.shift_clock(10s);
    BOOST_TEST(client.becomes(0, instance_state::quarantined));
}

// While a command is under way, the client must ask for the time too, and not only check for an
// overdue answer.
BOOST_AUTO_TEST_CASE(a_jump_is_seen_however_long_an_instance_may_take_to_answer) {
    for (auto const how : {restart_policy::off, restart_policy::strict}) {
        server instance({.shiftable_clock = true});
        test_client client({instance.url()}, guarded(how, 1s));
        {
            auto const [e, l] =
                client.try_acquire("k", unwatched(1s)); // sent before the first probe is answered
            BOOST_TEST(static_cast<bool>(e) == (how == restart_policy::strict), e.what());
        }
        BOOST_REQUIRE(client.until([&] { return is_trusted(client, 0); }));
        instance.shift_clock(10s);
        BOOST_TEST(client.becomes(0, instance_state::quarantined));
    }
}

BOOST_AUTO_TEST_CASE(without_the_clock_guard_a_majority_that_jumps_makes_a_second_holder) {
    fleet servers(3, {.shiftable_clock = true});
    auto options = guarded(restart_policy::observed, 60s, brisk());
    options.detect_clock_jumps = false;
    test_client a(servers, options), b(servers, options);
    BOOST_REQUIRE(b.all_up());
    auto first = a.hold("k", unwatched(60s));
    BOOST_REQUIRE(a.sees(servers, "k", true));
    for (std::size_t i = 0; i < 2; ++i) servers[i].shift_clock(120s);
    // One that does not wait fails if the third server answers long before one of the two.
    auto [e, second] = b.acquire("k", unwatched(60s));
    BOOST_TEST(!e, e.what());
    BOOST_TEST((second.held() && first.held())); // two holders
}

BOOST_AUTO_TEST_CASE(a_majority_that_jumps_and_is_seen_to_makes_no_second_holder) {
    constexpr auto longest = 4s;
    fleet servers(3, {.shiftable_clock = true});
    auto const options = guarded(restart_policy::observed, longest, brisk());
    test_client a(servers, options), b(servers, options);
    BOOST_REQUIRE(b.all_up());
    auto first = a.hold("k", unwatched(longest));
    BOOST_REQUIRE(a.sees(servers, "k", true));
    for (std::size_t i = 0; i < 2; ++i) servers[i].shift_clock(120s);
    BOOST_REQUIRE(b.until([&] { return are_quarantined(b, 2); }));
    {
        auto const [e, none] = b.try_acquire("k", unwatched(longest));
        check_report(e, 2, jumped);
    }
    auto const over = std::max(b.status(0).quarantined_until, b.status(1).quarantined_until);
    BOOST_TEST(b.until([&] { return all_trusted(b); }));
    BOOST_TEST((lease_clock::now() >= over));
    auto [e, second] = b.acquire("k", unwatched(longest));
    BOOST_TEST(!e, e.what());
    BOOST_TEST(second.held());
    BOOST_TEST(!first.held());
}

BOOST_AUTO_TEST_CASE(a_lease_outlives_a_minority_whose_clock_jumps) {
    fleet servers(3, {.shiftable_clock = true});
    test_client client(servers, guarded(restart_policy::observed, 60s, brisk()));
    BOOST_REQUIRE(client.all_up());
    auto l = client.hold("k", unwatched(30s));
    BOOST_REQUIRE(client.sees(servers, "k", true));
    servers[0].shift_clock(120s);
    BOOST_TEST(!redis_cli(servers[0]).exists("k"));
    BOOST_REQUIRE(client.becomes(0, instance_state::quarantined));
    BOOST_TEST(are_quarantined(client, 1));
    BOOST_TEST(!client.extend(l));
    BOOST_TEST(client.sees(servers, "k", true));
    BOOST_TEST(l.held());
    auto other = client.hold("other", unwatched(30s));
    BOOST_TEST(client.locks.stats().acquire_failed == 0U);
    BOOST_TEST(client.releases(l));
    BOOST_TEST(client.releases(other));
    check_nothing_left(client, servers);
}

//
// The clock of the client
//

BOOST_AUTO_TEST_CASE(a_standstill_of_our_clock_moves_deadlines_and_quarantines_nobody) {
    fleet servers(3, {.shiftable_clock = true});
    test_client client(servers, guarded(restart_policy::observed, 60s, brisk()));
    BOOST_REQUIRE(client.all_up());
    auto l = client.hold("long", unwatched(60s));
    auto gone = client.hold("short", unwatched(10s));
    auto renewed = client.hold("renewed", {.ttl = 40s});
    std::optional<lease_end> told, told_early;
    gone.wait_end(noting(told));
    l.wait_end(40s, noting(told_early));
    auto const deadline = l.deadline();
    auto const renewals = client.locks.stats().extended;
    stand_still(servers, 25s);
    BOOST_REQUIRE(client.until([&] { return l.deadline() != deadline; }));
    BOOST_TEST((l.deadline() <= deadline - 25s));
    BOOST_TEST((l.deadline() > deadline - 27s));
    BOOST_TEST(l.held());
    BOOST_TEST(!gone.held());
    BOOST_REQUIRE(client.until([&] { return told.has_value() && told_early.has_value(); }));
    BOOST_TEST(*told == lease_end::expired);
    BOOST_TEST(*told_early == lease_end::none);
    BOOST_TEST(client.locks.stats().lost == 1U);
    BOOST_TEST(client.until([&] { return client.locks.stats().extended > renewals; }));
    BOOST_TEST((renewed.remaining() > 30s));
    BOOST_TEST(client.until([&] { return were_always_trusted(client.locks); }));
    auto fresh = client.hold("fresh", unwatched(20s));
    BOOST_TEST(asks_the_time(client, 1));
    BOOST_TEST(fresh.held());
    BOOST_TEST(were_always_trusted(client.locks));
    BOOST_TEST((l.deadline() > deadline - 27s)); // moved once only
    BOOST_TEST(client.releases(l));
}

// Either clock may have jumped. So the deadlines move, and the instance is quarantined.
BOOST_AUTO_TEST_CASE(a_jump_of_a_lone_instance_is_taken_both_ways) {
    fleet servers(1, {.shiftable_clock = true});
    test_client client(servers, guarded(restart_policy::observed, 60s, brisk()));
    BOOST_REQUIRE(client.all_up());
    auto l = client.hold("k", unwatched(60s));
    auto const deadline = l.deadline();
    stand_still(servers, 25s);
    BOOST_REQUIRE(client.becomes(0, instance_state::quarantined));
    check_quarantined(client, 0, jumped);
    BOOST_TEST((l.deadline() <= deadline - 25s));
    BOOST_TEST(l.held());
    BOOST_TEST(!client.extend(l));
}

BOOST_AUTO_TEST_SUITE_END()
