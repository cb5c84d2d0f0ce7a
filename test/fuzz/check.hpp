// An assertion of a fuzz target, which also counts where NDEBUG is defined.
#ifndef HOLDFAST_TEST_FUZZ_CHECK_HPP
#define HOLDFAST_TEST_FUZZ_CHECK_HPP

#include <cstdio>
#include <cstdlib>

namespace holdfast::test {

/// Ends the process where it does not hold, which libFuzzer reports as a finding.
inline void check(bool holds, int line = __builtin_LINE()) {
    if (holds) return;
    std::fprintf(stderr, "check in line %d does not hold\n", line);
    std::abort();
}

} // namespace holdfast::test

#endif
