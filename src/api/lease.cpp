#include <holdfast/detail/access.hpp>
#include <holdfast/lease.hpp>

#include "api/option_checks.hpp"
#include "api/report_words.hpp"
#include "runtime/engine/engine.hpp"
#include "runtime/lease/lease_record.hpp"
#include "runtime/services/call.hpp"

#include <boost/scope/scope_exit.hpp>
#include <boost/scope/scope_fail.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

namespace holdfast {

std::string_view lease::key() const noexcept {
    return share_ ? share_->data()->lock->key() : std::string_view();
}

std::vector<std::string_view> lease::keys() const {
    return share_ ? detail::keys_of(*share_->data()->lock) : std::vector<std::string_view>();
}

std::optional<unsigned> lease::slot() const noexcept {
    if (!share_ || share_->data()->lock->access() != lock_access::permit) return std::nullopt;
    return static_cast<runtime::lease_record const&>(*share_->data())
        .tenure->machine.slot()
        .value();
}

std::string release_result::what() const {
    return report_ ? report_->to_string() + ": " + code_.message() : code_.message();
}

std::ostream& operator<<(std::ostream& out, release_result const& r) {
    return out << r.what();
}

std::ostream& operator<<(std::ostream& out, lease const& l) {
    if (!l) return out << "no lease";
    out << "lease of " << detail::quoted(l.key());
    using namespace std::chrono;
    if (!l.held()) {
        out << ", " << l.ended_by();
        if (auto const by = l.revoked_by(); !by.empty()) out << " by " << by;
        auto const stalled = l.stalled();
        if (stalled.count() == 0) return out;
        return out << ", as the event loop stood still for " << detail::duration_words(stalled);
    }
    out << ", " << detail::duration_words(l.remaining()) << " left";
    if (auto const slot = l.slot()) out << ", slot " << *slot;
    return l.fence() != 0 ? out << ", fence " << l.fence() : out;
}

lease lease::share() const {
    if (!share_ || share_->released) throw_error(errc::lease_released);
    auto& data = *share_->data();
    auto another = detail::access::make_lease(detail::share_ref(new detail::later_share(&data)));
    data.shares.fetch_add(1);
    data.shared = true;
    return another;
}

lease_end lease::ended_by() const noexcept {
    if (!share_) return lease_end::released;
    auto const over = share_->data()->over.load(std::memory_order_acquire);
    if (is_loss(over)) return over;
    if (over == lease_end::released || share_->released.load()) return lease_end::released;
    return lease_clock::now() < deadline() ? lease_end::none : lease_end::expired;
}

std::string_view lease::revoked_by() const noexcept {
    if (ended_by() != lease_end::revoked) return {};
    auto const& tenure = static_cast<runtime::lease_record const&>(*share_->data()).tenure;
    return tenure ? tenure->revoked_by() : std::string_view();
}

std::chrono::nanoseconds lease::stalled() const noexcept {
    if (ended_by() != lease_end::expired) return {};
    auto const& data = *share_->data();
    return data.lock->engine().stalls().behind(data);
}

void lease::detach() {
    auto const data = present();
    auto const lock = data->lock;
    if (!lock->executor()) return;
    // Before the call, so that no other thread releases the lease meanwhile.
    auto const was_detached = data->detached.exchange(true);
    boost::scope::scope_fail const undo([&] { data->detached.store(was_detached); });
    lock->engine().submit(runtime::detach_call{data});
    auto held = lease_end::none; // a lease that was lost stays lost
    data->over.compare_exchange_strong(held, lease_end::released);
}

lease_token lease::token() const {
    auto const data = checked();
    auto const over = data->over.load(std::memory_order_acquire);
    auto const detached = over == lease_end::released && data->detached;
    if (share_->released || (over != lease_end::none && !detached))
        throw_error(errc::lease_released);
    auto& tenure = *static_cast<runtime::lease_record const&>(*data).tenure;
    auto const text = tenure.token_text(data->lock->engine().holder_label());
    return {.value = std::string(text.view()),
            .fence = fence(),
            .slot = slot(),
            .shared = tenure.sharing.hand_over()};
}

detail::lease_ref lease::checked_writer() const {
    auto data = checked();
    if (data->lock->access() != lock_access::write) {
        detail::reject(errc::invalid_options,
                       "only a lease of read_write_lock::write() can be downgraded");
    }
    return data;
}

std::chrono::nanoseconds lease::checked(std::chrono::milliseconds ttl) const {
    auto const data = checked();
    detail::check_ttl(ttl, data->lock->engine().max_ttl());
    return ttl;
}

void lease::extend_while(std::function<bool()> condition) {
    auto data = checked();
    auto const lock = data->lock;
    lock->engine().submit(runtime::renew_call{
        std::move(data), std::make_unique<runtime::renewal_condition>(
                             runtime::renewal_condition{std::move(condition)})});
}

namespace detail {

void async_release(lease_ref lease, share_ref share, release_handler handler, configuration) {
    auto const again = share->released.exchange(true);
    auto const shared = lease->shared.load();
    auto const lock = lease->lock;
    delivery const by_executor{.executor = &lock->executor()};
    if (shared && again)
        return std::move(handler)(by_executor, release_result(errc::lease_released));
    auto const last = !shared || lease->shares.fetch_sub(1) == 1;
    // If the release fails, the share is not given up. If another share was given up as the last
    // one meanwhile, the lease ends anyway.
    boost::scope::scope_exit undo([&] {
        if (shared) lease->shares.fetch_add(1);
        share->released.store(again);
    });
    if (last) {
        lock->engine().submit(runtime::release_call{.handler = std::move(handler), .lease = lease});
        return undo.set_active(false);
    }
    auto const lasted =
        lease->over == lease_end::none && lease_clock::now() < lease->deadline.load();
    std::move(handler)(by_executor, lease->detached ? release_result(errc::lease_released)
                                    : lasted        ? release_result()
                                                    : release_result(errc::lease_lost));
    undo.set_active(false);
}

void async_extend(lease_ref lease, std::optional<std::chrono::nanoseconds> ttl,
                  error_handler handler, configuration) {
    auto const lock = lease->lock;
    lock->engine().submit(
        runtime::extend_call{.handler = std::move(handler), .lease = std::move(lease), .ttl = ttl});
}

void async_downgrade(lease_ref lease, error_handler handler, configuration) {
    auto const lock = lease->lock;
    lock->engine().submit(runtime::extend_call{
        .handler = std::move(handler), .lease = std::move(lease), .downgrades = true});
}

void async_wait_end(lease_ref lease, std::chrono::nanoseconds ahead, end_handler handler,
                    configuration) {
    auto const lock = lease->lock;
    lock->engine().submit(runtime::wait_end_call{
        .handler = std::move(handler), .lease = std::move(lease), .ahead = ahead});
}

void end(lease_share& share) noexcept {
    auto& data = *share.data();
    if (data.shared && !share.released.exchange(true) && data.shares.fetch_sub(1) == 1) {
        data.lock->engine().give_up(data);
    }
    if (!share.is_first) delete static_cast<later_share*>(&share);
    intrusive_ptr_release(&data);
}

void drop(lease_data* data) noexcept {
    data->lock->engine().drop(*data);
}

} // namespace detail
} // namespace holdfast
