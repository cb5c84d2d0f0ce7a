#include <holdfast/with_lock.hpp>

#include <exception>

namespace holdfast::detail {

bool is_cancellation(std::exception_ptr const& e) noexcept {
    try {
        std::rethrow_exception(e);
    } catch (system_error const& thrown) {
        return thrown.code() == boost::system::errc::operation_canceled;
    } catch (...) {
        return false;
    }
}

} // namespace holdfast::detail
