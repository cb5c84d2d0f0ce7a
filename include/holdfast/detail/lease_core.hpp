#ifndef HOLDFAST_DETAIL_LEASE_CORE_HPP
#define HOLDFAST_DETAIL_LEASE_CORE_HPP

#include <holdfast/clock.hpp>
#include <holdfast/detail/lock_state.hpp>

#include <atomic>
#include <cstdint>
#include <utility>

namespace holdfast::detail {

/// The part of a lease that its holder reads from any thread. The rest belongs to the client's executor.
struct lease_core {
    std::atomic<std::uint32_t> handles{0};
    std::atomic<std::uint32_t> shares{1}; ///< of lease objects, those that have not been released
    std::atomic<bool> shared{false};      ///< there have been several
    std::atomic<bool> first_released{false};
    std::atomic<bool> over{false}; ///< lost or released
    std::uint64_t fence = 0;
    std::atomic<lease_clock::time_point> deadline{};
    lock_state_ptr lock;
};

/// The last handle is gone: release the lease unless that has been done.
void drop(lease_core*) noexcept;

/// Counts the handles of a lease.
class lease_ref {
public:
    lease_ref() = default;
    explicit lease_ref(lease_core* core) noexcept
        : core_(core) {
        if (core_ != nullptr) core_->handles.fetch_add(1, std::memory_order_relaxed);
    }
    lease_ref(lease_ref const& other) noexcept
        : lease_ref(other.core_) {}
    lease_ref(lease_ref&& other) noexcept
        : core_(std::exchange(other.core_, nullptr)) {}
    lease_ref& operator=(lease_ref other) noexcept {
        std::swap(core_, other.core_);
        return *this;
    }
    ~lease_ref() {
        if (core_ != nullptr && core_->handles.fetch_sub(1, std::memory_order_acq_rel) == 1) drop(core_);
    }

    lease_core* get() const noexcept { return core_; }
    lease_core* operator->() const noexcept { return core_; }
    explicit operator bool() const noexcept { return core_ != nullptr; }

private:
    lease_core* core_ = nullptr;
};

/// What lease::share() gives another lease object for its own. The first has its own in the core.
struct lease_share {
    explicit lease_share(lease_ref of) noexcept
        : core(std::move(of)) {}
    lease_share(lease_share const&) = delete;
    lease_share& operator=(lease_share const&) = delete;
    ~lease_share();

    lease_ref const core;
    std::atomic<bool> released{false};
};

/// The first of several lease objects is destroyed.
void give_up_first(lease_core&) noexcept;

} // namespace holdfast::detail

#endif
