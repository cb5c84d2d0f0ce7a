// The statistics of a client. Any thread may read them.
#ifndef HOLDFAST_RUNTIME_COUNTERS_HPP
#define HOLDFAST_RUNTIME_COUNTERS_HPP

#include <holdfast/client_stats.hpp>

#include <atomic>
#include <cstdint>

namespace holdfast::runtime {

struct counters {
    using counter = std::atomic<std::uint64_t>;

    static void add(counter& c, std::uint64_t n = 1) noexcept {
        c.fetch_add(n, std::memory_order_relaxed);
    }
    static void take(counter& c) noexcept { c.fetch_sub(1, std::memory_order_relaxed); }
    static std::uint64_t get(counter const& c) noexcept {
        return c.load(std::memory_order_relaxed);
    }

    /// Reads all counters except those of the instances.
    client_stats read() const {
        return {.acquired = get(acquired),
                .acquire_failed = get(acquire_failed),
                .rounds = get(rounds),
                .released = get(released),
                .renewals = get(renewals),
                .renewals_failed = get(renewals_failed),
                .lost = get(lost),
                .handoffs = get(handoffs),
                .pushes = get(pushes),
                .wasted_wakeups = get(wasted_wakeups),
                .split_votes = get(split_votes),
                .raises = get(raises),
                .held = get(held),
                .pending = get(pending),
                .waiters = get(waiters)};
    }

    counter acquired{0}, acquire_failed{0}, rounds{0}, released{0}, renewals{0}, renewals_failed{0},
        lost{0}, held{0}, pending{0}, waiters{0}, handoffs{0}, pushes{0}, wasted_wakeups{0},
        split_votes{0}, raises{0};
};

} // namespace holdfast::runtime

#endif
