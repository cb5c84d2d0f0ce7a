// The tally against a simple model, for every combination of answers from up to five instances.
#include "protocol/tenure/tally.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

using namespace holdfast::protocol;

namespace {

constexpr std::array all_verdicts{verdict::yes,     verdict::no,      verdict::unsent,
                                  verdict::unknown, verdict::refused, verdict::other};
// A table made by hand, so that the test does not repeat a wrong formula.
constexpr std::array<unsigned, 8> majority{0, 1, 2, 2, 3, 3, 4, 4};

/// The vote of an instance. `said` is empty without an answer.
struct vote {
    bool asked = true;
    std::optional<verdict> said;
};

struct model {
    std::vector<vote> votes;

    auto how_many(auto which) const {
        return static_cast<unsigned>(std::count_if(votes.begin(), votes.end(), which));
    }
    unsigned yes() const {
        return how_many([](vote const& v) { return v.said == verdict::yes; });
    }
    unsigned no() const {
        return how_many([](vote const& v) { return v.said == verdict::no; });
    }
    unsigned pending() const {
        return how_many([](vote const& v) { return v.asked && !v.said; });
    }
    unsigned n() const { return static_cast<unsigned>(votes.size()); }
    unsigned other() const {
        return how_many([](vote const& v) { return v.said == verdict::other; });
    }
    unsigned failed() const { return n() - yes() - no() - other() - pending(); }
    unsigned quorum() const { return majority[n()]; }

    bool won() const { return yes() >= quorum(); }
    bool impossible() const { return yes() + pending() < quorum(); }
    // The instances that answered, or may still answer, are no quorum.
    bool too_few_answered() const { return yes() + no() + other() + pending() < quorum(); }
    bool has_verdict() const { return yes() + no() + other() >= quorum(); }
    // The instances that did not say no, and have no other slot, are no quorum.
    bool denied() const { return yes() + pending() + failed() < quorum(); }

    std::string text() const {
        std::string s;
        for (auto const& v : votes)
            s += !v.asked ? '-' : v.said ? "ynsuro"[static_cast<int>(*v.said)] : '?';
        return s;
    }
};

tally counted(model const& m) {
    instance_set asked;
    for (unsigned i = 0; i < m.n(); ++i) {
        if (m.votes[i].asked) asked.insert(i);
    }
    tally t(m.n(), m.quorum(), asked);
    for (unsigned i = 0; i < m.n(); ++i) {
        if (m.votes[i].said) BOOST_TEST(t.count(i, *m.votes[i].said));
    }
    return t;
}

void compare(tally const& t, model const& m) {
    BOOST_TEST_CONTEXT("votes " << m.text()) {
        BOOST_TEST(t.won() == m.won());
        BOOST_TEST(t.impossible() == m.impossible());
        BOOST_TEST(t.too_few_answered() == m.too_few_answered());
        BOOST_TEST(t.has_verdict() == m.has_verdict());
        BOOST_TEST(t.denied() == m.denied());
        BOOST_TEST(t.yes().size() == m.yes());
        BOOST_TEST(t.no().size() == m.no());
        BOOST_TEST(t.other().size() == m.other());
        BOOST_TEST(t.lacking().size() == m.no() + m.other());
        BOOST_TEST(t.failed().size() == m.failed());
        BOOST_TEST(t.pending().size() == m.pending());
        BOOST_TEST(t.quorum() == m.quorum());
        for (unsigned i = 0; i < m.n(); ++i) {
            auto const& v = m.votes[i];
            BOOST_TEST(t.yes().contains(i) == (v.said == verdict::yes));
            BOOST_TEST(t.no().contains(i) == (v.said == verdict::no));
            BOOST_TEST(t.other().contains(i) == (v.said == verdict::other));
            BOOST_TEST(t.pending().contains(i) == (v.asked && !v.said));
        }
    }
}

/// Visits every combination. An instance is not asked, has not answered, or has given one of the
/// verdicts.
template <class Visit>
void every_combination(unsigned n, Visit&& visit) {
    constexpr std::size_t states = all_verdicts.size() + 2;
    std::size_t total = 1;
    for (unsigned i = 0; i < n; ++i) total *= states;
    for (std::size_t c = 0; c < total; ++c) {
        model m;
        for (auto rest = c; m.votes.size() < n; rest /= states) {
            auto const state = rest % states;
            vote v;
            if (state == 0) v.asked = false;
            if (state >= 2) v.said = all_verdicts[state - 2];
            m.votes.push_back(v);
        }
        visit(m);
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(tally)

BOOST_AUTO_TEST_CASE(every_combination_of_answers_is_counted_as_by_the_model) {
    std::size_t seen = 0;
    for (unsigned n = 1; n <= 5; ++n) {
        every_combination(n, [&](model const& m) {
            ++seen;
            compare(counted(m), m);
        });
    }
    BOOST_TEST(seen == 8U + 64U + 512U + 4096U + 32768U);
}

BOOST_AUTO_TEST_CASE(the_order_of_answers_does_not_matter_once_all_are_in) {
    model m;
    for (auto const v :
         {verdict::yes, verdict::no, verdict::unknown, verdict::yes, verdict::refused}) {
        m.votes.push_back({.asked = true, .said = v});
    }
    std::array<unsigned, 5> order{0, 1, 2, 3, 4};
    do {
        holdfast::protocol::tally t(5, 3, instance_set::first(5));
        for (auto const i : order) BOOST_TEST(t.count(i, *m.votes[i].said));
        compare(t, m);
    } while (std::next_permutation(order.begin(), order.end()));
}

BOOST_AUTO_TEST_CASE(an_instance_is_counted_once_whatever_it_says_later) {
    for (auto const first : all_verdicts) {
        for (auto const second : all_verdicts) {
            model const once{{{true, first}, {true, {}}, {true, {}}}};
            auto t = counted(once);
            BOOST_TEST(!t.count(0, second));
            compare(t, once);
        }
    }
}

BOOST_AUTO_TEST_CASE(a_repeated_yes_makes_no_quorum) {
    holdfast::protocol::tally t(3, 2, instance_set::first(3));
    BOOST_TEST(t.count(1, verdict::yes));
    for (int again = 0; again < 3; ++again) BOOST_TEST(!t.count(1, verdict::yes));
    BOOST_TEST(!t.won());
    BOOST_TEST(t.yes().size() == 1U);
}

BOOST_AUTO_TEST_CASE(an_instance_that_was_not_asked_counts_as_failed_and_cannot_answer) {
    auto asked = instance_set::first(3);
    asked.erase(2);
    holdfast::protocol::tally t(3, 2, asked);
    BOOST_TEST((t.failed() == instance_set::only(2)));
    for (auto const v : all_verdicts) BOOST_TEST(!t.count(2, v));
    BOOST_TEST((t.failed() == instance_set::only(2)));
    BOOST_TEST(t.yes().empty());
    BOOST_TEST(t.no().empty());
}

BOOST_AUTO_TEST_CASE(an_instance_that_is_not_configured_cannot_answer) {
    holdfast::protocol::tally t(3, 2, instance_set::first(3));
    BOOST_TEST(!t.count(3, verdict::yes));
    BOOST_TEST(!t.count(31, verdict::yes));
    BOOST_TEST(t.yes().empty());
}

BOOST_AUTO_TEST_CASE(half_of_an_even_number_has_not_won) {
    for (unsigned n = 2; n <= 6; n += 2) {
        holdfast::protocol::tally t(n, majority[n], instance_set::first(n));
        for (unsigned i = 0; i < n / 2; ++i) t.count(i, verdict::yes);
        BOOST_TEST(!t.won());
        BOOST_TEST(!t.impossible());
        for (unsigned i = n / 2; i < n; ++i) t.count(i, verdict::no);
        BOOST_TEST(!t.won());
        BOOST_TEST(t.impossible());
        BOOST_TEST(t.denied());
        BOOST_TEST(!t.too_few_answered());
    }
}

BOOST_AUTO_TEST_CASE(thirty_two_instances_are_counted) {
    holdfast::protocol::tally t(32, 17, instance_set::first(32));
    for (unsigned i = 31; i > 15; --i) t.count(i, verdict::yes);
    BOOST_TEST(!t.won());
    t.count(0, verdict::yes);
    BOOST_TEST(t.won());
    BOOST_TEST(t.pending().size() == 15U);
}

BOOST_AUTO_TEST_SUITE_END()
