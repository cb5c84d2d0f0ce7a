#ifndef HOLDFAST_DETAIL_LEASE_CORE_HPP
#define HOLDFAST_DETAIL_LEASE_CORE_HPP

#include <holdfast/clock.hpp>
#include <holdfast/detail/lock_state.hpp>

#include <atomic>
#include <cstdint>
#include <utility>

namespace holdfast::detail {

struct lease_core;

/// What one lease object has of a lease: a share that it gives up once, when it is released or else when it is
/// destroyed.
struct lease_share {
    explicit lease_share(lease_core* of) noexcept
        : core(of) {}
    lease_core* const core;
    std::atomic<std::uint32_t> references{0};
    std::atomic<bool> released{false};
};

/// The part of a lease that its holder reads from any thread. The rest belongs to the client's executor.
struct lease_core {
    std::atomic<std::uint32_t> handles{0};
    std::atomic<std::uint32_t> shares{1}; ///< that have not been given up
    std::atomic<bool> shared{false};      ///< there have been several
    std::atomic<bool> over{false};        ///< lost or released
    lease_share first{this};
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

/// Nobody refers to it any more.
void end(lease_share&) noexcept;

/// Counts who refers to a share. As long as anybody does it counts for one handle of its lease.
class share_ref {
public:
    share_ref() = default;
    explicit share_ref(lease_share* share) noexcept
        : share_(share) {
        if (share_ != nullptr && share_->references.fetch_add(1, std::memory_order_relaxed) == 0) {
            share_->core->handles.fetch_add(1, std::memory_order_relaxed);
        }
    }
    share_ref(share_ref const& other) noexcept
        : share_ref(other.share_) {}
    share_ref(share_ref&& other) noexcept
        : share_(std::exchange(other.share_, nullptr)) {}
    share_ref& operator=(share_ref other) noexcept {
        std::swap(share_, other.share_);
        return *this;
    }
    ~share_ref() {
        if (share_ != nullptr && share_->references.fetch_sub(1, std::memory_order_acq_rel) == 1)
            end(*share_);
    }

    lease_core* core() const noexcept { return share_ == nullptr ? nullptr : share_->core; }
    lease_share* operator->() const noexcept { return share_; }
    explicit operator bool() const noexcept { return share_ != nullptr; }

private:
    lease_share* share_ = nullptr;
};

} // namespace holdfast::detail

#endif
