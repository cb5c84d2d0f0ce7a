// Lets an allocation of this thread fail, in executables that link failing_new.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace holdfast::test {

// Decides whether an allocation may fail. `frames` are the calling functions, innermost first.
using may_fail = bool (*)(void* const* frames, std::size_t count);

// Starts to count allocations. The one with that number fails, once. Numbers begin at 0.
void fail_allocation(std::uint64_t number, may_fail) noexcept;
void count_allocations() noexcept;
// Stops counting. The count stays until the next start.
void allocate_as_ever() noexcept;
void resume_counting() noexcept;

std::uint64_t allocations_counted() noexcept;

struct failed_allocation {
    bool reached = false; // the allocation with the number was asked for
    bool failed = false;  // may_fail let it fail
    std::array<void*, 64> frames{};
    std::size_t depth = 0;
};
failed_allocation const& last_failed_allocation() noexcept;

} // namespace holdfast::test
