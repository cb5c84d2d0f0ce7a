// The begin and the end of a quarantine, in which the grants of an instance do not count.
#include "protocol/quarantine.hpp"

#include "unit/protocol/protocol_values.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>

using namespace std::chrono_literals;
namespace protocol = holdfast::protocol;
using protocol::time_point;

namespace {

using holdfast::test::at;

} // namespace

BOOST_AUTO_TEST_SUITE(quarantine)

BOOST_AUTO_TEST_CASE(there_is_none_before_it_begins) {
    protocol::quarantine const q;
    BOOST_TEST(!q.active(time_point{}));
    BOOST_TEST(!q.active(at(0s)));
    BOOST_TEST((q.until() <= time_point{}));
}

BOOST_AUTO_TEST_CASE(it_lasts_as_long_as_the_longest_lease_and_ends_by_itself) {
    protocol::quarantine q;
    q.begin(at(0s), 10s);
    BOOST_TEST(q.active(at(0s)));
    BOOST_TEST(q.active(at(10s - 1ns)));
    BOOST_TEST(!q.active(at(10s)));
    BOOST_TEST(!q.active(at(1h)));
    BOOST_TEST((q.until() == at(10s)));
}

BOOST_AUTO_TEST_CASE(a_second_event_prolongs_it) {
    protocol::quarantine q;
    q.begin(at(0s), 10s);
    q.begin(at(9s), 10s);
    BOOST_TEST((q.until() == at(19s)));
    BOOST_TEST(q.active(at(10s)));
    BOOST_TEST(q.active(at(19s - 1ns)));
    BOOST_TEST(!q.active(at(19s)));
}

BOOST_AUTO_TEST_CASE(nothing_shortens_it) {
    protocol::quarantine q;
    q.begin(at(0s), 10s);
    q.begin(at(1s), 2s);
    BOOST_TEST((q.until() == at(10s)));
    q.begin(at(-20s), 10s);
    BOOST_TEST((q.until() == at(10s)));
}

BOOST_AUTO_TEST_CASE(it_can_begin_again_after_its_end) {
    protocol::quarantine q;
    q.begin(at(0s), 10s);
    q.begin(at(20s), 10s);
    BOOST_TEST(q.active(at(20s)));
    BOOST_TEST((q.until() == at(30s)));
}

BOOST_AUTO_TEST_SUITE_END()
