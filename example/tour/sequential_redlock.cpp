#include "tour/sequential_redlock.hpp"

#include "support/proxy.hpp"
#include "tour/participant.hpp"
#include "tour/rows.hpp"
#include "tour/several_servers.hpp"
#include "tour/unique_token.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <random>
#include <thread>
#include <utility>

using namespace std::chrono_literals;

namespace tour {

//
// The older way
//

std::string uniqid(std::chrono::microseconds since_1970) {
    char text[32];
    auto const us = since_1970.count();
    std::snprintf(text, sizeof text, "%08llx%05llx",
                  static_cast<unsigned long long>(us / 1'000'000),
                  static_cast<unsigned long long>(us % 1'000'000));
    return text;
}

sequential_redlock::sequential_redlock(std::vector<wire*> servers, std::string key, clock now)
    : servers_(std::move(servers))
    , key_(std::move(key))
    , now_(std::move(now)) {
    auto const n = static_cast<double>(servers_.size());
    quorum_ = std::min(n, n / 2 + 1);
}

bool sequential_redlock::lock_on(wire& server, milliseconds ttl) {
    try {
        return server.send({"SET", key_, token_, "NX", "PX", in_milliseconds(ttl)}).is_ok();
    } catch (holdfast::test::cli_error const&) {
        return false;
    }
}

bool sequential_redlock::try_lock(milliseconds ttl) {
    using steady = std::chrono::steady_clock;
    token_ = uniqid(now_());
    std::mt19937 random(std::random_device{}());
    for (auto retry = retry_count; retry > 0; --retry) {
        granted_ = 0;
        auto const start = steady::now();
        for (auto* const server : servers_) granted_ += lock_on(*server, ttl) ? 1 : 0;
        auto const passed = std::chrono::duration<double, std::milli>(steady::now() - start);
        auto const length = static_cast<double>(ttl.count());
        auto const validity = length - passed.count() - (length * 0.01 + 2);
        if (granted_ >= quorum_ && validity > 0) return true;
        unlock();
        std::uniform_int_distribution delay(retry_delay / 2, retry_delay);
        std::this_thread::sleep_for(milliseconds(delay(random)));
    }
    return false;
}

void sequential_redlock::unlock() {
    for (auto* const server : servers_) {
        try {
            server->send({"EVAL", compare_and_delete, "1", key_, token_});
        } catch (holdfast::test::cli_error const&) {
            // The next one is asked all the same.
        }
    }
}

//
// Its stories
//

namespace {

sequential_redlock::clock const this_machine = [] {
    return std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::system_clock::now().time_since_epoch());
};

/// The connections of a client to all servers.
struct older_client {
    older_client(several_servers& s, std::string const& name,
                 sequential_redlock::clock now = this_machine)
        : lock(connect(s, name), seat, std::move(now)) {}

    std::vector<wire*> connect(several_servers& s, std::string const& name) {
        std::vector<wire*> all;
        for (std::size_t i = 0; i < s.ports.size(); ++i) {
            auto const at = name + " to " + std::to_string(i);
            wires.push_back(std::make_unique<wire>(s.story, at, s.ports[i]));
            all.push_back(wires.back().get());
        }
        return all;
    }

    std::vector<std::unique_ptr<wire>> wires{};
    sequential_redlock lock;
};

/// A minority of the servers is down.
void show_the_quorum(journal& j, std::size_t instances, std::size_t down) {
    several_servers s(j, instances);
    auto const counts = std::to_string(down) + " of " + std::to_string(instances);
    j.section("The older way, with " + counts + " servers down");
    auto a = s.client("A");
    a.connect(instances);
    s.servers.kill(down);
    older_client older(s, "A");
    auto const got = older.lock.try_lock(long_ttl);
    auto const votes = older.lock.granted();
    j.hazard(!got && votes == static_cast<int>(instances - down),
             "a majority grants, and the lock fails: its quorum is one server more");
    s.clear();
    j.section("The same schedule with holdfast");
    auto const held = a.acquire(seat, {.ttl = long_ttl});
    j.safe(held.held(), "a majority is enough");
}

/// A server answers, and takes as long as the lease lasts.
void show_a_slow_server(journal& j) {
    constexpr auto ttl = 500ms;
    several_servers s(j, 3);
    holdfast::test::proxy slow(s.servers[0]);
    slow.delay_replies(ttl);
    s.ports[0] = slow.port();
    s.urls[0] = slow.url();
    j.section("The older way, with a server whose answers take 500 ms, as long as the lease");
    older_client older(s, "A");
    auto const got = older.lock.try_lock(ttl);
    j.hazard(!got && older.lock.granted() == 3,
             "the slow server eats the validity, and the lock fails although all grant");
    s.clear();
    j.section("The same schedule with holdfast");
    auto a = s.client("A");
    a.connect(2);
    auto const held = a.acquire(seat, {.ttl = ttl});
    j.safe(static_cast<bool>(held), "the two others are a quorum, and nobody waits for the third");
}

/// Two machines ask for a token in the same microsecond.
void show_equal_tokens(several_servers& s) {
    auto& j = s.story;
    {
        j.section("The older way, with two tokens of the same microsecond");
        sequential_redlock::clock const moment = [] { return 1'800'000'000'000'000us; };
        older_client a(s, "A", moment), b(s, "B", moment);
        auto const a_has_it = a.lock.try_lock(long_ttl);
        auto const b_has_it = b.lock.try_lock(long_ttl);
        j.hazard(a_has_it && b_has_it,
                 "B has deleted the lock of A when its first try failed: A and B both hold it");
    }
    s.clear();
    j.section("The same schedule with holdfast");
    auto a = s.client("A");
    auto b = s.client("B");
    a.connect(3);
    b.connect(3);
    auto held = a.acquire(seat, {.ttl = long_ttl});
    a.run_until("the last vote", [&] { return s.values().count("no key") == 0; });
    auto const of_a = s.values();
    auto const [first, none] = b.try_acquire(seat, {.ttl = long_ttl});
    auto const [second, nothing] = b.try_acquire(seat, {.ttl = long_ttl});
    j.safe(first == holdfast::errc::contended && second == holdfast::errc::contended &&
               held.held() && of_a.size() == 1 && s.values() == of_a,
           "B is refused, and A has its lock on all servers");
    a.release(held);
    auto const next = b.acquire(seat, {.ttl = long_ttl});
    b.run_until("the last vote",
                [&] { return s.values().count("no key") == 0 && s.values().size() == 1; });
    j.safe(s.values() != of_a, "the tokens of A and B differ: each has 128 random bits");
}

/// The work takes longer than the lease.
void show_long_work(several_servers& s) {
    constexpr auto ttl = 3'000ms;
    auto& j = s.story;
    {
        j.section("The older way, with work of more than a ttl");
        older_client a(s, "A"), b(s, "B");
        auto const a_has_it = a.lock.try_lock(500ms);
        j.line("A", "works for longer than 500 ms, and cannot extend its lease");
        wait_for("the expiry of the key", [&] { return s.is_free(); });
        auto const b_has_it = b.lock.try_lock(long_ttl);
        j.hazard(a_has_it && b_has_it, "the lease of A has ended: A and B both hold the lock");
    }
    s.clear();
    j.section("The same schedule with holdfast");
    auto a = s.client("A");
    auto b = s.client("B");
    b.connect(3);
    auto held = a.acquire(seat, {.ttl = ttl});
    holdfast::test::redis_cli witness(s.servers[0]);
    witness.set("hourglass", "", ttl);
    j.line("A", "works for longer than 3000 ms");
    a.run_until("the end of a ttl", [&] { return !witness.exists("hourglass"); });
    auto const [refused, none] = b.try_acquire(seat, {.ttl = ttl});
    j.safe(held.held() && refused == holdfast::errc::contended,
           "a watchdog has extended the lease of A, and B is refused");
}

} // namespace

void show_sequential_redlock(journal& j, circumstances const&) {
    show_the_quorum(j, 3, 1);
    show_the_quorum(j, 5, 2);
    show_a_slow_server(j);
    several_servers s(j, 3);
    show_equal_tokens(s);
    s.clear();
    show_long_work(s);
}

} // namespace tour
