#include <holdfast/lock.hpp>

#include "runtime/engine/engine.hpp"
#include "runtime/services/call.hpp"

#include <string_view>
#include <utility>

namespace holdfast {

std::string_view lock::key() const noexcept {
    return state_ ? state_->key() : std::string_view();
}

std::vector<std::string_view> lock::keys() const {
    return state_ ? detail::keys_of(*state_) : std::vector<std::string_view>();
}

lock_access lock::access() const noexcept {
    return state_ ? state_->access() : lock_access::exclusive;
}

unsigned lock::permits() const noexcept {
    return state_ ? state_->permits() : 0;
}

lock_options const& lock::options() const noexcept {
    static lock_options const defaults;
    return state_ ? state_->options() : defaults;
}

namespace detail {

void refuse_use(char const* reason) {
    throw system_error(make_error_code(errc::shut_down), reason);
}

void async_acquire(lock_state_ptr lock, wait_limit limit, acquire_handler handler, configuration) {
    auto& engine = lock->engine();
    engine.submit(runtime::acquire_call{
        .handler = std::move(handler), .lock = std::move(lock), .time = limit.time});
}

} // namespace detail
} // namespace holdfast
