#include "runtime/lock_state.hpp"

#include "runtime/engine.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace holdfast::detail {

lock_state::lock_state(lock_parts&& parts, std::size_t size) noexcept
    : settings_(std::move(parts.settings))
    , size_(static_cast<std::uint16_t>(size))
    , key_size_(static_cast<std::uint16_t>(parts.prefix.size() + parts.key.size())) {
    auto* const behind = reinterpret_cast<char*>(this) + size_;
    std::copy(parts.key.begin(), parts.key.end(),
              std::copy(parts.prefix.begin(), parts.prefix.end(), behind));
}

lock_state::~lock_state() = default;

void destroy(lock_state const* s) noexcept {
    auto* const block = const_cast<void*>(dynamic_cast<void const*>(s));
    s->~lock_state();
    ::operator delete(block);
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

} // namespace holdfast::detail
