// How long to wait before trying again.
#ifndef HOLDFAST_PROTOCOL_BACKOFF_HPP
#define HOLDFAST_PROTOCOL_BACKOFF_HPP

#include "protocol/time.hpp"

#include <algorithm>
#include <cstdint>

namespace holdfast::protocol {

/// Full jitter: uniform in (0, min(cap, base * 2^attempt)], from 64 random bits. Contenders that collided
/// once spread out at once, as the whole interval is random. Source:
/// https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
constexpr duration full_jitter(duration base, duration cap, unsigned attempt, std::uint64_t random) {
    auto limit = base;
    for (; attempt > 0 && limit < cap; --attempt) limit *= 2;
    limit = std::max(std::min(limit, cap), duration(1));
    return duration(1 + static_cast<duration::rep>(random % static_cast<std::uint64_t>(limit.count())));
}

} // namespace holdfast::protocol

#endif
