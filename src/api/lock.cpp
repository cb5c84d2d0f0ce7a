#include <holdfast/lock.hpp>

#include "runtime/engine.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>
#include <utility>

namespace holdfast {

std::string_view lock::key() const noexcept {
    return state_ ? state_->key() : std::string_view();
}

lock_options const& lock::options() const noexcept {
    static lock_options const defaults;
    return state_ ? state_->options() : defaults;
}

namespace detail {

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

void refuse_use(char const* reason) {
    throw system_error(make_error_code(errc::shut_down), reason);
}

void async_acquire(lock_state_ptr lock, wait_limit limit, acquire_handler handler, configuration) {
    auto& engine = lock->engine();
    engine.submit(runtime::operation_kind::acquire, std::move(lock), limit, {}, std::move(handler));
}

} // namespace detail
} // namespace holdfast
