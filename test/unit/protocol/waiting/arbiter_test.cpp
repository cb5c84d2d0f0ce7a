// The choice of the arbiter: it does not depend on the order of instances, few keys move when an
// instance fails, and keys are shared evenly.
#include "protocol/waiting/arbiter.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

using namespace holdfast::protocol;

namespace {

constexpr std::uint64_t keys = 20'000;

/// Real identities are random run ids. The tests use numbers that are as similar as possible.
unsigned arbiter_of(std::uint64_t key, instance_set candidates,
                    std::vector<std::uint64_t> const& identities) {
    return holdfast::protocol::arbiter(key, candidates, [&](unsigned i) { return identities[i]; });
}

} // namespace

BOOST_AUTO_TEST_SUITE(arbiter)

BOOST_AUTO_TEST_CASE(it_is_the_same_in_every_order_of_the_instances) {
    std::array<unsigned, 5> order{0, 1, 2, 3, 4};
    do {
        std::vector<std::uint64_t> identities;
        for (auto const i : order) identities.push_back(100 + i);
        for (std::uint64_t key = 0; key < 50; ++key) {
            auto const here = identities[arbiter_of(key, instance_set::first(5), identities)];
            auto const there =
                100 + arbiter_of(key, instance_set::first(5), {100, 101, 102, 103, 104});
            BOOST_REQUIRE_EQUAL(here, there);
        }
    } while (std::next_permutation(order.begin(), order.end()));
}

BOOST_AUTO_TEST_CASE(only_the_keys_of_an_instance_that_goes_move) {
    std::vector<std::uint64_t> const identities{1, 2, 3, 4, 5, 6, 7};
    auto const all = instance_set::first(7);
    for (unsigned gone = 0; gone < 7; ++gone) {
        std::array<unsigned, 7> taken_over_by{};
        for (std::uint64_t key = 0; key < keys; ++key) {
            auto const before = arbiter_of(key, all, identities);
            auto const after = arbiter_of(key, all - instance_set::only(gone), identities);
            if (before != gone) BOOST_REQUIRE_EQUAL(after, before);
            if (before == gone) ++taken_over_by[after];
        }
        // Each of the other instances takes over some of the keys.
        for (unsigned i = 0; i < 7; ++i)
            BOOST_TEST((i == gone ? taken_over_by[i] == 0 : taken_over_by[i] > 0));
    }
}

BOOST_AUTO_TEST_CASE(each_instance_has_its_share_of_the_keys) {
    for (auto const n : {2U, 3U, 5U, 7U}) {
        std::vector<std::uint64_t> identities;
        for (unsigned i = 0; i < n; ++i) identities.push_back(i);
        std::vector<std::uint64_t> share(n);
        for (std::uint64_t key = 0; key < keys; ++key)
            ++share[arbiter_of(key, instance_set::first(n), identities)];
        for (auto const s : share) {
            BOOST_TEST(s * n > keys * 9 / 10);
            BOOST_TEST(s * n < keys * 11 / 10);
        }
    }
}

BOOST_AUTO_TEST_CASE(one_candidate_is_the_arbiter_of_every_key) {
    for (unsigned i = 0; i < instance_set::capacity; ++i) {
        BOOST_TEST(holdfast::protocol::arbiter(i, instance_set::only(i),
                                               [](unsigned) { return 0U; }) == i);
    }
}

BOOST_AUTO_TEST_SUITE_END()
