#include <holdfast/lead.hpp>
#include <holdfast/with_lock.hpp>

#include <algorithm>
#include <chrono>
#include <exception>

namespace holdfast::detail {

std::chrono::nanoseconds cancel_margin_of(lease const& held) noexcept {
    auto const& options = access::data_of(held)->lock->options();
    if (options.cancel_margin.count() >= 0) return options.cancel_margin;
    auto const longest =
        options.max_hold.count() == 0 ? options.ttl : std::min(options.ttl, options.max_hold);
    return longest / 10;
}

error thrown_error(std::exception_ptr const& e) noexcept {
    try {
        std::rethrow_exception(e);
    } catch (lock_error const& thrown) {
        return thrown.failure();
    } catch (...) {
        return {};
    }
}

bool outlasts(error const& e) noexcept {
    if (e == errc::wrong_type) return false; // one of error_condition::unavailable
    return e == errc::wait_timeout || e == errc::lease_lost || e == errc::granted_too_late ||
           e == error_condition::unavailable;
}

error_code thrown_code(std::exception_ptr const& e) noexcept {
    try {
        std::rethrow_exception(e);
    } catch (system_error const& thrown) {
        return thrown.code();
    } catch (...) {
        return {};
    }
}

} // namespace holdfast::detail
