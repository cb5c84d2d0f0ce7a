#include "protocol/tenure/sharers.hpp"

#include <boost/test/unit_test.hpp>

using lease_sharers = holdfast::protocol::sharers;

BOOST_AUTO_TEST_SUITE(sharers)

BOOST_AUTO_TEST_CASE(leases_join_and_leave) {
    lease_sharers s;
    for (int i = 0; i < 1'000'000; ++i) {
        BOOST_REQUIRE(s.open());
        s.join();
    }
    for (int i = 0; i < 1'000'000; ++i) s.leave();
    s.hand_over();
    BOOST_TEST(!s.elsewhere());
}

BOOST_AUTO_TEST_CASE(a_lease_that_is_alone_is_not_shared_and_stays_alone) {
    lease_sharers s;
    s.hand_over();
    BOOST_TEST(!s.open());
    BOOST_TEST(!s.elsewhere());
    s.hand_over();
    BOOST_TEST(!s.elsewhere());
}

// One of two was handed over. The other one may be handed over after that, when it is alone here.
BOOST_AUTO_TEST_CASE(what_was_shared_at_a_hand_over_stays_so) {
    lease_sharers s;
    s.join();
    s.hand_over();
    BOOST_TEST(s.elsewhere());
    s.leave();
    BOOST_TEST(!s.open());
    s.hand_over();
    BOOST_TEST(s.elsewhere());
}

BOOST_AUTO_TEST_CASE(a_reader_of_another_process_is_shared_from_the_beginning) {
    lease_sharers s(true);
    BOOST_TEST(!s.open());
    s.hand_over();
    BOOST_TEST(s.elsewhere());
}

BOOST_AUTO_TEST_SUITE_END()
