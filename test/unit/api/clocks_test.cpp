// The lease clock on a system that refuses one of the clocks: it never stands still.
#include <holdfast/clock.hpp>

#include "api/clock_choice.hpp"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

using namespace holdfast;
using namespace std::chrono_literals;
using std::chrono::nanoseconds;

namespace {

/// The clock that clock_gettime refuses in this program, as a sandbox does.
std::atomic<clockid_t> refused_clock{-1};

struct fake_clocks {
    struct state {
        nanoseconds boot = 100s, monotonic = 40s; ///< the machine was suspended for 60 s
        bool refuses_boot = false, refuses_monotonic = false;
    };
    state* of = nullptr;

    int operator()(clockid_t id, timespec* to) const noexcept {
        auto const is_boot = id == CLOCK_BOOTTIME;
        if (is_boot ? of->refuses_boot : of->refuses_monotonic) return -1;
        auto const t = is_boot ? of->boot : of->monotonic;
        to->tv_sec = static_cast<time_t>(t / 1s);
        to->tv_nsec = static_cast<long>((t % 1s).count());
        return 0;
    }
};

struct fixture {
    fake_clocks::state system;
    clock_choice<fake_clocks> made() { return clock_choice<fake_clocks>(fake_clocks{&system}); }
};

/// Runs `works` in a child process, as each process chooses its clock once.
bool in_a_child(std::function<bool()> const& works) {
    auto const pid = ::fork();
    BOOST_REQUIRE(pid >= 0);
    if (pid == 0) ::_exit(works() ? 0 : 1);
    int status = 0;
    BOOST_REQUIRE(::waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool moves_on() {
    auto const before = lease_clock::now();
    for (auto n = 0; n < 1'000'000; ++n) {
        auto const now = lease_clock::now();
        if (now < before) return false;
        if (now > before) return true;
    }
    return false;
}

} // namespace

// Replaces the function of the C library in this program.
extern "C" int clock_gettime(clockid_t id, timespec* to) noexcept {
    if (id == refused_clock.load(std::memory_order_relaxed)) {
        errno = EPERM;
        return -1;
    }
    return static_cast<int>(::syscall(SYS_clock_gettime, id, to));
}

BOOST_AUTO_TEST_SUITE(clocks)

BOOST_FIXTURE_TEST_CASE(suspends_count, fixture) {
    auto c = made();
    BOOST_TEST((c.now() == 100s));
    system.boot += 1h;
    BOOST_TEST((c.now() == 100s + 1h));
}

BOOST_FIXTURE_TEST_CASE(a_clock_that_is_refused_from_the_start_is_replaced, fixture) {
    system.refuses_boot = true;
    auto c = made();
    BOOST_TEST((c.now() == 40s));
    system.monotonic += 1ms;
    BOOST_TEST((c.now() == 40s + 1ms));
    // The choice is final: the other clock shows a different time.
    system.refuses_boot = false;
    BOOST_TEST((c.now() == 40s + 1ms));
}

BOOST_FIXTURE_TEST_CASE(a_clock_that_is_refused_later_is_continued, fixture) {
    auto c = made();
    system.boot += 5s;
    system.monotonic += 5s;
    BOOST_TEST((c.now() == 105s));
    system.refuses_boot = true;
    BOOST_TEST((c.now() == 105s));
    system.monotonic += 1ns;
    BOOST_TEST((c.now() == 105s + 1ns));
}

BOOST_FIXTURE_TEST_CASE(a_clock_that_is_refused_after_a_suspend_does_not_go_back, fixture) {
    auto c = made();
    system.boot += 1h;
    system.monotonic += 1s;
    auto const before = c.now();
    system.boot += 999us; // less than 1 ms later, so the clock does not store it
    auto const last = c.now();
    system.refuses_boot = true;
    auto const after = c.now();
    BOOST_TEST((after >= last && after <= before + 1ms));
    system.monotonic += 1s;
    BOOST_TEST((c.now() == after + 1s));
}

BOOST_FIXTURE_TEST_CASE(without_any_clock_all_leases_are_over, fixture) {
    auto c = made();
    auto const longest_lease = c.now() + 24h * 366;
    system.refuses_boot = system.refuses_monotonic = true;
    auto before = c.now();
    BOOST_TEST((before > longest_lease));
    for (auto n = 0; n < 100; ++n) {
        auto const now = c.now();
        BOOST_TEST((now >= before + 24h)); // 24 h is the longest ttl
        before = now;
    }
    fixture never;
    never.system.refuses_boot = never.system.refuses_monotonic = true;
    auto none = never.made();
    before = none.now();
    BOOST_TEST((none.now() >= before + 24h));
}

BOOST_AUTO_TEST_CASE(the_clock_of_leases_moves_on_though_the_system_refuses_it) {
    BOOST_TEST(in_a_child(moves_on));
    BOOST_TEST(in_a_child([] {
        auto const before = lease_clock::now();
        refused_clock = clock_choice<fake_clocks>::first_id;
        return moves_on() && lease_clock::now() - before < 1min;
    }));
}

BOOST_AUTO_TEST_SUITE_END()
