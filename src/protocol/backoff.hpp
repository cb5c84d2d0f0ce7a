// How long to wait before trying again.
#ifndef HOLDFAST_PROTOCOL_BACKOFF_HPP
#define HOLDFAST_PROTOCOL_BACKOFF_HPP

#include "protocol/time.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace holdfast::protocol {

/// Full jitter: uniform in (0, min(cap, base * 2^attempt)], from 64 random bits. Contenders that
/// collided once spread out at once, as the whole interval is random. Source:
/// https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
constexpr duration full_jitter(duration base, duration cap, unsigned attempt,
                               std::uint64_t random) {
    auto limit = base;
    for (; attempt > 0 && limit < cap; --attempt) limit *= 2;
    limit = std::max(std::min(limit, cap), duration(1));
    return duration(1 +
                    static_cast<duration::rep>(random % static_cast<std::uint64_t>(limit.count())));
}

/// The pause before releases that a server refused are tried again: 10 ms, and twice as long after
/// each refusal in a row, up to a second.
constexpr duration refused_release_pause(unsigned refusals) {
    duration const first = std::chrono::milliseconds(10);
    return std::min<duration>(first * (1 << std::min(refusals, 7U)), std::chrono::seconds(1));
}

} // namespace holdfast::protocol

#endif
