#include "runtime/completer.hpp"

#include <holdfast/detail/access.hpp>

#include <utility>
#include <variant>

namespace holdfast::runtime {

void completer::complete(operation& op, error e, detail::lease_ref lease) {
    if (auto* const acquire = std::get_if<detail::acquire_handler>(&op.handler)) {
        auto handler = std::move(*acquire);
        finish(op);
        try {
            std::move(handler)(std::move(e), detail::access::make_lease(lease));
        } catch (...) {
            turn_.keep_exception();
        }
    } else if (auto* const other = std::get_if<detail::error_handler>(&op.handler)) {
        auto handler = std::move(*other);
        finish(op);
        try {
            std::move(handler)(std::move(e));
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
        std::move(handler)(std::move(e), std::move(r));
    } catch (...) {
        turn_.keep_exception();
    }
}

void completer::complete(operation& op, release_result r) {
    auto handler = std::move(std::get<detail::release_handler>(op.handler));
    finish(op);
    try {
        std::move(handler)(std::move(r));
    } catch (...) {
        turn_.keep_exception();
    }
}

void completer::finish(operation& op) noexcept {
    timers_.cancel(op);
    static_cast<operation_hook&>(op).unlink();
    if (op.kind == operation_kind::acquire) {
        counters::take(counters_.pending);
        if (std::exchange(op.behind, false)) counters::take(counters_.waiters);
    }
    ++op.generation;
    op.handler = {};
    op.lock.reset();
    op.lease = {};
    finished_.push_back(op);
}

} // namespace holdfast::runtime
