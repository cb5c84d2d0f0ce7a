#include "runtime/engine_service.hpp"

#include "runtime/engine.hpp"

#include <algorithm>
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

} // namespace holdfast::runtime
