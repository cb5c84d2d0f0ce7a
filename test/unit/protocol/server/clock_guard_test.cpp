// The clock guard reads a server's clock now and then. It must tell a jump ahead from delay and
// drift.
#include "protocol/server/clock_guard.hpp"

#include "unit/protocol/protocol_values.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <cstdint>

using namespace std::chrono_literals;
namespace protocol = holdfast::protocol;
using protocol::duration;
using protocol::time_point;

namespace {

using holdfast::test::at;

constexpr duration none = duration::zero();
constexpr duration longest = 10s;
constexpr duration epoch = 1'700'000'000s; // of the server's clock, unlike the client's
constexpr std::int64_t half_a_percent = 4'500;

/// A server whose clock can be set and drifts, and a client that asks for its time.
struct pair_of_clocks {
    protocol::clock_guard guard{longest};
    duration ahead{};            ///< how far the server's clock was set ahead
    std::int64_t server_ppm = 0; ///< parts per million too fast
    std::int64_t client_ppm = 0;

    static duration run(duration t, std::int64_t ppm) { return t + t / 1'000'000 * ppm; }

    /// The jump that the guard sees. In true time: the question leaves at `sent`, the server reads
    /// its clock at `read`, and the answer arrives at `received`.
    duration ask_time(duration sent, duration read, duration received) {
        return guard.on_time(at(run(sent, client_ppm)), at(run(received, client_ppm)),
                             epoch + ahead + run(read, server_ppm));
    }
    /// Asks with no delay.
    duration ask_time(duration when) { return ask_time(when, when, when); }
};

} // namespace

BOOST_AUTO_TEST_SUITE(clock_guard)

BOOST_AUTO_TEST_CASE(the_first_look_tells_nothing) {
    for (duration const ahead : {-1h, 0h, 1h}) {
        pair_of_clocks c;
        c.ahead = ahead;
        BOOST_TEST((c.ask_time(0s, 1s, 5s) == none));
    }
}

BOOST_AUTO_TEST_CASE(a_clock_that_keeps_time_never_jumps) {
    pair_of_clocks c;
    for (auto n = 0; n < 1'000; ++n)
        BOOST_TEST((c.ask_time(n * 1s, n * 1s + 1ms, n * 1s + 3ms) == none));
}

// The guard reports a jump only if drift cannot explain it. Drift is at most 1 % of the time
// between two readings, plus 2 ms.
BOOST_AUTO_TEST_CASE(a_jump_is_noticed_from_the_least_amount_on_that_drift_cannot_explain) {
    for (duration const gap : {duration(1ms), duration(1s), duration(5s), longest}) {
        auto const drift = gap / 100 + 2ms;
        for (auto const over : {duration(-1ns), none, duration(1ns), duration(1s)}) {
            pair_of_clocks c;
            c.ask_time(0s);
            c.ahead = drift + over;
            BOOST_TEST_CONTEXT("after " << gap.count() << " ns, " << over.count()
                                        << " more than drift") {
                BOOST_TEST((c.ask_time(gap) == (over > none ? drift + over : none)));
            }
        }
    }
}

// A reading is uncertain by the duration of its question: the server may have read its clock at
// either end.
BOOST_AUTO_TEST_CASE(what_the_answers_took_is_taken_off) {
    struct {
        duration read_first, read_then; ///< when the server reads, within the 10 ms of the answer
        duration open;                  ///< the part of a jump that the delays may explain
    } constexpr table[] = {
        {0ms, 0ms, 10ms},
        {0ms, 10ms, 0ms},
        {10ms, 0ms, 20ms},
        {10ms, 10ms, 10ms},
    };
    // Between the two clock readings lie 1,000 ms to 1,020 ms.
    duration const least_drift = 10ms + 2ms, most_drift = 10'200us + 2ms;
    for (auto const& row : table) {
        auto const found = [&row](duration jump) {
            pair_of_clocks c;
            c.ask_time(0ms, row.read_first, 10ms);
            c.ahead = jump;
            return c.ask_time(1'010ms, 1'010ms + row.read_then, 1'020ms) > none;
        };
        BOOST_TEST_CONTEXT("read after " << row.read_first.count() << " and "
                                         << row.read_then.count()) {
            BOOST_TEST(!found(row.open + least_drift));
            BOOST_TEST(found(row.open + most_drift + 1ns));
        }
    }
}

BOOST_AUTO_TEST_CASE(a_jump_is_told_once) {
    pair_of_clocks c;
    c.ask_time(0s);
    c.ahead = 120s;
    BOOST_TEST((c.ask_time(1s) == 120s));
    for (auto n = 2; n < 10; ++n) BOOST_TEST((c.ask_time(n * 1s) == none));
    c.ahead += 1s;
    BOOST_TEST((c.ask_time(10s) == 1s));
}

BOOST_AUTO_TEST_CASE(a_slow_answer_makes_no_alarm_wherever_the_server_read_its_clock) {
    for (duration const took : {duration(1s), duration(10s), duration(100s)}) {
        for (auto const part : {0, 1, 2}) {
            for (auto const next : {0, 1, 2}) {
                pair_of_clocks c;
                c.ask_time(0s);
                BOOST_TEST((c.ask_time(1s, 1s + took * part / 2, 1s + took) == none));
                auto const t = 2s + took;
                BOOST_TEST((c.ask_time(t, t + took * next / 2, t + took) == none));
                BOOST_TEST((c.ask_time(t + took + 1s) == none));
            }
        }
    }
}

// The clocks drift apart at the allowed rate. The time between two clock readings may be longer
// than the time between their answers.
BOOST_AUTO_TEST_CASE(slow_answers_and_drift_together_make_no_alarm) {
    for (auto const ppm : {-half_a_percent, half_a_percent}) {
        for (duration const took : {duration(500ms), duration(1s), duration(5s)}) {
            for (auto const first : {0, 1, 2}) {
                for (auto const next : {0, 1, 2}) {
                    pair_of_clocks c;
                    c.server_ppm = ppm;
                    c.client_ppm = -ppm;
                    c.ask_time(0s);
                    c.ask_time(1s);
                    BOOST_TEST_CONTEXT("ppm " << ppm << ", took " << took.count() << ", read at "
                                              << first << '/' << next) {
                        BOOST_TEST((c.ask_time(2s, 2s + took * first / 2, 2s + took) == none));
                        auto const t = 2s + took + 1ms;
                        BOOST_TEST((c.ask_time(t, t + 1ms * next / 2, t + 1ms) == none));
                    }
                }
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(a_slow_answer_does_not_spoil_what_was_known) {
    pair_of_clocks c;
    c.ask_time(0s);
    BOOST_TEST((c.ask_time(1s, 1s, 6s) == none)); // the clock could be 5 s ahead
    c.ahead = 1s;
    BOOST_TEST((c.ask_time(7s) > none));
}

BOOST_AUTO_TEST_CASE(a_jump_behind_a_slow_answer_is_noticed_by_the_next_quick_one) {
    for (auto const part : {0, 1, 2}) {
        pair_of_clocks c;
        c.ask_time(0s);
        c.ahead = 3s;
        auto const at_once = c.ask_time(1s, 1s + 5s * part / 2, 6s);
        BOOST_TEST((at_once > none) ==
                   (part == 2)); // the server read its clock just before the answer came
        BOOST_TEST((c.ask_time(7s) > none) == (part != 2));
    }
}

BOOST_AUTO_TEST_CASE(a_jump_back_endangers_nobody) {
    pair_of_clocks c;
    c.ask_time(0s);
    c.ahead = -120s;
    BOOST_TEST((c.ask_time(1s) == none));
    BOOST_TEST((c.ask_time(2s) == none));
}

// Keys that were set while the clock was back expire early.
BOOST_AUTO_TEST_CASE(the_jump_back_to_the_old_time_is_a_jump_ahead) {
    pair_of_clocks c;
    c.ask_time(0s);
    c.ahead = -120s;
    c.ask_time(1s);
    c.ahead = 0s;
    BOOST_TEST((c.ask_time(2s) == 120s));
    BOOST_TEST((c.ask_time(3s) == none));
}

BOOST_AUTO_TEST_CASE(what_goes_and_comes_back_between_two_looks_is_not_seen) {
    for (duration const there : {-120s, 120s}) {
        pair_of_clocks c;
        c.ask_time(0s);
        c.ahead = there;
        c.ahead = 0s;
        BOOST_TEST((c.ask_time(1s) == none));
    }
}

BOOST_AUTO_TEST_CASE(drift_within_the_bound_is_never_a_jump_however_long_it_adds_up) {
    for (auto const ppm : {-half_a_percent, half_a_percent}) {
        for (duration const gap : {duration(100ms), duration(1s), longest}) {
            pair_of_clocks c;
            c.server_ppm = ppm;
            c.client_ppm = -ppm;
            for (auto n = 0; n < 2'000; ++n) BOOST_TEST((c.ask_time(n * gap) == none));
        }
    }
}

BOOST_AUTO_TEST_CASE(a_clock_that_runs_two_hundredths_fast_jumps) {
    pair_of_clocks c;
    c.server_ppm = 20'000;
    duration seen = none;
    for (auto n = 0; n < 60; ++n) seen += c.ask_time(n * 1s);
    BOOST_TEST((seen > none));
}

// No key is older than the longest ttl, so the guard allows no more drift than that. Therefore
// drift alone can look like a jump after a long absence, and costs one quarantine.
BOOST_AUTO_TEST_CASE(after_a_long_absence_drift_is_allowed_for_the_longest_ttl_only) {
    auto const allowed = longest / 100 + 2ms;
    for (duration const gap : {longest, duration(1min), duration(24h), duration(365 * 24h)}) {
        pair_of_clocks c;
        c.ask_time(0s);
        c.ahead = allowed;
        BOOST_TEST((c.ask_time(gap) == none));
        pair_of_clocks d;
        d.ask_time(0s);
        d.ahead = allowed + 1ns;
        BOOST_TEST((d.ask_time(gap) > none));
    }
    pair_of_clocks slow;
    slow.server_ppm = 1'000;
    slow.ask_time(0s);
    BOOST_TEST((slow.ask_time(1h) > none)); // drift of 3.6 s
    BOOST_TEST((slow.ask_time(1h + 1s) == none));
}

BOOST_AUTO_TEST_SUITE_END()
