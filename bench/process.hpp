// A child process.
#ifndef HOLDFAST_BENCH_PROCESS_HPP
#define HOLDFAST_BENCH_PROCESS_HPP

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace holdfast::bench {

[[noreturn]] void fail_with(int error, std::string const& operation);

/// A child process, which ends with this object at the latest.
class process {
public:
    /// `descriptors` become 0, 1 and 2 of the child.
    process(std::vector<std::string> arguments, std::array<int, 3> const& descriptors);
    process(process&& other) noexcept;
    process& operator=(process&&) = delete;
    ~process() { end(); }

    /// The exit status; empty if the process has not ended by `deadline`.
    std::optional<int> wait(std::chrono::steady_clock::time_point deadline);

    void end() noexcept;

private:
    pid_t pid_ = -1;
};

std::string describe_end(std::optional<int> status);

} // namespace holdfast::bench

#endif
