// The times at which the machine stood still. A shared machine takes its processors away now and
// then. Figures of such a time say nothing of the programs.
#ifndef HOLDFAST_BENCH_PAUSES_HPP
#define HOLDFAST_BENCH_PAUSES_HPP

#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

namespace holdfast::bench {

/// A thread on each processor sleeps for a millisecond at a time. It notes when that took longer
/// than `shortest_pause`. The scheduler never makes a thread that hardly runs wait so long.
class pause_watch {
public:
    using clock = std::chrono::steady_clock;
    static constexpr std::chrono::milliseconds shortest_pause{20};

    pause_watch();

    /// For how long some processor stood still between these times, as far as it is known by now.
    clock::duration within(clock::time_point begin, clock::time_point end) const;
    /// Of all pauses so far.
    clock::duration total() const {
        return within(clock::time_point::min(), clock::time_point::max());
    }

private:
    struct pause {
        clock::time_point begin, end;
    };

    void watch(std::stop_token const& stop, unsigned processor);

    mutable std::mutex mutex_;
    std::vector<pause> pauses_; ///< those of different processors may overlap
    std::vector<std::jthread> threads_;
};

} // namespace holdfast::bench

#endif
