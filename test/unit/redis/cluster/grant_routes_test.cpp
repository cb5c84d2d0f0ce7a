#include "redis/cluster/grant_routes.hpp"

#include <boost/test/unit_test.hpp>

using namespace holdfast::redis;

namespace {

reply_handler const* handler(std::uintptr_t n) {
    return reinterpret_cast<reply_handler const*>(n); // compared only
}

grant_id const a{.owner = handler(16)};
grant_id const b{.owner = handler(32)};

} // namespace

BOOST_AUTO_TEST_SUITE(grant_routes)

BOOST_AUTO_TEST_CASE(without_a_grant_under_way_a_release_goes_to_the_owner_of_the_slot) {
    holdfast::redis::grant_routes r;
    BOOST_TEST(r.release(a, 3).node == 3);
    r.sent(a, 1, false);
    r.ended(a);
    BOOST_TEST(r.release(a, 3).node == 3);
}

BOOST_AUTO_TEST_CASE(a_release_follows_the_last_copy_of_its_grant) {
    holdfast::redis::grant_routes r;
    r.sent(a, 1, false);
    BOOST_TEST(r.release(a, 3).node == 1);
    r.ended(a); // redirected
    r.sent(a, 2, true);
    BOOST_TEST(r.release(a, 3).node == 2);
    BOOST_TEST(r.release(a, 3).asking);
    BOOST_TEST(r.release(b, 3).node == 3);
}

// Keys of two slots: each part of the release follows its part of the grant.
BOOST_AUTO_TEST_CASE(the_grants_of_one_owner_in_two_slots_are_apart) {
    holdfast::redis::grant_routes r;
    grant_id const there{.owner = a.owner, .slot = 7};
    grant_id const here{.owner = a.owner, .slot = 8};
    r.sent(there, 1, false);
    r.sent(here, 2, false);
    BOOST_TEST(r.release(there, 3).node == 1);
    BOOST_TEST(r.release(here, 3).node == 2);
    r.ended(here);
    BOOST_TEST(r.release(there, 3).node == 1);
    BOOST_TEST(r.release(here, 3).node == 3);
}

BOOST_AUTO_TEST_CASE(two_grants_of_one_owner_count_until_both_have_ended) {
    holdfast::redis::grant_routes r;
    r.sent(a, 1, false);
    r.sent(a, 2, false);
    r.ended(a);
    BOOST_TEST(r.release(a, 3).node == 2);
    r.ended(a);
    BOOST_TEST(r.release(a, 3).node == 3);
    r.ended(a); // no more: nothing happens
}

BOOST_AUTO_TEST_SUITE_END()
