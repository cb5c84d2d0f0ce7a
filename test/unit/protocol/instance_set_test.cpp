// instance_set against std::set.
#include "protocol/instance_set.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <set>
#include <vector>

// The alias differs from the type's name, which is the name of the suite.
using set = holdfast::protocol::instance_set;

namespace {

std::vector<unsigned> visited(set s) {
    std::vector<unsigned> all;
    s.for_each([&](unsigned i) { all.push_back(i); });
    return all;
}

set of(std::uint32_t bits) {
    set s;
    for (unsigned i = 0; i < 32; ++i) {
        if ((bits >> i & 1U) != 0) s.insert(i);
    }
    return s;
}

} // namespace

BOOST_AUTO_TEST_SUITE(instance_set)

BOOST_AUTO_TEST_CASE(a_new_set_is_empty) {
    set const s;
    BOOST_TEST(s.empty());
    BOOST_TEST(s.size() == 0U);
    for (unsigned i = 0; i < set::capacity; ++i) BOOST_TEST(!s.contains(i));
    BOOST_TEST(visited(s).empty());
}

BOOST_AUTO_TEST_CASE(first_holds_so_many_and_no_more) {
    for (unsigned n = 0; n <= set::capacity; ++n) {
        auto const s = set::first(n);
        BOOST_TEST(s.size() == n);
        BOOST_TEST(s.empty() == (n == 0));
        for (unsigned i = 0; i < set::capacity; ++i) BOOST_TEST(s.contains(i) == (i < n));
    }
}

BOOST_AUTO_TEST_CASE(only_holds_one) {
    for (unsigned n = 0; n < set::capacity; ++n) {
        auto const s = set::only(n);
        BOOST_TEST(s.size() == 1U);
        for (unsigned i = 0; i < set::capacity; ++i) BOOST_TEST(s.contains(i) == (i == n));
    }
}

BOOST_AUTO_TEST_CASE(what_is_inserted_stays_until_it_is_erased) {
    set s;
    std::set<unsigned> expected;
    // Visits every number several times, in an order without a pattern.
    for (unsigned step = 0; step < 500; ++step) {
        auto const i = (step * 13 + step / 7) % set::capacity;
        if (step % 3 == 0) {
            s.erase(i);
            expected.erase(i);
        } else {
            s.insert(i);
            expected.insert(i);
        }
        BOOST_TEST(visited(s) == std::vector<unsigned>(expected.begin(), expected.end()),
                   boost::test_tools::per_element());
        BOOST_TEST(s.size() == expected.size());
    }
}

BOOST_AUTO_TEST_CASE(inserting_and_erasing_twice_is_once) {
    set s;
    s.insert(31);
    s.insert(31);
    BOOST_TEST(s.size() == 1U);
    s.erase(31);
    s.erase(31);
    BOOST_TEST(s.empty());
}

BOOST_AUTO_TEST_CASE(instances_are_visited_in_ascending_order) {
    set s;
    for (auto const i : {31U, 0U, 7U, 16U}) s.insert(i);
    BOOST_TEST(visited(s) == (std::vector<unsigned>{0, 7, 16, 31}),
               boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(union_intersection_and_difference_are_those_of_sets) {
    for (std::uint32_t a = 0; a < 16; ++a) {
        for (std::uint32_t b = 0; b < 16; ++b) {
            // The sets hold only the four lowest and the four highest numbers.
            auto const x = of(a | a << 28);
            auto const y = of(b | b << 28);
            for (unsigned i = 0; i < set::capacity; ++i) {
                BOOST_TEST((x | y).contains(i) == (x.contains(i) || y.contains(i)));
                BOOST_TEST((x & y).contains(i) == (x.contains(i) && y.contains(i)));
                BOOST_TEST((x - y).contains(i) == (x.contains(i) && !y.contains(i)));
            }
            BOOST_TEST((x == y) == (a == b));
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
