// The wall clock of another process, movable from here.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace holdfast::test {

// A process that starts with environment() sees the system's wall clock moved by shift(), at once
// and whenever that changes; its monotonic clocks stay as they are. Many processes may share one.
// The program must be linked dynamically.
//
// Waits inside the kernel are not moved: timers and condition variables that wait by the wall
// clock.
//
// Thread safety: distinct objects: safe. Shared objects: safe.
class shifted_clock {
public:
    // Puts two files into this folder. The processes read them when they start.
    explicit shifted_clock(std::string const& folder);
    ~shifted_clock();

    shifted_clock(shifted_clock const&) = delete;
    shifted_clock& operator=(shifted_clock const&) = delete;

    // Adds to the shift; a negative number moves the clock back.
    void advance(std::chrono::milliseconds by) noexcept;
    [[nodiscard]] std::chrono::milliseconds shift() const noexcept;

    // Variables ("NAME=value") that the process needs in addition to, and instead of, those of this
    // process.
    [[nodiscard]] std::vector<std::string> environment() const;

    // Does this process, which has run for a while, really use it?
    [[nodiscard]] bool used_by(int pid) const;

private:
    std::string file_;
    std::string library_;
    std::int64_t* nanoseconds_ = nullptr; // in the file
};

} // namespace holdfast::test
