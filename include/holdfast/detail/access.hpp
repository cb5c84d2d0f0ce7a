// Makes the objects that users only get from the library, and opens them for it.
#ifndef HOLDFAST_DETAIL_ACCESS_HPP
#define HOLDFAST_DETAIL_ACCESS_HPP

#include <holdfast/lease.hpp>
#include <holdfast/lock.hpp>

#include <utility>

namespace holdfast::detail {

struct access {
    template <class Token>
    static auto acquire(lock const& on, wait_limit limit, Token&& token) {
        return on.start(limit, token);
    }
    static lock_state_ptr const& state_of(lock const& l) { return l.checked(); }
    static lease_data const* data_of(lease const& l) noexcept {
        return l.share_ ? l.share_->data() : nullptr;
    }
    static lock make_lock(lock_state_ptr state) { return lock(std::move(state)); }
    static lease make_lease(share_ref share) noexcept { return lease(std::move(share)); }
    static lease make_lease(lease_ref const& data) noexcept {
        return lease(data ? share_ref(data.get()) : share_ref());
    }
};

} // namespace holdfast::detail

#endif
