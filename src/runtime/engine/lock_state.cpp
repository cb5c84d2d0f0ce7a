#include "runtime/engine/lock_state.hpp"

#include "runtime/engine/engine.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast {

namespace {

/// The size of the key with its prefix, or of the common name of several keys.
std::size_t name_size(detail::lock_parts const& p) {
    if (p.keys.empty()) return p.prefix.size() + p.key.size();
    auto size = p.keys.size() - 1; // the spaces
    for (auto const key : p.keys) size += p.prefix.size() + key.size();
    return size;
}

} // namespace

detail::lock_state_ptr runtime::make_lock_state(detail::lock_parts parts) {
    auto const views = parts.keys.size() * sizeof(std::string_view);
    auto const size = sizeof(detail::lock_state) + views + name_size(parts);
    return ::new (::operator new(size)) detail::lock_state(std::move(parts));
}

namespace detail {

lock_state::lock_state(lock_parts&& parts) noexcept
    : settings_(std::move(parts.settings))
    , key_size_(static_cast<std::uint32_t>(name_size(parts)) & 0xff'ffffU)
    , key_count_(static_cast<std::uint8_t>(parts.keys.size())) {
    static_assert(alignof(std::string_view) <= alignof(lock_state));
    auto* const behind = reinterpret_cast<char*>(this + 1);
    auto* out = behind + parts.keys.size() * sizeof(std::string_view);
    auto const append = [&](std::string_view key) {
        auto* const begin = out;
        out = std::copy(parts.prefix.begin(), parts.prefix.end(), out);
        out = std::copy(key.begin(), key.end(), out);
        return std::string_view(begin, static_cast<std::size_t>(out - begin));
    };
    if (parts.keys.empty()) append(parts.key);
    for (std::size_t i = 0; i < parts.keys.size(); ++i) {
        if (i > 0) *out++ = ' ';
        ::new (behind + i * sizeof(std::string_view)) std::string_view(append(parts.keys[i]));
    }
}

std::vector<std::string_view> keys_of(lock_state const& s) {
    auto const keys = s.keys();
    if (keys.empty()) return {s.key()};
    return {keys.begin(), keys.end()};
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
