// Waits for an event that can only be asked for, until a deadline.
#pragma once

#include <chrono>
#include <thread>

namespace holdfast::test {

// Asks `happened` again and again until it says yes (true) or `timeout` has passed (false).
template <class Predicate>
[[nodiscard]] bool wait_until(Predicate happened,
                              std::chrono::milliseconds timeout = std::chrono::seconds{5}) {
    auto const deadline = std::chrono::steady_clock::now() + timeout;
    while (!happened()) {
        if (std::chrono::steady_clock::now() >= deadline) return happened();
        std::this_thread::sleep_for(std::chrono::microseconds{300});
    }
    return true;
}

} // namespace holdfast::test
