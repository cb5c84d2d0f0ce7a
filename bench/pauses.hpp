// Measures when the machine stood still. A shared machine sometimes takes processors away. Figures
// from such times do not describe the programs.
#ifndef HOLDFAST_BENCH_PAUSES_HPP
#define HOLDFAST_BENCH_PAUSES_HPP

#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

namespace holdfast::bench {

/// A thread on each processor sleeps for 1 ms at a time, and records each sleep that took longer
/// than `shortest_pause`. The scheduler never delays a mostly idle thread for so long.
class pause_monitor {
public:
    using clock = std::chrono::steady_clock;
    static constexpr std::chrono::milliseconds shortest_pause{20};

    pause_monitor();

    /// The time for which some processor stood still between `begin` and `end`, as far as it is
    /// known now.
    clock::duration within(clock::time_point begin, clock::time_point end) const;
    /// The total of all pauses so far.
    clock::duration total() const {
        return within(clock::time_point::min(), clock::time_point::max());
    }

private:
    struct pause {
        clock::time_point begin, end;
    };

    void monitor(std::stop_token const& stop, unsigned processor);

    mutable std::mutex mutex_;
    std::vector<pause> pauses_; ///< pauses of different processors may overlap
    std::vector<std::jthread> threads_;
};

} // namespace holdfast::bench

#endif
