#include "tour/deadline_as_value.hpp"

#include "support/proxy.hpp"
#include "support/shifted_clock.hpp"
#include "support/swept_folder.hpp"
#include "tour/rows.hpp"
#include "tour/single_server.hpp"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

using namespace std::chrono_literals;

namespace tour {

namespace {

constexpr std::int64_t noon = 1'800'000'000'000;
constexpr std::int64_t hour = 3'600'000;

/// The machine of B is an hour ahead.
void show_apart_clocks(single_server& s) {
    auto& j = s.story;
    j.section("The older way, with clocks that differ");
    s.witness.del(seat);
    auto a = s.older_client("A");
    auto b = s.older_client("B");
    deadline_as_value of_a(a, seat, [] { return noon; });
    deadline_as_value of_b(b, seat, [] { return noon + hour; });
    j.note("the clock of B is an hour ahead");
    auto const a_has_it = of_a.try_lock(long_ttl);
    auto const b_has_it = of_b.try_lock(long_ttl);
    j.hazard(a_has_it && b_has_it,
             "B takes the deadline of A for past: A and B both hold the lock");
}

/// A crashed holder has left a deadline. The clocks agree.
void show_a_loser(single_server& s) {
    auto& j = s.story;
    j.section("The older way, with a loser that is slow");
    s.witness.set(seat, std::to_string(noon - 1));
    j.note("a client has crashed, and its deadline is past");
    auto now = noon;
    auto const clock = [&] { return now; };
    auto a = s.older_client("A");
    auto b = s.older_client("B");
    auto c = s.older_client("C");
    deadline_as_value of_a(a, seat, clock), of_b(b, seat, clock), of_c(c, seat, clock);
    auto b_has_it = false;
    a.pause_before("GETSET", [&] {
        now += 30'000;
        j.note("30 s pass on all clocks");
        b_has_it = of_b.try_lock(long_ttl);
    });
    auto const a_has_it = of_a.try_lock(long_ttl);
    now += 31'000;
    j.note("31 s pass on all clocks: the lease of B has 29 s left");
    auto const c_has_it = of_c.try_lock(long_ttl);
    j.hazard(!a_has_it && b_has_it && c_has_it,
             "A, which lost, has overwritten the deadline of B: B and C both hold the lock");
}

void show_two_deletes(single_server& s) {
    auto& j = s.story;
    j.section("The older way, with DEL and SETNX instead of GETSET");
    s.witness.set(seat, std::to_string(noon - 1));
    j.note("a client has crashed, and its deadline is past");
    auto a = s.older_client("A");
    auto b = s.older_client("B");
    deadline_deleted of_a(a, seat, [] { return noon; });
    deadline_deleted of_b(b, seat, [] { return noon; });
    auto b_has_it = false;
    a.pause_before("DEL", [&] { b_has_it = of_b.try_lock(long_ttl); });
    auto const a_has_it = of_a.try_lock(long_ttl);
    j.hazard(a_has_it && b_has_it, "A has deleted the lock of B: A and B both hold the lock");
}

/// "clock in ms, result of try_acquire" of another process, by the clock that `environment` gives.
std::string try_elsewhere(circumstances const& c, std::vector<std::string> const& environment,
                          std::string const& url) {
    // The library that shifts the clock comes before a sanitizer's, which would complain.
    std::string command = "env ASAN_OPTIONS=verify_asan_link_order=0";
    for (auto const& variable : environment) command += " '" + variable + "'";
    command += " '" + c.program + "' --try '" + url + "' " + seat;
    auto* const pipe = ::popen(command.c_str(), "r");
    if (pipe == nullptr) throw std::runtime_error("cannot start " + c.program);
    std::string said;
    char buffer[256];
    while (auto const n = std::fread(buffer, 1, sizeof buffer, pipe)) said.append(buffer, n);
    ::pclose(pipe);
    return said;
}

void show_apart_clocks_with_holdfast(single_server& s, circumstances const& c) {
    auto& j = s.story;
    auto a = s.client("A");
    auto held = a.acquire(seat, {.ttl = long_ttl});
    holdfast::test::swept_folder folder;
    holdfast::test::shifted_clock ahead(folder.path());
    ahead.advance(1h);
    auto const here = std::chrono::system_clock::now();
    std::istringstream said(try_elsewhere(c, ahead.environment(), s.instance.url()));
    std::int64_t there = 0;
    std::string result;
    said >> there >> result;
    show(j, {&s.log});
    auto const apart = std::chrono::milliseconds(there) - here.time_since_epoch();
    auto const hour_ahead = apart > 59min && apart < 120min;
    j.line("B", "try_acquire()  -> " + result);
    j.safe(hour_ahead && result == "contended" && held.held(),
           "the clock of B is an hour ahead, and B is refused: no client compares wall clocks");
}

void show_a_slow_rival_with_holdfast(single_server& s) {
    constexpr auto ttl = 1'000ms;
    auto& j = s.story;
    holdfast::test::proxy line(s.instance);
    auto a = s.client_at(line.url(), "A");
    auto b = s.client("B");
    auto c = s.client("C");
    a.connect();
    b.connect();
    c.connect();
    {
        auto crashes = s.client("X");
        auto const left = crashes.acquire(seat, {.ttl = ttl, .watchdog = false});
        crashes.crash();
    }
    s.wait_for_expiry();
    line.hold_requests();
    auto const slow = a.begin_try(seat, {.ttl = long_ttl});
    a.run_until("the command of A", [&] { return line.commands_held() > 0; });
    j.line("A", "tries, and the command is on its way");
    auto held = b.acquire(seat, {.ttl = long_ttl});
    auto const owner = s.value();
    line.resume();
    a.finish(*slow);
    auto const left = s.pttl();
    auto const [refused, none] = c.try_acquire(seat, {.ttl = long_ttl});
    j.safe(slow->how == holdfast::errc::contended && s.value() == owner && left > 0ms,
           "A, which lost, has changed neither owner nor ttl");
    j.safe(held.held() && refused == holdfast::errc::contended, "B has its lock, and C is refused");
}

} // namespace

void show_deadline_as_value(journal& j, circumstances const& c) {
    single_server s(j);
    show_apart_clocks(s);
    show_a_loser(s);
    show_two_deletes(s);
    s.begin_with_holdfast();
    show_apart_clocks_with_holdfast(s, c);
    s.begin_with_holdfast();
    show_a_slow_rival_with_holdfast(s);
}

} // namespace tour
