// The result of a revocation, and the state of a key with tombstones.
#include "protocol/key/key_survey.hpp"
#include "protocol/rules.hpp"

#include <boost/test/unit_test.hpp>

#include <vector>

using namespace holdfast::protocol;
using kind = key_finding::kind;
using state = survey_result::state;

namespace {

constexpr key_finding absent{.found = kind::absent};
constexpr key_finding missing{};
constexpr key_finding of_a{.found = kind::present, .token = "a"};
constexpr key_finding of_b{.found = kind::present, .token = "b"};
constexpr key_finding tombstone{.found = kind::revoked, .token = "a"};

survey_result evaluated(std::vector<key_finding> const& all) {
    return evaluate(all, redlock_rules::quorum(static_cast<unsigned>(all.size()), 0));
}

} // namespace

BOOST_AUTO_TEST_SUITE(key_revocation)

// Whatever the other instances say, they are no quorum.
BOOST_AUTO_TEST_CASE(tombstones_leave_no_quorum) {
    for (unsigned n = 1; n <= 7; ++n) {
        auto const quorum = redlock_rules::quorum(n, 0);
        for (unsigned there = 0; there <= n; ++there) {
            auto const done = evaluate_revocation(there, 0, n, quorum) == removal::done;
            BOOST_CHECK(done == (n - there < quorum));
        }
    }
}

// A healing that is under way may bring the key back where it is absent.
BOOST_AUTO_TEST_CASE(an_instance_without_the_key_is_no_tombstone) {
    BOOST_CHECK(evaluate_revocation(1, 1, 3, 2) == removal::unconfirmed);
    BOOST_CHECK(evaluate_revocation(2, 0, 3, 2) == removal::done);
    BOOST_CHECK(evaluate_revocation(2, 0, 4, 3) == removal::done);
    BOOST_CHECK(evaluate_revocation(1, 2, 3, 2) == removal::had_gone);
    BOOST_CHECK(evaluate_revocation(0, 2, 3, 2) == removal::had_gone);
    BOOST_CHECK(evaluate_revocation(0, 1, 3, 2) == removal::unconfirmed);
}

BOOST_AUTO_TEST_CASE(the_state_of_a_key_with_tombstones) {
    BOOST_CHECK((evaluated({tombstone, tombstone, of_a}) ==
                 survey_result{.is = state::revoked, .token = "a"}));
    BOOST_CHECK(evaluated({tombstone, tombstone, missing}).is == state::revoked);
    BOOST_CHECK(evaluated({tombstone, tombstone, missing, missing}).is == state::revoked);
    BOOST_CHECK(evaluated({tombstone, of_a, of_a}).is == state::held);
    BOOST_CHECK(evaluated({tombstone, absent, absent}).is == state::free);
    BOOST_CHECK(evaluated({tombstone, of_a, of_b}).is == state::split);
    BOOST_CHECK(evaluated({tombstone, of_a, missing}).is == state::unknown);
    BOOST_CHECK(evaluated({tombstone, missing, missing}).is == state::unknown);
    BOOST_CHECK(evaluated({tombstone, tombstone, of_a, of_b, missing}).is == state::unknown);
    BOOST_CHECK(evaluated({tombstone}).is == state::revoked);
}

BOOST_AUTO_TEST_SUITE_END()
