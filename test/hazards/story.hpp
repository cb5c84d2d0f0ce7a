// A story of example/tour as a test.
#ifndef HOLDFAST_TEST_HAZARDS_STORY_HPP
#define HOLDFAST_TEST_HAZARDS_STORY_HPP

#include "tour/rows.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <sstream>
#include <string>

namespace holdfast::test {

/// Tells a story, and checks that all its facts were seen: so many hazards of the older way, and so
/// many times in which holdfast was safe in the same schedule.
inline void check_story(decltype(tour::row::show) show, std::ptrdiff_t hazards, std::ptrdiff_t safe,
                        std::string const& program = {}) {
    std::ostringstream told;
    tour::journal story(told);
    try {
        show(story, {program});
    } catch (std::exception const& e) {
        BOOST_FAIL(e.what() << '\n' << told.str());
    }
    for (auto const& fact : story.facts()) BOOST_TEST(fact.seen, fact.text << '\n' << told.str());
    auto const count = [&](tour::fact_kind kind) {
        return std::count_if(story.facts().begin(), story.facts().end(),
                             [&](auto const& fact) { return fact.kind == kind; });
    };
    BOOST_TEST(count(tour::fact_kind::hazard) == hazards);
    BOOST_TEST(count(tour::fact_kind::safe) == safe);
}

} // namespace holdfast::test

#endif
