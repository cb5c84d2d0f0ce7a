// Waits for an event by polling.
#pragma once

#include <chrono>
#include <thread>

namespace holdfast::test {

// Calls `happened` repeatedly, with `pause` in between, until it returns true. False if `timeout`
// has passed.
template <class Predicate>
[[nodiscard]] bool wait_until(Predicate happened,
                              std::chrono::milliseconds timeout = std::chrono::seconds{5},
                              std::chrono::microseconds pause = std::chrono::microseconds{300}) {
    auto const deadline = std::chrono::steady_clock::now() + timeout;
    while (!happened()) {
        if (std::chrono::steady_clock::now() >= deadline) return happened();
        std::this_thread::sleep_for(pause);
    }
    return true;
}

} // namespace holdfast::test
