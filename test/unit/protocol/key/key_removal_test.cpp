// The result of a release without a lease.
#include "protocol/key/key_survey.hpp"

#include <boost/test/unit_test.hpp>

using namespace holdfast::protocol;

BOOST_AUTO_TEST_SUITE(key_removal)

BOOST_AUTO_TEST_CASE(a_quorum_has_to_confirm) {
    BOOST_CHECK(evaluate_removal(3, 0, 3) == removal::done);
    BOOST_CHECK(evaluate_removal(2, 0, 3) == removal::unconfirmed);
    BOOST_CHECK(evaluate_removal(0, 2, 3) == removal::unconfirmed);
    BOOST_CHECK(evaluate_removal(0, 0, 1) == removal::unconfirmed);
}

// The others may have lost it, or could not be reached when it was acquired.
BOOST_AUTO_TEST_CASE(one_deletion_shows_that_it_was_there) {
    BOOST_CHECK(evaluate_removal(1, 2, 3) == removal::done);
    BOOST_CHECK(evaluate_removal(0, 3, 3) == removal::had_gone);
    BOOST_CHECK(evaluate_removal(0, 5, 3) == removal::had_gone);
}

BOOST_AUTO_TEST_SUITE_END()
