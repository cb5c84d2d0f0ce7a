// The state of a key by the answers to a survey: for every set of answers of small groups.
#include "protocol/key/key_survey.hpp"
#include "protocol/rules.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

using namespace holdfast::protocol;
using kind = key_finding::kind;
using state = survey_result::state;

namespace {

constexpr key_finding absent{.found = kind::absent};
constexpr key_finding stale{.found = kind::stale};
constexpr key_finding foreign{.found = kind::foreign};
constexpr key_finding missing{};
constexpr key_finding unread{.found = kind::present};
constexpr key_finding of_a{.found = kind::present, .token = "a"};
constexpr key_finding of_b{.found = kind::present, .token = "b"};

using findings = std::vector<key_finding>;

survey_result evaluated(findings const& all) {
    return evaluate(all, redlock_rules::quorum(static_cast<unsigned>(all.size()), 0));
}

/// Calls `visit` with each group of `count` answers out of `kinds`.
template <class Kinds, class Visit>
void for_each_group(std::size_t count, Kinds const& kinds, Visit visit) {
    std::vector<std::size_t> at(count, 0);
    for (;;) {
        findings all;
        for (auto const i : at) all.push_back(kinds[i]);
        visit(all);
        std::size_t i = 0;
        while (i < count && ++at[i] == kinds.size()) at[i++] = 0;
        if (i == count) return;
    }
}

/// Calls `visit` with the group after each way to fill in the first answer that is missing or
/// unread, and so on.
template <class Visit>
void for_each_completion(findings all, Visit visit) {
    auto const it = std::find_if(all.begin(), all.end(), [](key_finding const& f) {
        return f.found == kind::unknown || (f.found == kind::present && f.token.empty());
    });
    if (it == all.end()) return visit(all);
    auto const may_be_absent = it->found == kind::unknown;
    for (auto const& f : {of_a, of_b, absent, stale, foreign}) {
        if (f.found != kind::present && !may_be_absent) continue;
        *it = f;
        for_each_completion(all, visit);
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(key_survey)

BOOST_AUTO_TEST_CASE(a_quorum_decides) {
    BOOST_TEST((evaluated({of_a, of_a, of_a, absent, missing}) ==
                survey_result{.is = state::held, .token = "a"}));
    BOOST_TEST((evaluated({absent, absent, absent, of_a, missing}).is == state::free));
    BOOST_TEST((evaluated({of_a, of_a, of_b, of_b, absent}).is == state::split));
    BOOST_TEST((evaluated({of_a, of_a, absent, absent, of_b}).is == state::split));
    BOOST_TEST((evaluated({foreign, foreign, foreign, absent, absent}).is == state::foreign));
    BOOST_TEST((evaluated({of_a}) == survey_result{.is = state::held, .token = "a"}));
    BOOST_TEST((evaluated({absent}).is == state::free));
    BOOST_TEST((evaluated({stale}).is == state::split));
    BOOST_TEST((evaluated({stale, stale, of_a}).is == state::split));
    BOOST_TEST((evaluated({stale, of_a, of_a}) == survey_result{.is = state::held, .token = "a"}));
    BOOST_TEST((evaluated({stale, absent, absent}).is == state::free));
}

BOOST_AUTO_TEST_CASE(missing_answers_are_never_taken_for_a_free_key) {
    BOOST_TEST((evaluated({missing}).is == state::unknown));
    BOOST_TEST((evaluated({absent, absent, missing, missing, missing}).is == state::unknown));
    BOOST_TEST((evaluated({of_a, of_a, missing, absent, absent}).is == state::unknown));
    BOOST_TEST((evaluated({unread, unread, unread}).is == state::unknown));
}

// The promise of the header, for each answer and each group of 1 to 5.
BOOST_AUTO_TEST_CASE(no_missing_answer_could_change_what_is_said) {
    constexpr std::array every{absent, stale, foreign, missing, unread, of_a, of_b};
    for (std::size_t count = 1; count <= 5; ++count) {
        for_each_group(count, every, [](findings const& all) {
            auto const said = evaluated(all);
            if (said.is == state::unknown) return;
            for_each_completion(all, [&](findings const& complete) {
                if (!(evaluated(complete) == said)) BOOST_ERROR("another answer changes the state");
            });
        });
    }
}

BOOST_AUTO_TEST_CASE(complete_answers_always_tell) {
    constexpr std::array known{absent, stale, foreign, of_a, of_b};
    for (std::size_t count = 1; count <= 5; ++count) {
        for_each_group(count, known, [](findings const& all) {
            if (evaluated(all).is == state::unknown) BOOST_ERROR("nothing is missing");
        });
    }
}

BOOST_AUTO_TEST_SUITE_END()
