// Notices that the machine stood still, because it was suspended or had too much to do.
//
// Some promises have a limit of a few hundred milliseconds: a process that does not take its turn
// in a line is passed. If the machine stands still for as long, the promise has nothing to say
// about what follows, and the test begins again.
#ifndef HOLDFAST_TEST_SUPPORT_STANDSTILL_WATCH_HPP
#define HOLDFAST_TEST_SUPPORT_STANDSTILL_WATCH_HPP

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stop_token>
#include <thread>

namespace holdfast::test {

/// Watches from its construction on, in a thread of its own.
class standstill_watch {
public:
    /// True if the machine has stood still for so long at a time.
    bool has_seen(std::chrono::milliseconds length) const { return longest_.load() >= length; }

private:
    using clock = std::chrono::steady_clock;
    static constexpr std::chrono::milliseconds pause{10};

    void run(std::stop_token const& stop) {
        for (auto last = clock::now(); !stop.stop_requested();) {
            std::this_thread::sleep_for(pause);
            auto const now = clock::now();
            longest_.store(std::max<clock::duration>(longest_.load(), now - last - pause));
            last = now;
        }
    }

    std::atomic<clock::duration> longest_{};
    std::jthread thread_{[this](std::stop_token const& stop) { run(stop); }};
};

} // namespace holdfast::test

#endif
