// Makes an allocation of this thread fail: for executables that failing_new.cpp is linked into.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace holdfast::test {

// Whether an allocation may fail, from the functions that led to it, innermost first.
using may_fail = bool (*)(void* const* frames, std::size_t count);

// From now on, the allocation with that number fails, once; the first is number 0. Others are
// counted.
void fail_allocation(std::uint64_t number, may_fail) noexcept;
void count_allocations() noexcept;
// Stops counting. The count stays until the next start.
void allocate_as_ever() noexcept;
void resume_counting() noexcept;

std::uint64_t allocations_counted() noexcept;

struct failed_allocation {
    bool reached = false; // the one with the number has been asked for
    bool failed = false;  // and was allowed to fail
    std::array<void*, 64> frames{};
    std::size_t depth = 0;
};
failed_allocation const& last_failed_allocation() noexcept;

} // namespace holdfast::test
