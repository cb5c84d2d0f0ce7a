// Whether an instance that promised to push does so.
#include "protocol/waiting/push_trust.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <optional>

using namespace holdfast::protocol;
using namespace std::chrono_literals;

namespace {

constexpr time_point start{1h};
constexpr duration gone = -1ms;
using trust = holdfast::protocol::push_trust;

/// The instance 3 has promised to tell of a key that expires in 10 s, or never.
push_promise promised(std::optional<duration> left = 10s) {
    push_promise p;
    p.made(3, start, start, left);
    return p;
}

breach after(duration when, std::optional<duration> left, std::optional<duration> before = 10s) {
    return promised(before).answered(3, start + when, start + when, left);
}

} // namespace

BOOST_AUTO_TEST_SUITE(push_trust)

BOOST_AUTO_TEST_CASE(a_key_that_went_early_or_lasts_for_longer_has_changed) {
    BOOST_TEST((after(4s, gone) == breach::certain));
    BOOST_TEST((after(4s, 10s) == breach::certain)); // extended
    BOOST_TEST((after(4s, 5s) == breach::certain));
    BOOST_TEST((after(4s, std::nullopt) == breach::certain));
    BOOST_TEST((after(4s, 1h, std::nullopt) == breach::certain));
    BOOST_TEST((after(4s, gone, std::nullopt) == breach::certain));
}

BOOST_AUTO_TEST_CASE(a_key_that_went_when_it_was_to_expire_may_have_changed) {
    for (duration const when : {duration(9750ms), duration(10s), duration(1h)}) {
        BOOST_TEST((after(when, gone) == breach::possible));
    }
    BOOST_TEST((after(9749ms, gone) == breach::certain));
}

BOOST_AUTO_TEST_CASE(a_key_that_is_as_it_was_has_not) {
    BOOST_TEST((after(4s, 6s) == breach::none));
    for (auto const by : {-250ms, -1ms, 1ms, 250ms}) {
        BOOST_TEST((after(4s, 6s + by) == breach::none));
    }
    BOOST_TEST((after(4s, 6s + 251ms) == breach::certain));
    BOOST_TEST((after(4s, std::nullopt, std::nullopt) == breach::none));
}

// This process stood still for 3 s before it read the first answer, or the second.
BOOST_AUTO_TEST_CASE(an_answer_that_is_read_late_shows_no_change) {
    push_promise p;
    p.made(3, start, start + 3s, 10s);
    BOOST_TEST((p.answered(3, start + 4s, start + 4s, 6s) == breach::none));
    p.made(3, start, start, 10s);
    BOOST_TEST((p.answered(3, start + 1s, start + 4s, 9s) == breach::none));
    p.made(3, start, start + 3s, 10s);
    BOOST_TEST((p.answered(3, start + 4s, start + 4s, 9251ms) == breach::certain));
    p.made(3, start, start + 3s, 10s);
    BOOST_TEST((p.answered(3, start + 9749ms, start + 9749ms, gone) == breach::certain));
    p.made(3, start, start + 3s, 10s);
    BOOST_TEST((p.answered(3, start + 9s, start + 9750ms, gone) == breach::possible));
}

BOOST_AUTO_TEST_CASE(without_a_promise_nothing_is_broken) {
    auto const kept = [](push_promise p, unsigned instance = 3) {
        return p.answered(instance, start + 1s, start + 1s, gone) == breach::none;
    };
    BOOST_TEST(kept({}, 0));
    BOOST_TEST(kept(promised(), 2)); // another instance
    BOOST_TEST(kept(promised(gone)));
    auto told = promised();
    told.ended(2);
    BOOST_TEST(!kept(told));
    told.ended(3);
    BOOST_TEST(kept(told));
    auto ours = promised();
    ours.ended();
    BOOST_TEST(kept(ours));
    auto once = promised();
    BOOST_TEST((once.answered(3, start, start, gone) == breach::certain));
    BOOST_TEST(kept(once));
}

BOOST_AUTO_TEST_CASE(two_changes_in_a_row_that_were_not_told_are_too_many) {
    for (auto const b : {breach::certain, breach::possible}) {
        trust t;
        t.missed(b);
        t.missed(breach::none);
        BOOST_TEST(t.trusted());
        t.missed(b);
        BOOST_TEST(!t.trusted());
    }
    trust t;
    t.missed(breach::certain);
    t.heard();
    t.missed(breach::certain);
    BOOST_TEST(t.trusted());
}

BOOST_AUTO_TEST_CASE(where_a_push_has_come_the_end_of_a_key_proves_nothing) {
    trust t;
    t.heard();
    for (auto n = 0; n < 100; ++n) t.missed(breach::possible);
    BOOST_TEST(t.trusted());
    t.missed(breach::certain);
    t.missed(breach::certain);
    BOOST_TEST(!t.trusted());
}

BOOST_AUTO_TEST_CASE(a_push_restores_the_trust) {
    trust t;
    for (auto n = 0; n < 100; ++n) t.missed(breach::certain);
    BOOST_TEST(!t.trusted());
    t.heard();
    BOOST_TEST(t.trusted());
    t.missed(breach::certain);
    BOOST_TEST(t.trusted());
}

BOOST_AUTO_TEST_CASE(the_next_connection_is_trusted_until_the_next_breach) {
    trust t;
    t.connected();
    t.missed(breach::certain);
    BOOST_TEST(t.trusted());
    t.missed(breach::certain);
    t.connected();
    BOOST_TEST(t.trusted());
    t.missed(breach::possible);
    BOOST_TEST(!t.trusted());
    t.connected();
    t.heard();
    t.missed(breach::certain);
    BOOST_TEST(t.trusted());
}

BOOST_AUTO_TEST_SUITE_END()
