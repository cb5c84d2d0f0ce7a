// Records latencies in fixed memory, for the floor and for the library alike.
#ifndef HOLDFAST_BENCH_LATENCY_HPP
#define HOLDFAST_BENCH_LATENCY_HPP

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace holdfast::bench {

/// A log-linear histogram. Every power of two of nanoseconds has 128 equal buckets, and a bucket is
/// reported by its middle. So a percentile is within 0.4 % of its sample, and exact below 256 ns.
/// Samples of 2^36 ns (69 s) and more count as just below that. A recorder takes 29.5 KiB, never
/// allocates, is trivially copyable and serves one thread. merge() combines recorders.
class latency {
public:
    void record(std::chrono::nanoseconds sample) noexcept {
        auto const ns = std::clamp<std::int64_t>(sample.count(), 0, longest);
        ++buckets_[bucket_of(static_cast<std::uint64_t>(ns))];
        ++count_;
        sum_ns_ += ns;
        longest_ns_ = std::max(longest_ns_, ns);
    }

    void merge(latency const& other) noexcept {
        for (std::size_t i = 0; i != buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
        count_ += other.count_;
        sum_ns_ += other.sum_ns_;
        longest_ns_ = std::max(longest_ns_, other.longest_ns_);
    }

    void clear() noexcept { *this = latency{}; }

    [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

    /// The mean, in microseconds like all results below. NaN if nothing was recorded.
    [[nodiscard]] double mean() const noexcept {
        return static_cast<double>(sum_ns_) / static_cast<double>(count_) / 1e3;
    }

    /// The greatest sample, exactly.
    [[nodiscard]] double max() const noexcept { return static_cast<double>(longest_ns_) / 1e3; }

    /// The smallest sample that at least `percent` (0 to 100) of the samples do not exceed.
    /// percentile(50) is the median, and percentile(100) is max(). NaN if nothing was recorded.
    [[nodiscard]] double percentile(double percent) const noexcept {
        if (count_ == 0) return std::numeric_limits<double>::quiet_NaN();
        if (percent >= 100.0) return max();
        double const wanted = std::max(percent, 0.0) / 100.0 * static_cast<double>(count_);
        std::uint64_t seen = 0;
        for (std::size_t i = 0; i != buckets_.size(); ++i) {
            seen += buckets_[i];
            if (seen != 0 && static_cast<double>(seen) >= wanted)
                return std::min(max(), middle_of(i) / 1e3);
        }
        return max();
    }

private:
    static constexpr unsigned precision = 7;
    static constexpr unsigned top_bit = 36;
    static constexpr std::size_t per_octave = std::size_t{1} << precision;
    static constexpr std::int64_t longest = (std::int64_t{1} << top_bit) - 1;

    // Octave 0 holds 0 to 127 ns, one bucket each. Octave o > 0 holds [128 << (o - 1), 256 << (o -
    // 1)).
    static constexpr std::size_t bucket_of(std::uint64_t ns) noexcept {
        if (ns < per_octave) return static_cast<std::size_t>(ns);
        auto const shift = static_cast<unsigned>(std::bit_width(ns)) - 1U - precision;
        return (std::size_t{shift} + 1) * per_octave + static_cast<std::size_t>(ns >> shift) -
               per_octave;
    }

    static constexpr double middle_of(std::size_t bucket) noexcept {
        if (bucket < per_octave) return static_cast<double>(bucket);
        auto const shift = bucket / per_octave - 1;
        auto const low = std::uint64_t{bucket % per_octave + per_octave} << shift;
        return static_cast<double>(low) +
               static_cast<double>((std::uint64_t{1} << shift) - 1) / 2.0;
    }

    std::array<std::uint64_t, (top_bit - precision + 1) * per_octave> buckets_{};
    std::uint64_t count_ = 0;
    std::int64_t sum_ns_ = 0;
    std::int64_t longest_ns_ = 0;
};

} // namespace holdfast::bench

#endif
