#include "runtime/services/completer.hpp"

#include <holdfast/detail/access.hpp>

#include <utility>
#include <variant>

namespace holdfast::runtime {

namespace {

error make_error(errc cause, completer::report_ptr report) {
    return cause == errc{} ? error() : error(cause, std::move(report));
}

} // namespace

void completer::complete(operation& op, errc cause, report_ptr report) {
    if (std::holds_alternative<detail::acquire_handler>(op.handler)) {
        complete_acquire(op, cause, std::move(report), {});
    } else if (auto* const other = std::get_if<detail::error_handler>(&op.handler)) {
        auto handler = std::move(*other);
        finish(op);
        try {
            std::move(handler)(by_executor(), make_error(cause, std::move(report)));
        } catch (...) {
            turn_.keep_exception();
        }
    } else if (std::holds_alternative<detail::inspect_handler>(op.handler)) {
        complete(op, cause, key_report());
    }
}

void completer::complete(operation& op, detail::lease_ref lease) {
    complete_acquire(op, errc{}, {}, std::move(lease));
}

void completer::complete_acquire(operation& op, errc cause, report_ptr report,
                                 detail::lease_ref lease) {
    if (keep(op, cause, report, lease)) return;
    auto handler = std::move(std::get<detail::acquire_handler>(op.handler));
    finish(op);
    try {
        std::move(handler)(by_executor(), make_error(cause, std::move(report)),
                           detail::access::make_lease(lease));
    } catch (...) {
        turn_.keep_exception();
    }
}

void completer::complete(operation& op, errc cause, key_report r) {
    auto handler = std::move(std::get<detail::inspect_handler>(op.handler));
    finish(op);
    try {
        std::move(handler)(by_executor(), error(cause), std::move(r));
    } catch (...) {
        turn_.keep_exception();
    }
}

void completer::complete(operation& op, release_result r) {
    if (r && keep(op, errc{}, {}, {})) return;
    auto handler = std::move(std::get<detail::release_handler>(op.handler));
    finish(op);
    try {
        std::move(handler)(by_executor(), std::move(r));
    } catch (...) {
        turn_.keep_exception();
    }
}

bool completer::keep(operation& op, errc cause, report_ptr report,
                     detail::lease_ref lease) noexcept {
    if (!calls_in_place()) return false;
    retire(op);
    op.result = cause;
    op.lease = std::move(lease);
    if (report) turn_.attempt([&] { reports_.push_back({&op, std::move(report)}); });
    calls_.push_back(op);
    return true;
}

completer::report_ptr completer::take_report(operation const& op) noexcept {
    if (reports_.empty() || reports_.front().of != &op) return nullptr;
    auto report = std::move(reports_.front().report);
    reports_.pop_front();
    return report;
}

bool completer::make_calls(std::size_t most, lease_clock::time_point until) {
    for (std::size_t made = 1; made <= most && !calls_.empty(); ++made) {
        if (is_stopped()) return false;
        auto& op = calls_.front();
        calls_.pop_front();
        auto handler = std::exchange(op.handler, {});
        auto const lease = std::move(op.lease);
        auto result = make_error(op.result, take_report(op));
        finished_.push_back(op);
        if (auto* const acquire = std::get_if<detail::acquire_handler>(&handler)) {
            std::move (*acquire)(delivery_, std::move(result), detail::access::make_lease(lease));
        } else if (auto* const release = std::get_if<detail::release_handler>(&handler)) {
            std::move (*release)(delivery_, release_result());
        }
        if (made % calls_between_clock_readings == 0 && lease_clock::now() >= until) return false;
    }
    return !is_stopped();
}

void completer::finish(operation& op) noexcept {
    retire(op);
    op.handler = {};
    finished_.push_back(op);
}

void completer::retire(operation& op) noexcept {
    if (op.timer) timers_.cancel(*op.timer);
    static_cast<operation_hook&>(op).unlink();
    if (op.kind == operation_kind::acquire) {
        counters::take(counters_.pending);
        if (std::exchange(op.behind, false)) counters::take(counters_.waiters);
    }
    ++op.generation;
    op.lock.reset();
    op.lease = {};
}

} // namespace holdfast::runtime
