// The pool reuses objects, and frees those that were not needed for a while.
#include "runtime/memory/pool.hpp"

#include "support/heap.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <stdexcept>
#include <vector>

using holdfast::runtime::spare_policy;
using holdfast::test::resident_bytes;

namespace {

constexpr auto retained = spare_policy::retained;

struct counted {
    explicit counted(bool fails = false) {
        if (fails) throw std::runtime_error("as asked");
        ++alive;
    }
    ~counted() { --alive; }
    counted(counted const&) = delete;
    counted& operator=(counted const&) = delete;

    static inline std::size_t alive = 0;
    std::array<char, 200> more{};
};

using counted_pool = holdfast::runtime::pool<counted>;

auto const always = [](counted&) { return true; };

// Takes `count` objects, and gives all of them back.
void use(counted_pool& p, std::size_t count) {
    std::vector<counted*> taken;
    for (std::size_t i = 0; i < count; ++i) taken.push_back(&p.take());
    for (auto* const t : taken) p.give_back(*t);
}

void shrink_all(counted_pool& p) {
    while (p.shrink(64, always)) {
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(pool)

BOOST_AUTO_TEST_CASE(an_object_is_used_again) {
    counted_pool p;
    auto& first = p.take();
    auto& second = p.take();
    BOOST_TEST((&first != &second));
    p.give_back(first);
    BOOST_TEST((&p.take() == &first));
    BOOST_TEST(p.size() == 2U);
    BOOST_TEST(p.owns(&first));
    BOOST_TEST(!p.owns(nullptr));
    std::set<counted*> visited;
    p.for_each([&](counted& c) { visited.insert(&c); });
    BOOST_TEST((visited == std::set<counted*>{&first, &second}));
}

BOOST_AUTO_TEST_CASE(one_that_cannot_be_made_changes_nothing) {
    counted_pool p;
    auto& first = p.take();
    BOOST_CHECK_THROW(p.take(true), std::runtime_error);
    BOOST_TEST(p.size() == 1U);
    p.give_back(first);
    BOOST_TEST((&p.take(true) == &first)); // the object from before is used again
    BOOST_TEST(counted::alive == 1U);
}

BOOST_AUTO_TEST_CASE(all_of_them_go_with_it) {
    {
        counted_pool p;
        use(p, 10);
        (void)p.take();
        BOOST_TEST(counted::alive == 10U);
    }
    BOOST_TEST(counted::alive == 0U);
}

BOOST_AUTO_TEST_CASE(what_was_not_used_for_a_period_goes_by_halves) {
    spare_policy s;
    s.taken(0);
    BOOST_TEST(s.period_ended(100'000) == 0U); // all objects were in use at one time
    BOOST_TEST(s.period_ended(100'000) == (100'000 - retained + 1) / 2);
    s.taken(40'000);
    s.taken(45'000);
    BOOST_TEST(s.period_ended(50'000) == (40'000 - retained + 1) / 2);
    BOOST_TEST(s.period_ended(30'000) == (30'000 - retained + 1) / 2);
    s.taken(retained);
    BOOST_TEST(s.period_ended(30'000) == 0U);
    BOOST_TEST(s.period_ended(retained + 1) == 1U);
    BOOST_TEST(s.period_ended(retained) == 0U);
    BOOST_TEST(s.period_ended(0) == 0U);
}

BOOST_AUTO_TEST_CASE(a_burst_is_given_back_and_a_few_are_kept) {
    counted_pool p;
    use(p, 20'000);
    p.period_ended();
    shrink_all(p);
    BOOST_TEST(counted::alive == 20'000U);
    for (auto i = 0; i < 30; ++i) {
        use(p, 10);
        p.period_ended();
        shrink_all(p);
        BOOST_TEST(counted::alive == p.size());
    }
    BOOST_TEST(p.size() < retained + 10 + 2 * p.block_objects());
    BOOST_TEST(p.size() >= retained);
    use(p, 2'000);
    BOOST_TEST(p.size() == 2'000U);
}

#ifndef HOLDFAST_TEST_SANITIZED
// Other memory of the process lies between the blocks, so free() gives nothing back.
BOOST_AUTO_TEST_CASE(the_memory_of_a_burst_goes_back_to_the_system) {
    counted_pool p, others;
    use(p, retained);
    auto const before = resident_bytes();
    std::vector<counted*> taken;
    for (auto i = 0; i < 200'000; ++i) {
        taken.push_back(&p.take());
        taken.back()->more.fill('x');
        if (i % 50'000 == 49'999) use(others, others.size() + 1'000);
    }
    for (auto* const t : taken) p.give_back(*t);
    auto const peak = resident_bytes();
    for (auto i = 0; i < 30; ++i) {
        p.period_ended();
        shrink_all(p);
    }
    auto const after = resident_bytes();
    BOOST_TEST_MESSAGE("resident: " << before << ", at the peak " << peak << ", then " << after);
    BOOST_TEST(peak - before > 100'000 * sizeof(counted)); // the rest was free before
    BOOST_TEST(after < before + (peak - before) / 5);
}
#endif

BOOST_AUTO_TEST_CASE(what_is_in_use_stays) {
    counted_pool p;
    std::vector<counted*> taken;
    for (std::size_t i = 0; i < 10'000; ++i) taken.push_back(&p.take());
    std::vector<counted*> const in_use(taken.begin(), taken.begin() + 1'000);
    for (auto i = in_use.size(); i < taken.size(); ++i) p.give_back(*taken[i]);
    for (auto i = 0; i < 30; ++i) {
        p.period_ended();
        shrink_all(p);
    }
    BOOST_TEST(p.size() >= in_use.size() + retained);
    BOOST_TEST(p.size() <= in_use.size() + retained + 2 * p.block_objects());
    for (auto* const t : in_use) BOOST_TEST(p.owns(t));
    auto const owned = [&p](counted* t) { return p.owns(t); };
    BOOST_TEST(std::count_if(taken.begin(), taken.end(), owned) == static_cast<long>(p.size()));
    for (auto* const t : in_use) p.give_back(*t);
    use(p, p.size());
}

// New objects fill the gaps, so a block without an object in use can follow.
BOOST_AUTO_TEST_CASE(one_object_in_use_keeps_its_block) {
    counted_pool p;
    std::vector<counted*> taken;
    for (std::size_t i = 0; i < 20 * p.block_objects(); ++i) taken.push_back(&p.take());
    std::vector<counted*> in_use;
    for (std::size_t i = 0; i < taken.size(); ++i) {
        if (i % p.block_objects() == 0) {
            in_use.push_back(taken[i]);
        } else {
            p.give_back(*taken[i]);
        }
    }
    auto const shrinks = [&p] {
        for (auto i = 0; i < 30; ++i) {
            p.period_ended();
            shrink_all(p);
        }
    };
    shrinks();
    BOOST_TEST(p.size() == taken.size());
    for (auto*& t : in_use) {
        auto& other = p.take();
        p.give_back(*t);
        t = &other;
    }
    shrinks();
    BOOST_TEST(p.size() <= retained + 2 * p.block_objects());
}

BOOST_AUTO_TEST_CASE(only_its_own_objects_are_owned) {
    counted_pool p, other;
    auto& mine = p.take();
    auto& second = p.take();
    auto& theirs = other.take();
    BOOST_TEST(p.owns(&mine));
    BOOST_TEST(p.owns(&second));
    BOOST_TEST(!p.owns(&theirs));
    BOOST_TEST(!p.owns(&second + 1)); // not made yet
    BOOST_TEST(!p.owns(reinterpret_cast<counted*>(reinterpret_cast<char*>(&mine) + 8)));
    BOOST_TEST(!p.owns(&mine - 1));
    p.give_back(mine);
    BOOST_TEST(p.owns(&mine));
}

BOOST_AUTO_TEST_CASE(it_shrinks_in_steps_and_stops_where_it_is_told_to) {
    counted_pool p;
    auto const block = p.block_objects();
    auto const all = 10 * block;
    BOOST_REQUIRE(all > retained + 4 * block);
    use(p, all);
    p.period_ended();
    BOOST_TEST(!p.shrink(1, always));
    p.period_ended();
    BOOST_TEST(p.shrink(1, always));
    BOOST_TEST(p.size() == all - block);
    BOOST_TEST(!p.shrink(all, [](counted&) { return false; }));
    BOOST_TEST(p.size() == all - block);
    BOOST_TEST(!p.shrink(all, always)); // not before the next period
    BOOST_TEST(p.size() == all - block);
    // Objects that are in use are not destroyed.
    p.period_ended();
    p.period_ended();
    std::vector<counted*> taken;
    for (std::size_t i = 0; i < all - block; ++i) taken.push_back(&p.take());
    BOOST_TEST(!p.shrink(all, always));
    BOOST_TEST(p.size() == all - block);
    for (auto* const t : taken) p.give_back(*t);
}

BOOST_AUTO_TEST_SUITE_END()
