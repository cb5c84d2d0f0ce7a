// Chooses the system clock that lease_clock reads, and replaces a clock that the system refuses.
#ifndef HOLDFAST_CLOCK_CHOICE_HPP
#define HOLDFAST_CLOCK_CHOICE_HPP

#include <atomic>
#include <chrono>
#include <cstdint>
#include <time.h>

namespace holdfast {

/// A sandbox may refuse a clock, from the start or later (seccomp, where the vdso does not answer).
/// A clock that stands still is worse than none: each lease would seem held for ever. So a second
/// clock takes over, and goes on from the last reading of the first clock. The second clock does
/// not count suspends. If both clocks are refused, each reading is a day later than the reading
/// before, so all leases are over.
///
/// `Read` is like ::clock_gettime.
///
/// @par Thread safety  Safe.
template <class Read>
class clock_choice {
public:
    using nanoseconds = std::chrono::nanoseconds;

    explicit clock_choice(Read read = {}) noexcept
        : read_(read) {
        nanoseconds first{}, second{};
        if (!get(second_id, second)) return;
        if (get(first_id, first)) {
            ahead_.store((first - second).count(), std::memory_order_relaxed);
        } else {
            refused_.store(true, std::memory_order_relaxed);
        }
    }

    nanoseconds now() noexcept {
        nanoseconds t{};
        if (!refused_.load(std::memory_order_acquire)) {
            if (get(first_id, t)) {
                remember(t);
                return t;
            }
            take_over();
        }
        if (get(second_id, t)) return t + nanoseconds(ahead_.load(std::memory_order_relaxed));
        return no_clock +
               std::chrono::hours(24) * (readings_.fetch_add(1, std::memory_order_relaxed) % most);
    }

#if defined(CLOCK_BOOTTIME)
    static constexpr clockid_t first_id = CLOCK_BOOTTIME;
#else
    // On macOS this clock goes on during sleep, as CLOCK_BOOTTIME does on Linux.
    static constexpr clockid_t first_id = CLOCK_MONOTONIC_RAW;
#endif
    static constexpr clockid_t second_id = CLOCK_MONOTONIC;

private:
    /// Later than any clock that counts from a boot, and so far below the greatest time point that
    /// a ttl can be added.
    static constexpr nanoseconds no_clock = std::chrono::hours(24 * 365 * 50);
    static constexpr std::int64_t most = 30'000; // days

    /// A reading is remembered if it is at least this much later than the last one remembered.
    static constexpr nanoseconds close = std::chrono::milliseconds(1);

    void remember(nanoseconds t) noexcept {
        if (t.count() - latest_.load(std::memory_order_relaxed) >= close.count()) raise(latest_, t);
    }
    // Raises `ahead_` if the second clock is behind: the machine may have been suspended since the
    // constructor.
    void take_over() noexcept {
        nanoseconds second{};
        auto const latest = nanoseconds(latest_.load(std::memory_order_relaxed));
        auto const ahead = nanoseconds(ahead_.load(std::memory_order_relaxed));
        if (get(second_id, second) && second + ahead < latest)
            raise(ahead_, latest + close - second);
        refused_.store(true, std::memory_order_release);
    }
    static void raise(std::atomic<std::int64_t>& to, nanoseconds least) noexcept {
        auto now = to.load(std::memory_order_relaxed);
        while (now < least.count() &&
               !to.compare_exchange_weak(now, least.count(), std::memory_order_relaxed)) {
        }
    }

    bool get(clockid_t id, nanoseconds& to) noexcept {
        timespec t{};
        if (read_(id, &t) != 0) return false;
        to = std::chrono::seconds(t.tv_sec) + nanoseconds(t.tv_nsec);
        return true;
    }

    Read read_;
    std::atomic<std::int64_t> ahead_{0};  ///< the first clock's lead over the second clock
    std::atomic<std::int64_t> latest_{0}; ///< the last remembered reading of the first clock
    std::atomic<bool> refused_{false};
    std::atomic<std::int64_t> readings_{0};
};

} // namespace holdfast

#endif
