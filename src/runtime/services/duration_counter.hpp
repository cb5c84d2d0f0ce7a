// A latency_histogram in production: written on the executor, read from any thread.
#ifndef HOLDFAST_RUNTIME_DURATION_COUNTER_HPP
#define HOLDFAST_RUNTIME_DURATION_COUNTER_HPP

#include <holdfast/clock.hpp>
#include <holdfast/latency_histogram.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace holdfast::runtime {

/// @par Thread safety  One thread at a time calls add(), so a store is enough; read() is for any.
class duration_counter {
public:
    void add(lease_clock::duration d) noexcept {
        d = std::max(d, lease_clock::duration::zero());
        auto const& bounds = latency_histogram::bounds;
        auto const found = std::lower_bound(bounds.begin(), bounds.end(), d);
        increase(counts_[static_cast<std::size_t>(found - bounds.begin())], 1);
        increase(sum_, d.count());
    }
    latency_histogram read() const noexcept {
        latency_histogram h;
        for (std::size_t i = 0; i < h.counts.size(); ++i)
            h.counts[i] = counts_[i].load(std::memory_order_relaxed);
        h.sum = std::chrono::nanoseconds(sum_.load(std::memory_order_relaxed));
        return h;
    }

private:
    template <class Value>
    static void increase(std::atomic<Value>& a, std::type_identity_t<Value> by) noexcept {
        a.store(a.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
    }

    std::array<std::atomic<std::uint64_t>, latency_histogram::buckets> counts_{};
    std::atomic<std::int64_t> sum_{0};
};

} // namespace holdfast::runtime

#endif
