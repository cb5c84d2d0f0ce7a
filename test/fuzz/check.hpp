// An assertion for fuzz targets that does not depend on NDEBUG.
#ifndef HOLDFAST_TEST_FUZZ_CHECK_HPP
#define HOLDFAST_TEST_FUZZ_CHECK_HPP

#include <cstdio>
#include <cstdlib>

namespace holdfast::test {

/// Ends the process if the condition is false. libFuzzer reports that as a finding.
inline void check(bool holds, int line = __builtin_LINE()) {
    if (holds) return;
    std::fprintf(stderr, "check in line %d does not hold\n", line);
    std::abort();
}

} // namespace holdfast::test

#endif
