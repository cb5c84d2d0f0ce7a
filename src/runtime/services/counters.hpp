// The statistics of a client. Any thread may read them.
#ifndef HOLDFAST_RUNTIME_COUNTERS_HPP
#define HOLDFAST_RUNTIME_COUNTERS_HPP

#include <holdfast/client_stats.hpp>
#include <holdfast/clock.hpp>

#include "runtime/services/duration_counter.hpp"
#include "runtime/services/stall_record.hpp"

#include <array>
#include <atomic>
#include <cstddef>
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
        client_stats s{.acquired = get(acquired),
                       .acquire_failed = get(acquire_failed),
                       .rounds = get(rounds),
                       .released = get(released),
                       .extended = get(extended),
                       .extend_failed = get(extend_failed),
                       .lost = get(lost),
                       .revoked = get(revoked),
                       .revocations = get(revocations),
                       .handovers = get(handovers),
                       .pushes = get(pushes),
                       .wasted_wakeups = get(wasted_wakeups),
                       .split_votes = get(split_votes),
                       .raises = get(raises),
                       .observer_failures = get(observer_failures),
                       .held = get(held),
                       .permits = get(permits),
                       .pending = get(pending),
                       .waiters = get(waiters)};
        for (std::size_t i = 0; i < acquires.size(); ++i) s.acquires[i] = acquires[i].read();
        s.waits = waits.read();
        s.holds = holds.read();
        s.extensions = extensions.read();
        s.longest_stall = stalls.longest();
        return s;
    }
    /// An acquire has ended. `waited`: behind a holder.
    void ended(acquire_outcome how, lease_clock::duration took, bool waited) noexcept {
        acquires[static_cast<std::size_t>(how)].add(took);
        if (waited) waits.add(took);
    }

    counter acquired{0}, acquire_failed{0}, rounds{0}, released{0}, extended{0}, extend_failed{0},
        lost{0}, revoked{0}, revocations{0}, held{0}, permits{0}, pending{0}, waiters{0},
        handovers{0}, pushes{0}, wasted_wakeups{0}, split_votes{0}, raises{0}, observer_failures{0};
    std::array<duration_counter, acquire_outcomes> acquires;
    duration_counter waits, holds, extensions;
    stall_record stalls;
};

} // namespace holdfast::runtime

#endif
