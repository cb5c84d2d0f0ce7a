// What counts as a stall, which stalls are told, and which leases they end.
#include "runtime/services/stall_record.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>

using holdfast::lease_clock;
using holdfast::stall_threshold;
using holdfast::runtime::stall_record;
using namespace std::chrono_literals;

namespace {

constexpr lease_clock::time_point start{1h};

/// A stall of this length that ends at `start`.
bool note(stall_record& r, lease_clock::duration length) {
    return r.note(start - length, start);
}

} // namespace

BOOST_AUTO_TEST_SUITE(stall_records)

BOOST_AUTO_TEST_CASE(a_delay_below_the_threshold_is_no_stall) {
    stall_record r;
    BOOST_TEST(!note(r, stall_threshold - 1ns));
    BOOST_TEST((r.longest() == 0ns));
    BOOST_TEST((r.last() == 0ns));
    BOOST_TEST(note(r, stall_threshold));
    BOOST_TEST((r.longest() == stall_threshold));
}

BOOST_AUTO_TEST_CASE(work_that_is_not_due_yet_is_not_late) {
    stall_record r;
    BOOST_TEST(!r.note(start + 1h, start));
    BOOST_TEST(!r.note(lease_clock::time_point::max(), start)); // there is no work
    BOOST_TEST((r.longest() == 0ns));
}

BOOST_AUTO_TEST_CASE(an_observer_is_told_of_the_first_and_then_of_each_twice_as_long) {
    stall_record r;
    BOOST_TEST(note(r, 200ms));
    BOOST_TEST(!note(r, 200ms));
    BOOST_TEST(!note(r, 400ms)); // not more than twice
    BOOST_TEST(note(r, 401ms));
    BOOST_TEST(!note(r, 800ms)); // told before: 401 ms
    BOOST_TEST(note(r, 803ms));
    BOOST_TEST(!note(r, 100ms));
}

BOOST_AUTO_TEST_CASE(the_longest_and_the_last_are_kept_whether_told_or_not) {
    stall_record r;
    note(r, 200ms);
    BOOST_TEST(!note(r, 350ms));
    BOOST_TEST((r.longest() == 350ms));
    BOOST_TEST((r.last() == 350ms));
    note(r, 150ms);
    BOOST_TEST((r.longest() == 350ms));
    BOOST_TEST((r.last() == 150ms));
    note(r, 99ms);
    BOOST_TEST((r.last() == 150ms));
}

// The extensions of a lease were due long before its deadline, and the loss is told a little before
// it.
BOOST_AUTO_TEST_CASE(a_stall_is_behind_the_leases_whose_deadlines_are_near) {
    stall_record r;
    BOOST_TEST((r.behind(start, start - 1h) == 0ns));
    note(r, 2s);
    BOOST_TEST((r.behind(start - 2s - 1ns, start - 1h) == 0ns));
    BOOST_TEST((r.behind(start - 2s, start - 1h) == 2s));
    BOOST_TEST((r.behind(start, start - 1h) == 2s));
    BOOST_TEST((r.behind(start + 2s, start - 1h) == 2s));
    BOOST_TEST((r.behind(start + 2s + 1ns, start - 1h) == 0ns));
    r.note(start + 1min - 500ms, start + 1min);
    BOOST_TEST((r.behind(start, start - 1h) == 0ns)); // only the last stall
    BOOST_TEST((r.behind(start + 1min, start) == 500ms));
}

BOOST_AUTO_TEST_SUITE_END()
