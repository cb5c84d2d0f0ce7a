#include "runtime/services/completer.hpp"

#include <holdfast/detail/access.hpp>

#include <type_traits>
#include <utility>
#include <variant>

namespace holdfast::runtime {

namespace {

error make_error(errc cause, completer::report_ptr report) {
    return cause == errc{} ? error() : error(cause, std::move(report));
}

} // namespace

void completer::complete(operation& op, errc cause, report_ptr report) {
    std::visit(
        [&]<class Call>(Call const&) {
            if constexpr (std::is_same_v<Call, acquire_call>) {
                complete_acquire(op, cause, std::move(report), {});
            } else if constexpr (call_with<Call, detail::error_handler>) {
                send<Call>(op, make_error(cause, std::move(report)));
            } else if constexpr (call_with<Call, detail::inspect_handler>) {
                send<Call>(op, error(cause), key_report());
            } else if constexpr (call_with<Call, detail::list_handler>) {
                send<Call>(op, error(cause), list_report());
            } else if constexpr (call_with<Call, detail::end_handler>) {
                send<Call>(op, error(cause), lease_end::none);
            } else if constexpr (call_with<Call, detail::release_handler>) {
                send<Call>(op, release_result(cause));
            } else {
                finish(op);
            }
        },
        op.call);
}

void completer::complete(operation& op, detail::lease_ref lease) {
    complete_acquire(op, errc{}, {}, std::move(lease));
}

void completer::complete(operation& op, errc cause, key_report r) {
    std::visit(
        [&]<class Call>(Call const&) {
            if constexpr (call_with<Call, detail::inspect_handler>)
                send<Call>(op, error(cause), std::move(r));
        },
        op.call);
}

void completer::complete(operation& op, list_report r) {
    send<list_call>(op, error(), std::move(r));
}

void completer::complete(operation& op, lease_end how) {
    send<wait_end_call>(op, error(), how);
}

void completer::complete(operation& op, release_result r) {
    if (!r.confirmed() || !calls_in_place()) return send<release_call>(op, std::move(r));
    keep(op, ended_release{std::move(op.as<release_call>().handler)});
}

void completer::complete_acquire(operation& op, errc cause, report_ptr report,
                                 detail::lease_ref lease) {
    if (auto const& extras = op.as<acquire_call>().extras; extras && extras->owner != nullptr) {
        auto& owner = *extras->owner;
        retire(op);
        op.call = {};
        return owner.on_acquired(cause, std::move(lease));
    }
    if (!calls_in_place()) {
        return send<acquire_call>(op, make_error(cause, std::move(report)),
                                  detail::access::make_lease(lease));
    }
    if (report) turn_.attempt([&] { reports_.push_back({&op, std::move(report)}); });
    keep(op, ended_acquire{std::move(op.as<acquire_call>().handler), std::move(lease), cause});
}

template <class Call, class... Results>
void completer::send(operation& op, Results&&... results) {
    auto handler = std::move(op.as<Call>().handler);
    finish(op);
    try {
        std::move(handler)(by_executor(), std::forward<Results>(results)...);
    } catch (...) {
        turn_.keep_exception();
    }
}

void completer::keep(operation& op, any_call&& ended) noexcept {
    retire(op);
    op.call = std::move(ended);
    calls_.push_back(op);
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
        auto ended = std::exchange(op.call, {});
        auto report = take_report(op);
        finished_.push_back(op);
        if (auto* const acquire = std::get_if<ended_acquire>(&ended)) {
            std::move(acquire->handler)(delivery_, make_error(acquire->result, std::move(report)),
                                        detail::access::make_lease(acquire->lease));
        } else if (auto* const release = std::get_if<ended_release>(&ended)) {
            std::move(release->handler)(delivery_, release_result());
        }
        if (made % calls_between_clock_readings == 0 && lease_clock::now() >= until) return false;
    }
    return !is_stopped();
}

void completer::finish(operation& op) noexcept {
    retire(op);
    op.call = {};
    finished_.push_back(op);
}

void completer::retire(operation& op) noexcept {
    if (op.timer) timers_.cancel(*op.timer);
    static_cast<operation_hook&>(op).unlink();
    if (std::holds_alternative<acquire_call>(op.call)) {
        counters::take(counters_.pending);
        if (std::exchange(op.behind, false)) counters::take(counters_.waiters);
    }
    ++op.generation;
}

} // namespace holdfast::runtime
