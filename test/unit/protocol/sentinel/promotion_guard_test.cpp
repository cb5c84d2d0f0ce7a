// The guard that decides which answers of a promoted primary count.
#include "protocol/sentinel/promotion_guard.hpp"

#include "unit/protocol/protocol_values.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>

namespace protocol = holdfast::protocol;
using namespace std::chrono_literals;

namespace {

using holdfast::test::at;
using protocol::named_primary;

constexpr auto longest = 60s;
constexpr auto m = 2s;
constexpr named_primary old_primary{.server = 1, .epoch = 4};
constexpr named_primary new_primary{.server = 2, .epoch = 5};
constexpr auto for_ever = protocol::time_point::max();

/// A guard that has used the old primary for an hour when a new one is named.
struct promoted {
    promoted() {
        guard.named(old_primary, at(0s));
        guard.named(new_primary, at(3'600s));
    }

    protocol::promotion_guard guard{longest, m};
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

BOOST_AUTO_TEST_SUITE_END()
