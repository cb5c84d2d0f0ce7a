// The order in which commands leave their lanes.
#include "protocol/server/lanes.hpp"

#include "../../../../bench/allocation_counter.hpp"

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

using namespace holdfast::protocol;

namespace {

using waiting = holdfast::protocol::lanes<std::string>;

std::string all_of(waiting& l) {
    std::string order;
    while (!l.empty()) order += l.pop();
    return order;
}

} // namespace

BOOST_AUTO_TEST_SUITE(lanes)

BOOST_AUTO_TEST_CASE(each_command_has_its_lane) {
    BOOST_TEST((lane_of(command::extend) == lane::keep));
    BOOST_TEST((lane_of(command::heal) == lane::keep));
    BOOST_TEST((lane_of(command::raise) == lane::keep));
    BOOST_TEST((lane_of(command::acquire) == lane::take));
    BOOST_TEST((lane_of(command::contend) == lane::take));
    BOOST_TEST((lane_of(command::inspect) == lane::take));
    BOOST_TEST((lane_of(command::track) == lane::take));
    BOOST_TEST((lane_of(command::release) == lane::leave));
}

BOOST_AUTO_TEST_CASE(extensions_leave_before_acquires_and_these_before_releases) {
    waiting l;
    l.push(lane::leave, 1, "r");
    l.push(lane::take, 2, "a");
    l.push(lane::keep, 3, "e");
    BOOST_TEST(!l.empty());
    BOOST_TEST(all_of(l) == "ear");
    BOOST_TEST(l.empty());
}

BOOST_AUTO_TEST_CASE(within_a_lane_the_first_to_come_is_the_first_to_leave) {
    for (auto const shared_lane : {lane::keep, lane::take, lane::leave}) {
        waiting l;
        std::string in;
        for (std::size_t key = 0; key < 26; ++key) {
            in += static_cast<char>('a' + key);
            l.push(shared_lane, key, std::string(1, in.back()));
        }
        BOOST_TEST(all_of(l) == in);
    }
}

BOOST_AUTO_TEST_CASE(a_command_joins_the_lane_in_which_its_key_waits) {
    waiting l;
    l.push(lane::leave, 1, "r"); // the release of a lease
    l.push(lane::take, 1, "a");  // the next acquire
    l.push(lane::keep, 1, "e");
    l.push(lane::keep, 2, "E");
    BOOST_TEST(all_of(l) == "Erae");
    l.push(lane::keep, 1, "e");
    l.push(lane::leave, 1, "r");
    l.push(lane::take, 2, "A");
    BOOST_TEST(all_of(l) == "erA");
}

BOOST_AUTO_TEST_CASE(when_the_last_one_has_left_the_key_has_no_lane) {
    waiting l;
    l.push(lane::take, 1, "a");
    l.push(lane::take, 1, "b");
    l.push(lane::leave, 9, "x");
    BOOST_TEST(l.pop() == "a");
    l.push(lane::leave, 1, "c"); // b still waits
    BOOST_TEST(l.pop() == "b");
    BOOST_TEST(l.pop() == "c");
    l.push(lane::leave, 1, "d");
    BOOST_TEST(l.pop() == "x");
    BOOST_TEST(l.pop() == "d");
}

BOOST_AUTO_TEST_CASE(no_lane_starves) {
    waiting l;
    for (std::size_t n = 0; n < 24; ++n) {
        l.push(lane::keep, n, "e");
        l.push(lane::take, 100 + n, "a");
        l.push(lane::leave, 200 + n, "r");
    }
    // In each group of eight, one command is of the last lane and one of the middle lane.
    BOOST_TEST(all_of(l).substr(0, 24) == "eeeaeeereeeaeeereeeaeeer");
}

BOOST_AUTO_TEST_CASE(what_an_empty_lane_leaves_goes_to_the_first) {
    waiting l;
    for (std::size_t n = 0; n < 8; ++n) l.push(lane::leave, n, "r");
    for (std::size_t n = 10; n < 18; ++n) l.push(lane::take, n, "a");
    BOOST_TEST(all_of(l) == "aaaaaaararrrrrrr");
}

BOOST_AUTO_TEST_CASE(many_items_come_and_go_in_order) {
    holdfast::protocol::lanes<std::unique_ptr<int>> l;
    int in = 0, out = 0;
    for (int round = 0; round < 50; ++round) {
        for (int n = 0; n < 100; ++n, ++in) {
            l.push(lane::take, static_cast<std::size_t>(in), std::make_unique<int>(in));
        }
        for (int n = 0; n < (round < 25 ? 60 : 140); ++n, ++out) BOOST_REQUIRE(*l.pop() == out);
    }
    BOOST_TEST(l.empty());
}

BOOST_AUTO_TEST_CASE(memory_is_kept_for_what_is_usual_and_not_for_a_burst) {
    if (!holdfast::bench::counts_allocations()) return;
    holdfast::protocol::lanes<int> l;
    // The number of allocations in the second of two equal bursts.
    auto const allocations_of = [&](std::size_t size) {
        std::uint64_t before = 0;
        for (int round = 0; round < 2; ++round) {
            before = holdfast::bench::allocations();
            for (std::size_t n = 0; n < size; ++n) l.push(lane::leave, n, 0);
            while (!l.empty()) l.pop();
        }
        return holdfast::bench::allocations() - before;
    };
    BOOST_TEST(allocations_of(500) == 0U);
    // The vector and the map of the lanes grow from nothing.
    BOOST_TEST(allocations_of(5'000) >= 16U);
    BOOST_TEST(allocations_of(500) == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
