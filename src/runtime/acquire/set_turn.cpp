#include "runtime/acquire/set_turn.hpp"

namespace holdfast::runtime {

// Without the acquirer, when the execution context is being destroyed.
set_turn::~set_turn() {
    if (taking_ && static_cast<protocol::waiter_hook&>(*member_).is_linked())
        member_->as<acquire_call>().queue->machine.leave(*member_);
}

void set_turn::on_acquired(errc cause, detail::lease_ref lease) noexcept {
    taking_ = false;
    if (!abandoned_) {
        failure_ = cause;
        if (lease) {
            taken.push_back(std::move(lease));
            approach.took_key();
        }
    }
    owner_.on_due(*this);
}

set_turn& turn_of(operation const& op) noexcept {
    return static_cast<set_turn&>(*op.as<acquire_call>().extras);
}

set_turn* turn_if_any(operation const& op) noexcept {
    return dynamic_cast<set_turn*>(op.as<acquire_call>().extras.get());
}

set_turn* turn_of_front(active_queue const& q) noexcept {
    if (q.machine.empty()) return nullptr;
    return &turn_of(static_cast<operation const&>(q.machine.front()));
}

} // namespace holdfast::runtime
