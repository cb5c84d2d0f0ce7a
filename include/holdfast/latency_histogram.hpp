#ifndef HOLDFAST_LATENCY_HISTOGRAM_HPP
#define HOLDFAST_LATENCY_HISTOGRAM_HPP

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>

namespace holdfast {

/// How often durations of each size occurred. The sizes are those of a Prometheus histogram, except
/// that each count is that of its own bucket alone.
struct latency_histogram {
    /// The greatest duration of each bucket but the last, which has no limit.
    static constexpr std::array<std::chrono::microseconds, 19> bounds{
        std::chrono::microseconds(50),    std::chrono::microseconds(100),
        std::chrono::microseconds(250),   std::chrono::microseconds(500),
        std::chrono::milliseconds(1),     std::chrono::microseconds(2'500),
        std::chrono::milliseconds(5),     std::chrono::milliseconds(10),
        std::chrono::milliseconds(25),    std::chrono::milliseconds(50),
        std::chrono::milliseconds(100),   std::chrono::milliseconds(250),
        std::chrono::milliseconds(500),   std::chrono::seconds(1),
        std::chrono::milliseconds(2'500), std::chrono::seconds(5),
        std::chrono::seconds(10),         std::chrono::seconds(30),
        std::chrono::seconds(60)};
    /// The number of buckets, with the last one.
    static constexpr std::size_t buckets = bounds.size() + 1;

    std::array<std::uint64_t, buckets> counts{}; ///< durations in each bucket
    std::chrono::nanoseconds sum{0};             ///< of all durations

    /// The number of all durations.
    std::uint64_t count() const noexcept {
        return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
    }
    /// Whether all counts and the sums are equal.
    friend bool operator==(latency_histogram const&, latency_histogram const&) noexcept = default;
};

} // namespace holdfast

#endif
