#ifndef HOLDFAST_DETAIL_LEASE_DATA_HPP
#define HOLDFAST_DETAIL_LEASE_DATA_HPP

#include <holdfast/clock.hpp>
#include <holdfast/detail/api.hpp>
#include <holdfast/detail/boost_version.hpp>
#include <holdfast/detail/lock_state.hpp>
#include <holdfast/lease_end.hpp>

#include <boost/smart_ptr/intrusive_ptr.hpp>

#include <atomic>
#include <cstdint>

namespace holdfast::detail {

struct lease_data;

/// The share of one lease object in a lease. The object gives it up once: when it is released, or
/// else when it is destroyed. The first share is part of the lease.
struct lease_share {
    explicit lease_share(bool first) noexcept
        : is_first(first) {}
    lease_data* data() noexcept;

    std::atomic<std::uint32_t> references{0};
    std::atomic<bool> released{false};
    bool const is_first;
};

/// A share that lease::share() has made.
struct later_share final : lease_share {
    explicit later_share(lease_data* lease) noexcept
        : lease_share(false)
        , of(lease) {}
    lease_data* const of;
};

/// The part of a lease that its holder reads from any thread. The rest belongs to the client's
/// executor. The members are ordered so that there is no padding.
struct lease_data : lease_share {
    lease_data() noexcept
        : lease_share(true) {}

    std::atomic<bool> shared{false}; ///< there has been more than one share
    std::atomic<lease_end> over{lease_end::none};
    std::atomic<std::uint32_t> handles{0};
    std::atomic<std::uint32_t> shares{1}; ///< not given up yet
    std::uint64_t fence = 0;
    std::atomic<lease_clock::time_point> deadline{};
    lock_state_ptr lock;
    std::atomic<bool> detached{false}; ///< the holder leaves the key to its ttl
};

inline lease_data* lease_share::data() noexcept {
    return is_first ? static_cast<lease_data*>(this) : static_cast<later_share*>(this)->of;
}

/// Called without any handle left: releases the lease unless that has been done.
HOLDFAST_API void drop(lease_data*) noexcept;

inline void intrusive_ptr_add_ref(lease_data* data) noexcept {
    data->handles.fetch_add(1, std::memory_order_relaxed);
}
inline void intrusive_ptr_release(lease_data* data) noexcept {
    if (data->handles.fetch_sub(1, std::memory_order_acq_rel) == 1) drop(data);
}

/// A handle of a lease.
using lease_ref = boost::intrusive_ptr<lease_data>;

/// Called without any reference left.
HOLDFAST_API void end(lease_share&) noexcept;

// While a share has references, it counts as one handle of its lease.
inline void intrusive_ptr_add_ref(lease_share* share) noexcept {
    if (share->references.fetch_add(1, std::memory_order_relaxed) == 0)
        intrusive_ptr_add_ref(share->data());
}
inline void intrusive_ptr_release(lease_share* share) noexcept {
    if (share->references.fetch_sub(1, std::memory_order_acq_rel) == 1) end(*share);
}

using share_ref = boost::intrusive_ptr<lease_share>;

} // namespace holdfast::detail

#endif
