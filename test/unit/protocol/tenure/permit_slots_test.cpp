// The slot of a permit against a simple model: for every combination of answers from up to five
// instances, in every order.
#include "protocol/tenure/permit_slot.hpp"
#include "protocol/tenure/tenure.hpp"

#include "unit/protocol/tenure/tenures.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

using namespace tenures;

namespace {

/// What an instance says: `a` to `c` for a slot, `n` for no, `f` for a failure.
constexpr std::string_view words = "abcnf";
constexpr std::array<unsigned, 3> slots{4, 7, 9};

bool gives(char word) {
    return word >= 'a' && word <= 'c';
}
unsigned slot_of(char word) {
    return slots[static_cast<std::size_t>(word - 'a')];
}

/// How many instances have given this slot.
unsigned given(std::string const& said, char slot) {
    return static_cast<unsigned>(std::count(said.begin(), said.end(), slot));
}
unsigned given(std::string const& said) {
    return given(said, 'a') + given(said, 'b') + given(said, 'c');
}

template <class Visit>
void every_answer(unsigned n, Visit&& visit) {
    std::size_t total = 1;
    for (unsigned i = 0; i < n; ++i) total *= words.size();
    for (std::size_t c = 0; c < total; ++c) {
        std::string said;
        for (auto rest = c; said.size() < n; rest /= words.size())
            said += words[rest % words.size()];
        std::vector<unsigned> order(n);
        for (unsigned i = 0; i < n; ++i) order[i] = i;
        do {
            visit(said, order);
        } while (std::next_permutation(order.begin(), order.end()));
    }
}

tenure_action say(machine& m, unsigned instance, char word, std::uint64_t number = 0) {
    auto const v = gives(word) ? yes : word == 'n' ? no : refused;
    return m.answer(command::acquire, 0, instance, v, at(1s), number,
                    gives(word) ? slot_of(word) : 0);
}

/// The instances that have given the slot of the tenure.
instance_set holders(std::string const& said, machine const& m) {
    instance_set all;
    for (unsigned i = 0; i < said.size(); ++i)
        if (gives(said[i]) && slot_of(said[i]) == m.slot().value()) all.insert(i);
    return all;
}

} // namespace

BOOST_AUTO_TEST_SUITE(permit_slots)

BOOST_AUTO_TEST_CASE(a_permit_is_won_by_a_quorum_on_one_slot_and_by_nothing_else) {
    std::size_t won = 0, second = 0, lost = 0;
    for (unsigned n = 1; n <= 5; ++n) {
        auto const quorum = majority[n];
        every_answer(n, [&](std::string const& said, std::vector<unsigned> const& order) {
            machine m(n, ttl, true);
            m.acquire(at(0s), instance_set::first(n));
            std::string heard(n, '-');
            for (auto const i : order) {
                heard[i] = said[i];
                auto const a = say(m, i, said[i]);
                if (a.empty()) continue;
                BOOST_TEST_CONTEXT(in_words(said, order)) {
                    auto const have = holders(heard, m);
                    if (a.effect == tenure_effect::won) {
                        ++won;
                        BOOST_TEST(have.size() >= quorum);
                        BOOST_TEST(m.slot().fixed());
                        // Those with another slot get ours.
                        BOOST_TEST(a.heal.size() == given(heard) - have.size());
                    } else if (!a.acquire.empty()) {
                        ++second;
                        BOOST_TEST(given(heard) >= quorum);
                        BOOST_TEST(have.size() < quorum);
                        BOOST_TEST((a.acquire & have).empty());
                        BOOST_TEST(a.acquire.size() == given(heard) - have.size());
                        BOOST_TEST(m.slot().fixed());
                    } else {
                        ++lost;
                        BOOST_TEST(given(said) < quorum);
                        // All that may have our token.
                        for (unsigned at = 0; at < n; ++at)
                            BOOST_TEST(a.release.contains(at) ==
                                       (gives(heard[at]) || heard[at] == '-'));
                    }
                }
                return;
            }
            BOOST_ERROR("undecided: " << in_words(said, order));
        });
    }
    BOOST_TEST(won > 0U);
    BOOST_TEST(second > 0U);
    BOOST_TEST(lost > 0U);
}

// Which answer comes first is chance. With three instances, each quorum on one slot is found.
BOOST_AUTO_TEST_CASE(of_three_instances_two_that_agree_are_enough) {
    every_answer(3, [](std::string const& said, std::vector<unsigned> const& order) {
        for (auto const slot : {'a', 'b', 'c'}) {
            if (given(said, slot) < 2) continue;
            machine m(3, ttl, true);
            m.acquire(at(0s), of("012"));
            auto won = false;
            for (auto const i : order) won = won || say(m, i, said[i]).effect == tenure_effect::won;
            BOOST_TEST_CONTEXT(in_words(said, order)) {
                BOOST_TEST(won);
                BOOST_TEST(m.slot().value() == slot_of(slot));
            }
        }
    });
}

BOOST_AUTO_TEST_CASE(the_second_round_asks_for_the_slot_that_most_have_given) {
    machine m(5, ttl, true);
    m.acquire(at(0s), of("01234"));
    BOOST_TEST(text(say(m, 0, 'a')) == "nothing");
    BOOST_TEST(text(say(m, 1, 'b')) == "nothing");
    BOOST_TEST(text(say(m, 2, 'n')) == "nothing");
    BOOST_TEST(text(say(m, 3, 'b')) == "nothing");
    BOOST_TEST(text(say(m, 4, 'f')) == "acquire 0");
    BOOST_TEST(m.slot().value() == slot_of('b'));
    BOOST_TEST(text(say(m, 0, 'b')) == "won");
}

BOOST_AUTO_TEST_CASE(until_an_instance_has_answered_the_slot_is_the_start) {
    machine m(3, ttl, true);
    m.search_from(9'999);
    m.acquire(at(0s), of("012"));
    BOOST_TEST(m.slot().value() == 9'999U);
    BOOST_TEST(!m.slot().named());
    BOOST_TEST(!m.slot().fixed());
    BOOST_TEST(text(say(m, 1, 'n')) == "nothing");
    BOOST_TEST(!m.slot().named());
    BOOST_TEST(text(say(m, 2, 'c')) == "nothing");
    BOOST_TEST(m.slot().named());
    BOOST_TEST(m.slot().value() == slot_of('c'));
}

// A lease has them: see doc/internals/memory.md.
BOOST_AUTO_TEST_CASE(a_slot_costs_a_lease_no_memory) {
    BOOST_TEST(sizeof(protocol::permit_slot) == 2U);
    BOOST_TEST(sizeof(protocol::tally) == 16U);
    BOOST_TEST(sizeof(protocol::acquisition<redlock_rules>) <= 32U);
    BOOST_TEST(sizeof(machine) <= 152U);
}

BOOST_AUTO_TEST_SUITE_END()
