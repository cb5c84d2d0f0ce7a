#include "runtime/engine/lock_state.hpp"

#include "runtime/engine/engine.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>
#include <utility>

namespace holdfast {

detail::lock_state_ptr runtime::make_lock_state(detail::lock_parts parts) {
    auto const size = sizeof(detail::lock_state) + parts.prefix.size() + parts.key.size();
    return ::new (::operator new(size)) detail::lock_state(std::move(parts));
}

namespace detail {

lock_state::lock_state(lock_parts&& parts) noexcept
    : settings_(std::move(parts.settings))
    , key_size_(static_cast<std::uint16_t>(parts.prefix.size() + parts.key.size())) {
    auto* const behind = reinterpret_cast<char*>(this + 1);
    std::copy(parts.key.begin(), parts.key.end(),
              std::copy(parts.prefix.begin(), parts.prefix.end(), behind));
}

void destroy(lock_state const* s) noexcept {
    s->~lock_state();
    ::operator delete(const_cast<lock_state*>(s));
}

void intrusive_ptr_add_ref(lock_settings const* s) noexcept {
    s->references.fetch_add(1, std::memory_order_relaxed);
}

void intrusive_ptr_release(lock_settings const* s) noexcept {
    if (s->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    // This may be the last reference to the engine, which has the mutex of the cache.
    auto const engine = s->engine;
    if (engine) engine->forget(*s);
    delete s;
}

} // namespace detail
} // namespace holdfast
