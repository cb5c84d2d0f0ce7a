// When a caller that waits for changes of a key asks the instances again.
#include "protocol/key/change_watch.hpp"

#include "unit/protocol/protocol_values.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <optional>

using namespace holdfast::protocol;
using namespace std::chrono_literals;

namespace {

using holdfast::test::at;

constexpr std::optional<duration> never = std::nullopt;
constexpr std::optional<duration> gone = duration(-1);

/// Of three instances.
struct fixture {
    /// A round of instances that all have the key, or all have not, and push.
    void round(duration now, std::optional<duration> left, bool push = true) {
        w.begin(at(now), instance_set::first(3), 0);
        for (unsigned i = 0; i < 3; ++i) {
            found[i] = w.registered(at(now), i, push, left);
            complete = w.answered(at(now), i, left == gone ? never : left);
        }
    }
    duration next(bool soon = false) const { return w.next(soon) - at(0ms); }

    change_watch w;
    breach found[3]{};
    bool complete = false;
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(change_watch, fixture)

BOOST_AUTO_TEST_CASE(a_round_is_complete_when_all_have_answered) {
    w.begin(at(0ms), instance_set::first(2), 0);
    BOOST_TEST(w.in_round());
    BOOST_TEST(!w.answered(at(1ms), 0, never));
    BOOST_TEST(!w.is_pending(0));
    BOOST_TEST(w.is_pending(1));
    BOOST_TEST(w.answered(at(1ms), 1, never));
    BOOST_TEST(!w.in_round());
}

BOOST_AUTO_TEST_CASE(with_pushes_the_next_round_is_far) {
    round(0ms, never);
    BOOST_TEST(complete);
    BOOST_TEST((next() == change_rules::recheck));
}

BOOST_AUTO_TEST_CASE(one_instance_without_pushes_is_polled) {
    w.begin(at(0ms), instance_set::first(3), 0);
    for (unsigned i = 0; i < 3; ++i) {
        w.registered(at(0ms), i, i != 1, never);
        w.answered(at(0ms), i, never);
    }
    BOOST_TEST((next() == change_rules::poll_interval));
}

// The answer to the question came, but not the one to the registration.
BOOST_AUTO_TEST_CASE(an_instance_that_was_not_asked_to_push_is_polled) {
    w.begin(at(0ms), instance_set::first(2), 0);
    w.registered(at(0ms), 0, true, never);
    w.answered(at(0ms), 0, never);
    w.answered(at(0ms), 1, never);
    w.registered(at(0ms), 1, true, never); // too late: its state is older
    BOOST_TEST((next() == change_rules::poll_interval));
}

BOOST_AUTO_TEST_CASE(a_push_begins_a_round_soon_and_not_at_once) {
    round(0ms, never);
    BOOST_TEST(w.changed(2));
    BOOST_TEST((next() == change_rules::least_pause));
    // Only the first push of a registration tells something.
    BOOST_TEST(!w.changed(2));
    round(10ms, never);
    BOOST_TEST((next() == 10ms + change_rules::recheck));
}

BOOST_AUTO_TEST_CASE(a_push_before_the_registration_is_old) {
    round(0ms, never);
    w.begin(at(20ms), instance_set::first(3), 0);
    BOOST_TEST(!w.changed(0));
    w.registered(at(20ms), 0, true, never);
    BOOST_TEST(w.changed(0)); // but one after it is new, also while others are to answer
    for (unsigned i = 0; i < 3; ++i) w.answered(at(20ms), i, never);
    BOOST_TEST((next() == 20ms + change_rules::least_pause));
}

BOOST_AUTO_TEST_CASE(an_expiry_is_asked_for) {
    round(0ms, 3s);
    BOOST_TEST((next() == 3s + 1ms));
    round(3s, gone);
    BOOST_TEST((next() == 3s + change_rules::recheck));
    // A key that is about to expire is not asked for all the time.
    round(5s, 0ms);
    BOOST_TEST((next() == 5s + change_rules::least_pause));
}

BOOST_AUTO_TEST_CASE(an_instance_that_comes_or_goes_is_asked_for) {
    round(0ms, never);
    w.came_or_went(1);
    BOOST_TEST((next() == change_rules::least_pause));
}

BOOST_AUTO_TEST_CASE(a_new_caller_waits_for_no_longer_than_a_pause) {
    round(0ms, never);
    BOOST_TEST((next(true) == change_rules::least_pause));
}

BOOST_AUTO_TEST_CASE(rounds_of_many_processes_spread) {
    w.begin(at(0ms), {}, 4'999'999);
    BOOST_TEST((next(true) > change_rules::least_pause));
    BOOST_TEST((next(true) < 2 * change_rules::least_pause));
}

BOOST_AUTO_TEST_CASE(a_change_without_its_push_is_a_breach) {
    round(0ms, never);
    round(10s, gone);
    for (auto const f : found) BOOST_TEST((f == breach::certain));
    // A key that appears, too: the instance was asked when there was none.
    round(20s, never);
    for (auto const f : found) BOOST_TEST((f == breach::certain));
    round(30s, never);
    for (auto const f : found) BOOST_TEST((f == breach::none));
}

BOOST_AUTO_TEST_CASE(a_change_that_was_pushed_is_no_breach) {
    round(0ms, never);
    for (unsigned i = 0; i < 3; ++i) BOOST_TEST(w.changed(i));
    round(10ms, gone);
    for (auto const f : found) BOOST_TEST((f == breach::none));
    for (unsigned i = 0; i < 3; ++i) BOOST_TEST(w.changed(i));
    round(20ms, never);
    for (auto const f : found) BOOST_TEST((f == breach::none));
    // Nor is one over a new connection, or where none was promised.
    for (unsigned i = 0; i < 3; ++i) w.came_or_went(i);
    round(10s, gone, false);
    for (auto const f : found) BOOST_TEST((f == breach::none));
    round(20s, never);
    for (auto const f : found) BOOST_TEST((f == breach::none));
}

BOOST_AUTO_TEST_SUITE_END()
