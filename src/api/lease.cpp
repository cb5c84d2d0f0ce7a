#include <holdfast/detail/access.hpp>
#include <holdfast/lease.hpp>

#include "runtime/engine.hpp"

#include <chrono>
#include <functional>
#include <string>
#include <utility>

namespace holdfast {

std::string const& lease::key() const noexcept {
    static std::string const none;
    return share_ ? share_->core->lock->key : none;
}

lease lease::share() const {
    if (!share_ || share_->released) throw_error(errc::lease_released);
    auto& core = *share_->core;
    auto another = detail::access::make_lease(detail::share_ref(new detail::lease_share(&core)));
    core.shares.fetch_add(1);
    core.shared = true;
    return another;
}

void lease::renew_while(std::function<bool()> wanted) {
    auto core = checked();
    auto const lock = core->lock;
    lock->engine->renew_while(std::move(core), std::move(wanted));
}

namespace detail {

using runtime::operation_kind;

void async_release(lease_ref lease, share_ref share, release_handler handler, configuration) {
    auto const again = share->released.exchange(true);
    auto const shared = lease->shared.load();
    if (shared && again) return std::move(handler)(release_result(errc::lease_released));
    auto const last = !shared || lease->shares.fetch_sub(1) == 1;
    auto const lock = lease->lock;
    try {
        if (last) {
            return lock->engine->submit(operation_kind::release, {}, {}, lease, std::move(handler));
        }
        auto const lasted = !lease->over && lease_clock::now() < lease->deadline.load();
        std::move(handler)(lasted ? release_result() : release_result(errc::lease_lost));
    } catch (...) {
        // The share was not given up. If another share took itself for the last meanwhile, the
        // lease has ended anyway.
        if (shared) lease->shares.fetch_add(1);
        share->released.store(again);
        throw;
    }
}

void async_extend(lease_ref lease, error_handler handler, configuration) {
    auto const lock = lease->lock;
    lock->engine->submit(operation_kind::extend, {}, {}, std::move(lease), std::move(handler));
}

void async_lost(lease_ref lease, std::chrono::nanoseconds ahead, error_handler handler,
                configuration) {
    auto const lock = lease->lock;
    lock->engine->submit(operation_kind::lost, {}, {wait_limit::kind::until, ahead},
                         std::move(lease), std::move(handler));
}

void end(lease_share& share) noexcept {
    auto& core = *share.core;
    if (core.shared && !share.released.exchange(true) && core.shares.fetch_sub(1) == 1) {
        core.lock->engine->give_up(core);
    }
    if (&share != &core.first) delete &share;
    intrusive_ptr_release(&core);
}

void drop(lease_core* core) noexcept {
    core->lock->engine->drop(*core);
}

} // namespace detail
} // namespace holdfast
