// The search for a schedule that violates a property.
//
// A run takes a seed and a stream for the story of its schedule, which may be null. It returns the
// violation, or an empty string. A run without a story takes only the seed.
#ifndef HOLDFAST_TEST_SIMULATION_KERNEL_SEARCH_HPP
#define HOLDFAST_TEST_SIMULATION_KERNEL_SEARCH_HPP

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace holdfast::test {

inline std::uint64_t number_from(char const* variable, std::uint64_t otherwise) {
    auto const* const text = std::getenv(variable);
    return text != nullptr ? std::stoull(text) : otherwise;
}

/// The number in HOLDFAST_SCHEDULES. The default is what a test of a change has time for, and
/// tools/soak tries many more.
inline std::uint64_t schedules_to_try(std::uint64_t by_default = 5'000) {
    return number_from("HOLDFAST_SCHEDULES", by_default);
}

/// How many schedules have violated nothing, of the rules that are meant to hold.
inline std::uint64_t schedules_without_violation = 0;

struct finding {
    std::uint64_t seed;
    std::string violation;
};

template <class Run>
std::string run_schedule(Run& run, std::uint64_t seed, std::ostream* story = nullptr) {
    if constexpr (std::is_invocable_v<Run&, std::uint64_t, std::ostream*>) {
        return run(seed, story);
    } else {
        return run(seed);
    }
}

/// Finds the first schedule from `first` on that violates `property`. An empty `property` means
/// any.
template <class Run>
std::optional<finding> search(std::uint64_t schedules, Run&& run, std::string_view property = {},
                              std::uint64_t first = number_from("HOLDFAST_SEED", 1)) {
    for (auto seed = first; seed < first + schedules; ++seed) {
        auto violation = run_schedule(run, seed);
        if (!violation.empty() && violation.starts_with(property))
            return finding{seed, std::move(violation)};
    }
    return std::nullopt;
}

/// The last part of the story of a schedule.
template <class Run>
std::string story_of(Run& run, std::uint64_t seed) {
    static constexpr std::size_t longest = 20'000;
    std::ostringstream story;
    run_schedule(run, seed, &story);
    auto text = std::move(story).str();
    if (text.size() > longest) text.erase(0, text.find('\n', text.size() - longest) + 1);
    return text;
}

/// Checks that no schedule violates a property. A failure names the seed, and tells the story.
template <class Run>
void stands(std::uint64_t schedules, Run&& run) {
    auto const found = search(schedules, run);
    if (found) {
        BOOST_ERROR("seed " << found->seed << ": " << found->violation << "\n"
                            << story_of(run, found->seed));
    } else {
        schedules_without_violation += schedules;
        BOOST_TEST(!found.has_value());
    }
}

/// Checks that the search finds a broken rule, by the property that the rule protects. Where few
/// schedules break it, `known` is the seed of one that did: this one is tried first. The seeds do
/// not depend on HOLDFAST_SEED, because other seeds may need many more schedules.
template <class Run>
void refute(Run&& run, std::string_view property, std::uint64_t schedules = 20'000,
            std::uint64_t known = 0) {
    auto found = search(known > 0 ? 1 : 0, run, property, known);
    if (!found) found = search(schedules, run, property, 1);
    BOOST_REQUIRE(found.has_value());
    BOOST_TEST_MESSAGE("seed " << found->seed << ": " << found->violation);
}

inline void all_happened(std::initializer_list<std::uint64_t> counts) {
    for (auto const n : counts) BOOST_TEST(n > 0U);
}

} // namespace holdfast::test

#endif
