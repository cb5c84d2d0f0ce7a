#include "runtime/engine/lock_settings_cache.hpp"

#include "runtime/engine/engine.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

namespace holdfast::runtime {

detail::lock_settings_ptr lock_settings_cache::find_or_make(engine& e, lock_options const& o,
                                                            lock_access access,
                                                            std::uint16_t permits) {
    auto const make = [&] {
        return detail::lock_settings_ptr(new detail::lock_settings{
            e.shared_from_this(), e.executor(), o, e.calls_in_place(), access, permits});
    };
    // Each caller has a trace of its own. Such options would push out those that come again.
    if (o.trace) return make();
    std::lock_guard const lock(mutex_);
    if (auto found = find(o, access, permits)) return found;
    auto made = make();
    recent_[std::exchange(oldest_, (oldest_ + 1) % most)] = made.get();
    return made;
}

detail::lock_settings_ptr lock_settings_cache::find(lock_options const& o, lock_access access,
                                                    std::uint16_t permits) const noexcept {
    for (auto const* const s : recent_) {
        if (s == nullptr || s->access != access || s->permits != permits || s->options != o)
            continue;
        // Settings without a reference wait for the mutex, to be forgotten.
        auto references = s->references.load(std::memory_order_relaxed);
        while (references != 0) {
            if (s->references.compare_exchange_weak(references, references + 1,
                                                    std::memory_order_relaxed))
                return {s, false};
        }
    }
    return nullptr;
}

void lock_settings_cache::forget(detail::lock_settings const& s) noexcept {
    std::lock_guard const lock(mutex_);
    std::replace(recent_.begin(), recent_.end(), &s,
                 static_cast<detail::lock_settings const*>(nullptr));
}

} // namespace holdfast::runtime
