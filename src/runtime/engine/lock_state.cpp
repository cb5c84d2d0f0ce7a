#include "runtime/engine/lock_state.hpp"

#include "runtime/engine/engine.hpp"
#include "runtime/keys/key_call.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace holdfast::detail {

lock_state::lock_state(lock_parts&& parts, lock_state_kind kind, std::size_t size) noexcept
    : settings_(std::move(parts.settings))
    , kind_(kind)
    , size_(static_cast<std::uint8_t>(size))
    , key_size_(static_cast<std::uint16_t>(parts.prefix.size() + parts.key.size())) {
    auto* const behind = reinterpret_cast<char*>(this) + size_;
    std::copy(parts.key.begin(), parts.key.end(),
              std::copy(parts.prefix.begin(), parts.prefix.end(), behind));
}

lease_token const* lock_state::adopted() const noexcept {
    if (kind_ != lock_state_kind::adopt_call) return nullptr;
    return &static_cast<runtime::adopt_call const*>(this)->token;
}

namespace {

template <class State>
void destroy_as(lock_state const* s) noexcept {
    auto const* const whole = static_cast<State const*>(s);
    whole->~State();
    ::operator delete(const_cast<State*>(whole));
}

} // namespace

void destroy(lock_state const* s) noexcept {
    switch (s->kind_) {
    case lock_state_kind::plain:
        return destroy_as<lock_state>(s);
    case lock_state_kind::watch_call:
        return destroy_as<runtime::watch_call>(s);
    case lock_state_kind::release_call:
        return destroy_as<runtime::release_call>(s);
    case lock_state_kind::adopt_call:
        return destroy_as<runtime::adopt_call>(s);
    }
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
