#include "runtime/services/event_sink.hpp"

#include <atomic>

namespace holdfast::runtime {

void event_sink::acquired(detail::lease_data const& l, lease_clock::duration waited,
                          bool handed_over) const noexcept {
    if (observer_ == nullptr) return;
    auto e = about<acquired_event>(*l.lock);
    e.fence = l.fence;
    e.waited = waited;
    e.lasts = l.deadline.load(std::memory_order_relaxed) - e.at;
    notify(handed_over ? &observer::on_handed_over : &observer::on_acquired, e);
}

void event_sink::extended(detail::lease_data const& l, lease_clock::duration took) const noexcept {
    if (observer_ == nullptr) return;
    auto e = about<extended_event>(*l.lock);
    e.fence = l.fence;
    e.took = took;
    e.lasts = l.deadline.load(std::memory_order_relaxed) - e.at;
    notify(&observer::on_extended, e);
}

void event_sink::lost(detail::lease_data const& l, lease_clock::duration held,
                      std::string_view revoked_by) const noexcept {
    if (observer_ == nullptr) return;
    auto e = about<lost_event>(*l.lock);
    e.fence = l.fence;
    e.held = held;
    e.cause = l.over.load(std::memory_order_relaxed);
    if (e.cause == lease_end::expired) e.stalled = counters_.stalls.behind(l);
    e.revoked_by = revoked_by;
    notify(&observer::on_lost, e);
}

void event_sink::revoked(detail::lock_state const& l, std::string_view holder,
                         std::string_view digest,
                         std::optional<std::chrono::milliseconds> closed_for) const noexcept {
    if (observer_ == nullptr) return;
    auto e = about<revoked_event>(l);
    e.holder = holder;
    e.digest = digest;
    e.closed_for = closed_for;
    notify(&observer::on_revoked, e);
}

void event_sink::released(detail::lease_data const& l, lease_clock::duration held,
                          bool handed_over) const noexcept {
    if (observer_ == nullptr) return;
    auto e = about<released_event>(*l.lock);
    e.fence = l.fence;
    e.held = held;
    e.handed_over = handed_over;
    notify(&observer::on_released, e);
}

void event_sink::failed(detail::lock_state const& l, reported_call call, error_code code,
                        lease_clock::duration took, acquire_report const* report) const noexcept {
    if (observer_ == nullptr) return;
    auto e = about<failed_event>(l);
    e.call = call;
    e.code = code;
    e.took = took;
    e.report = report;
    notify(&observer::on_failed, e);
}

void event_sink::stalled() const noexcept {
    if (observer_ == nullptr) return;
    notify(&observer::on_stall, stall_event{.length = counters_.stalls.last(), .at = turn_.time()});
}

void event_sink::changed(instance_status const& s, instance_state before) const noexcept {
    if (observer_ == nullptr) return;
    notify(&observer::on_instance,
           instance_event{.status = s, .before = before, .at = turn_.time()});
}

} // namespace holdfast::runtime
