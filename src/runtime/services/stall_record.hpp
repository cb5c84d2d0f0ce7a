// Stalls: the event loop stood still, and the client's work was done late.
#ifndef HOLDFAST_RUNTIME_STALL_RECORD_HPP
#define HOLDFAST_RUNTIME_STALL_RECORD_HPP

#include <holdfast/clock.hpp>
#include <holdfast/detail/lease_data.hpp>
#include <holdfast/observer.hpp>

#include <atomic>

namespace holdfast::runtime {

/// @par Thread safety  note() on the executor, the rest from any thread. behind() may mix two
/// stalls,
///     which does no harm in a text.
class stall_record {
public:
    /// Work was due at `due`, and is done at `now`. True if an observer is to be told.
    bool note(lease_clock::time_point due, lease_clock::time_point now) noexcept {
        auto const length = now - due;
        if (length < stall_threshold) return false;
        ended_.store(now, std::memory_order_relaxed);
        length_.store(length, std::memory_order_relaxed);
        if (length > longest()) longest_.store(length, std::memory_order_relaxed);
        if (length <= 2 * told_) return false;
        told_ = length;
        return true;
    }

    lease_clock::duration longest() const noexcept {
        return longest_.load(std::memory_order_relaxed);
    }
    lease_clock::duration last() const noexcept { return length_.load(std::memory_order_relaxed); }
    /// The length of the last stall, if a lease with this deadline ended because of it; else zero.
    /// `since`: when the lease was acquired, or last extended.
    lease_clock::duration behind(lease_clock::time_point deadline,
                                 lease_clock::time_point since) const noexcept {
        auto const length = length_.load(std::memory_order_relaxed);
        auto const ended = ended_.load(std::memory_order_relaxed);
        auto const near = ended - length <= deadline && deadline <= ended + length && ended > since;
        return near ? length : lease_clock::duration::zero();
    }

    /// The same for a lease that has expired. A lease that the watchdog does not extend ends in its
    /// time, and so may one with a max_hold.
    lease_clock::duration behind(detail::lease_data const& l) const noexcept {
        auto const& options = l.lock->options();
        auto const deadline = l.deadline.load(std::memory_order_acquire);
        auto const extended = options.watchdog && options.max_hold.count() == 0;
        return extended ? behind(deadline, deadline - options.ttl) : lease_clock::duration::zero();
    }

private:
    std::atomic<lease_clock::time_point> ended_{};
    std::atomic<lease_clock::duration> length_{}, longest_{};
    lease_clock::duration told_{}; ///< the longest that an observer was told
};

} // namespace holdfast::runtime

#endif
