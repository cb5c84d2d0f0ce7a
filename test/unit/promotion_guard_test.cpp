// The guard that decides which answers of a promoted primary count.
#include "protocol/promotion_guard.hpp"

#include "unit/protocol_values.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>

namespace protocol = holdfast::protocol;
using namespace std::chrono_literals;

namespace {

using holdfast::test::at;
using protocol::named_primary;
using protocol::promotion_evidence;

constexpr auto longest = 60s;
constexpr auto m = 2s;
constexpr named_primary old_primary{.server = 1, .epoch = 4};
constexpr named_primary new_primary{.server = 2, .epoch = 5};
constexpr promotion_evidence all{.fleet_waits = true, .same_history = true, .known_replica = true};
constexpr auto for_ever = protocol::time_point::max();

/// A guard that has used the old primary for an hour. It read that clock at 3,599 s, and the clock
/// was `ahead` of ours. A new primary was named at 3,600 s.
struct promoted {
    explicit promoted(protocol::duration ahead = 0ms)
        : guard(longest, m) {
        guard.named(old_primary, at(0s));
        tell(guard, 3'599s, ahead);
        guard.named(new_primary, at(3'600s));
    }
    static void tell(protocol::promotion_guard& guard, protocol::duration when,
                     protocol::duration ahead, protocol::duration travel = 1ms) {
        guard.told_time(at(when), at(when + travel),
                        at(when + travel / 2).time_since_epoch() + ahead);
    }

    protocol::promotion_guard guard;
};

} // namespace

BOOST_AUTO_TEST_SUITE(promotion_guard)

BOOST_AUTO_TEST_CASE(grants_count_after_the_longest_ttl_and_m) {
    promoted p;
    BOOST_TEST(!p.guard.counts_grants(at(3'600s), for_ever));
    BOOST_TEST(!p.guard.counts_grants(at(3'600s + longest + m - 1ns), for_ever));
    BOOST_TEST(p.guard.counts_grants(at(3'600s + longest + m), for_ever));
}

BOOST_AUTO_TEST_CASE(extensions_count_after_m) {
    promoted p;
    BOOST_TEST(!p.guard.counts_extensions(at(3'600s + m - 1ns), for_ever));
    BOOST_TEST(p.guard.counts_extensions(at(3'600s + m), for_ever));
}

BOOST_AUTO_TEST_CASE(nothing_counts_outside_the_confirmation) {
    promoted p;
    auto const now = at(3'600s + longest + m);
    BOOST_TEST(p.guard.counts_grants(now, now + 1ns));
    BOOST_TEST(p.guard.counts_extensions(now, now + 1ns));
    BOOST_TEST(!p.guard.counts_grants(now, now));
    BOOST_TEST(!p.guard.counts_extensions(now, now));
}

BOOST_AUTO_TEST_CASE(the_first_primary_is_a_first_sight_too) {
    protocol::promotion_guard guard(longest, m);
    BOOST_TEST(guard.named(old_primary, at(0s)));
    BOOST_TEST(!guard.counts_grants(at(0s), for_ever));
}

BOOST_AUTO_TEST_CASE(the_same_primary_again_begins_nothing) {
    promoted p;
    auto const until = p.guard.grants_until();
    BOOST_TEST(!p.guard.named(new_primary, at(3'700s)));
    BOOST_TEST((p.guard.grants_until() == until));
    auto const new_epoch = named_primary{.server = new_primary.server, .epoch = 6};
    BOOST_TEST(p.guard.named(new_epoch, at(3'700s)));
    BOOST_TEST((p.guard.grants_until() == at(3'700s + longest + m)));
}

BOOST_AUTO_TEST_CASE(all_evidence_lifts_the_quarantine_of_grants_only) {
    promoted p;
    p.tell(p.guard, 3'600s, 0ms);
    BOOST_TEST(p.guard.lift(all));
    BOOST_TEST(p.guard.counts_grants(at(3'600s), for_ever));
    BOOST_TEST(!p.guard.counts_extensions(at(3'600s), for_ever));
}

BOOST_AUTO_TEST_CASE(each_part_of_the_evidence_is_needed) {
    for (auto const part : {&promotion_evidence::fleet_waits, &promotion_evidence::same_history,
                            &promotion_evidence::known_replica}) {
        promoted p;
        p.tell(p.guard, 3'600s, 0ms);
        auto missing = all;
        missing.*part = false;
        BOOST_TEST(!p.guard.lift(missing));
        BOOST_TEST(!p.guard.counts_grants(at(3'600s), for_ever));
    }
}

BOOST_AUTO_TEST_CASE(a_clock_ahead_of_the_last_primary_lifts_nothing) {
    promoted ahead(-500ms);
    ahead.tell(ahead.guard, 3'600s, 0ms);
    BOOST_TEST((ahead.guard.greatest_lead() == 501ms));
    BOOST_TEST(!ahead.guard.lift(all));
    // A clock that is behind makes keys live longer, which endangers no lease.
    promoted behind(500ms);
    behind.tell(behind.guard, 3'600s, 0ms);
    BOOST_TEST(behind.guard.lift(all));
    // The difference is within the allowed drift: 1 % of the second between the readings, plus 2
    // ms.
    promoted near(-10ms);
    near.tell(near.guard, 3'600s, 0ms);
    BOOST_TEST(near.guard.lift(all));
    promoted too_far(-12ms);
    too_far.tell(too_far.guard, 3'600s, 0ms);
    BOOST_TEST(!too_far.guard.lift(all));
}

BOOST_AUTO_TEST_CASE(a_clock_that_is_not_known_or_slow_to_answer_lifts_nothing) {
    promoted unread;
    BOOST_TEST(!unread.guard.greatest_lead());
    BOOST_TEST(!unread.guard.lift(all));
    promoted slow;
    slow.tell(slow.guard, 3'600s, 0ms, 2s);
    BOOST_TEST(!slow.guard.lift(all));
    protocol::promotion_guard no_last(longest, m);
    no_last.named(old_primary, at(0s));
    no_last.named(new_primary, at(1s));
    promoted::tell(no_last, 1s, 0ms);
    BOOST_TEST(!no_last.lift(all));
}

BOOST_AUTO_TEST_CASE(a_lifted_quarantine_leaves_the_one_before) {
    promoted p;
    p.tell(p.guard, 3'600s, 0ms);
    auto const next = named_primary{.server = 3, .epoch = 6};
    p.guard.named(next, at(3'601s));
    p.tell(p.guard, 3'601s, 0ms);
    BOOST_TEST(p.guard.lift(all));
    BOOST_TEST((p.guard.grants_until() == at(3'600s + longest + m)));
}

BOOST_AUTO_TEST_SUITE_END()
