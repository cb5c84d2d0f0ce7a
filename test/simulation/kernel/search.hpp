// Looks for a schedule that violates a property.
#ifndef HOLDFAST_TEST_SIMULATION_KERNEL_SEARCH_HPP
#define HOLDFAST_TEST_SIMULATION_KERNEL_SEARCH_HPP

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast::test {

inline std::uint64_t number_from(char const* variable, std::uint64_t otherwise) {
    auto const* const text = std::getenv(variable);
    return text != nullptr ? std::stoull(text) : otherwise;
}

/// HOLDFAST_SCHEDULES; less under a sanitizer, which has nothing to find in one thread that the
/// first thousands do not show.
inline std::uint64_t schedules_to_try() {
#if defined(HOLDFAST_TEST_SANITIZED)
    return number_from("HOLDFAST_SCHEDULES", 5'000);
#else
    return number_from("HOLDFAST_SCHEDULES", 20'000);
#endif
}

struct finding {
    std::uint64_t seed;
    std::string violation;
};

/// The first schedule that violates `property`, or any property if that is empty. `run` takes a
/// seed and gives what was violated, or nothing.
template <class Run>
std::optional<finding> search(std::uint64_t schedules, Run&& run, std::string_view property = {}) {
    auto const first = number_from("HOLDFAST_SEED", 1);
    for (auto seed = first; seed < first + schedules; ++seed) {
        std::string v = run(seed);
        if (!v.empty() && v.starts_with(property)) return finding{seed, std::move(v)};
    }
    return std::nullopt;
}

/// What is broken must be found out, by the property that it breaks.
template <class Run>
void refute(Run&& run, std::string_view property) {
    auto const found = search(20'000, run, property);
    BOOST_REQUIRE(found.has_value());
    BOOST_TEST_MESSAGE("seed " << found->seed << ": " << found->violation);
}

} // namespace holdfast::test

#endif
