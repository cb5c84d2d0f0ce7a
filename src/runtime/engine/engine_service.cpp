#include "runtime/engine/engine_service.hpp"

#include "runtime/engine/engine.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace holdfast::runtime {

void engine_service::add(std::weak_ptr<engine> e) {
    std::lock_guard const lock(mutex_);
    std::erase_if(engines_, [](auto const& old) { return old.expired(); });
    engines_.push_back(std::move(e));
}

void engine_service::shutdown() {
    std::vector<std::weak_ptr<engine>> all;
    {
        std::lock_guard const lock(mutex_);
        all.swap(engines_);
    }
    for (auto const& weak : all) {
        if (auto const e = weak.lock()) e->abandon();
    }
}

// Asio notifies its own services first, because they are older. So the reactor of the child is a
// new one already, and closing a socket here does not affect the parent's reactor.
void engine_service::notify_fork(boost::asio::execution_context::fork_event event) {
    if (event != boost::asio::execution_context::fork_child) return;
    std::vector<std::weak_ptr<engine>> all;
    {
        std::lock_guard const lock(mutex_);
        all = engines_;
    }
    std::exception_ptr thrown;
    for (auto const& weak : all) {
        auto const e = weak.lock();
        if (!e) continue;
        try {
            e->end_in_child();
        } catch (...) {
            if (!thrown) thrown = std::current_exception();
        }
    }
    if (thrown) std::rethrow_exception(thrown);
}

} // namespace holdfast::runtime
