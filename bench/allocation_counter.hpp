// Counts the allocations of the executable that links allocation_counter.cpp.
#ifndef HOLDFAST_BENCH_ALLOCATION_COUNTER_HPP
#define HOLDFAST_BENCH_ALLOCATION_COUNTER_HPP

#include <cstdint>

namespace holdfast::bench {

/// The number of allocations of the calling thread since its start. It counts malloc, calloc,
/// realloc, aligned_alloc, posix_memalign and memalign, and so operator new, in this executable and
/// in every library that it loads. Measure with the difference of two calls.
std::uint64_t allocations() noexcept;

/// False under a sanitizer, which has its own malloc, and without glibc. allocations() is then
/// always 0.
bool counts_allocations() noexcept;

} // namespace holdfast::bench

#endif
