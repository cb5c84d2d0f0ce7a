// Shifts the wall clock of other processes.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace holdfast::test {

// A process that starts with environment() sees the wall clock shifted by shift(). A change takes
// effect at once. Monotonic clocks do not change. Several processes may share one object. The
// program must be linked dynamically.
//
// Waits inside the kernel are not shifted: timers and condition variables that use the wall clock.
//
// Thread safety: distinct objects: safe. Shared objects: safe.
class shifted_clock {
public:
    // Creates two files in this folder. The processes read them when they start.
    explicit shifted_clock(std::string const& folder);
    ~shifted_clock();

    shifted_clock(shifted_clock const&) = delete;
    shifted_clock& operator=(shifted_clock const&) = delete;

    // Adds to the shift; a negative number moves the clock back.
    void advance(std::chrono::milliseconds by) noexcept;
    [[nodiscard]] std::chrono::milliseconds shift() const noexcept;

    // The variables ("NAME=value") that the process needs. They add to those of this process, or
    // replace them.
    [[nodiscard]] std::vector<std::string> environment() const;

    // True if this process, which has run for a while, uses the clock.
    [[nodiscard]] bool used_by(int pid) const;

private:
    std::string file_;
    std::string library_;
    std::int64_t* nanoseconds_ = nullptr; // mapped from the file
};

} // namespace holdfast::test
