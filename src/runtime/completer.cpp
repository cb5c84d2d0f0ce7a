#include "runtime/completer.hpp"

#include <holdfast/detail/access.hpp>

#include <utility>
#include <variant>

namespace holdfast::runtime {

void completer::complete(operation& op, error e, detail::lease_ref lease) {
    if (auto* const acquire = std::get_if<detail::acquire_handler>(&op.handler)) {
        if (!e && keep(op, lease)) return;
        auto handler = std::move(*acquire);
        finish(op);
        try {
            std::move(handler)(by_executor(), std::move(e), detail::access::make_lease(lease));
        } catch (...) {
            turn_.keep_exception();
        }
    } else if (auto* const other = std::get_if<detail::error_handler>(&op.handler)) {
        auto handler = std::move(*other);
        finish(op);
        try {
            std::move(handler)(by_executor(), std::move(e));
        } catch (...) {
            turn_.keep_exception();
        }
    } else if (std::holds_alternative<detail::inspect_handler>(op.handler)) {
        complete(op, std::move(e), key_report());
    }
}

void completer::complete(operation& op, error e, key_report r) {
    auto handler = std::move(std::get<detail::inspect_handler>(op.handler));
    finish(op);
    try {
        std::move(handler)(by_executor(), std::move(e), std::move(r));
    } catch (...) {
        turn_.keep_exception();
    }
}

void completer::complete(operation& op, release_result r) {
    if (r && keep(op, {})) return;
    auto handler = std::move(std::get<detail::release_handler>(op.handler));
    finish(op);
    try {
        std::move(handler)(by_executor(), std::move(r));
    } catch (...) {
        turn_.keep_exception();
    }
}

bool completer::keep(operation& op, detail::lease_ref lease) noexcept {
    if (!calls_in_place()) return false;
    retire(op);
    op.lease = std::move(lease);
    calls_.push_back(op);
    return true;
}

bool completer::make_calls(std::size_t most, lease_clock::time_point until) {
    for (std::size_t made = 1; made <= most && !calls_.empty(); ++made) {
        if (is_stopped()) return false;
        auto& op = calls_.front();
        calls_.pop_front();
        auto handler = std::exchange(op.handler, {});
        auto const lease = std::move(op.lease);
        finished_.push_back(op);
        if (auto* const acquire = std::get_if<detail::acquire_handler>(&handler)) {
            std::move (*acquire)(delivery_, error{}, detail::access::make_lease(lease));
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
    timers_.cancel(op);
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
