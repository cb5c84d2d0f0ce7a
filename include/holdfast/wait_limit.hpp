#ifndef HOLDFAST_WAIT_LIMIT_HPP
#define HOLDFAST_WAIT_LIMIT_HPP

#include <chrono>

namespace holdfast {

/// How long an acquire waits for its lock. The time counts until the lock is acquired: what is done
/// under the lock has no part in it.
struct wait_limit {
    /// Zero or less: the acquire tries once, as lock::try_acquire().
    std::chrono::nanoseconds time{0};
};

/// As lock::try_acquire(): a lock that is held is errc::contended.
inline constexpr wait_limit try_now{};
/// As lock::acquire().
inline constexpr wait_limit no_limit{std::chrono::nanoseconds::max()};
/// As lock::try_acquire_for(): after this time, a lock that is held is errc::wait_timeout.
constexpr wait_limit wait_for(std::chrono::nanoseconds longest) noexcept {
    return {longest};
}

} // namespace holdfast

#endif
