#include <holdfast/error.hpp>

#include <boost/system/errc.hpp>

#include <exception>
#include <new>
#include <ostream>
#include <string>

namespace holdfast {

namespace {

// A process may contain this library twice: in the program, and in a shared library that the
// program loads. Equal ids make the categories of both compare equal.
class category final : public boost::system::error_category {
public:
    constexpr category() noexcept
        : error_category(0x6a1f9d3c52b8e047) {}

    char const* name() const noexcept override { return "holdfast"; }

    std::string message(int value) const override {
        switch (static_cast<errc>(value)) {
        case errc::contended:
            return "the lock is held";
        case errc::no_quorum:
            return "too few instances answered";
        case errc::wait_timeout:
            return "the lock was held for longer than the caller would wait";
        case errc::cancelled:
            return "the operation was cancelled";
        case errc::granted_too_late:
            return "no quorum granted within the ttl";
        case errc::lease_lost:
            return "the lease was lost";
        case errc::lease_released:
            return "the lease has been released";
        case errc::shut_down:
            return "the client was shut down";
        case errc::unreachable:
            return "the instance cannot be reached";
        case errc::instance_timeout:
            return "the instance does not answer in time";
        case errc::access_denied:
            return "the instance denies access";
        case errc::not_redis:
            return "the instance does not answer as Redis or Valkey";
        case errc::read_only:
            return "the instance is a read-only replica";
        case errc::wrong_type:
            return "the key holds something that is not a lock";
        case errc::duplicate_instance:
            return "two configured addresses lead to one server";
        case errc::quarantined:
            return "the instance may have forgotten earlier locks, so its votes do not count";
        case errc::too_few_replicas:
            return "too few replicas have the lock, so the instance's vote does not count";
        case errc::invalid_fence:
            return "the counter of the key's fences is unusable";
        case errc::rejected:
            return "the instance rejects the command";
        case errc::no_sentinel_majority:
            return "no majority of the sentinels names one primary";
        case errc::invalid_key:
            return "invalid key";
        case errc::invalid_options:
            return "invalid options";
        case errc::invalid_address:
            return "invalid address";
        case errc::out_of_memory:
            return "memory ran out for the operation";
        }
        return "unknown holdfast error " + std::to_string(value);
    }

    // For code that compares with the generic conditions.
    boost::system::error_condition default_error_condition(int value) const noexcept override {
        namespace generic = boost::system::errc;
        switch (static_cast<errc>(value)) {
        case errc::contended:
            return make_error_condition(generic::device_or_resource_busy);
        case errc::wait_timeout:
            return make_error_condition(generic::timed_out);
        case errc::cancelled:
            return make_error_condition(generic::operation_canceled);
        case errc::invalid_key:
        case errc::invalid_options:
        case errc::invalid_address:
            return make_error_condition(generic::invalid_argument);
        case errc::out_of_memory:
            return make_error_condition(generic::not_enough_memory);
        default:
            return {value, *this};
        }
    }
};

class conditions final : public boost::system::error_category {
public:
    constexpr conditions() noexcept
        : error_category(0xc94e07b2d6318fa5) {}

    char const* name() const noexcept override { return "holdfast.condition"; }

    std::string message(int value) const override {
        switch (static_cast<error_condition>(value)) {
        case error_condition::unavailable:
            return "too few instances took part";
        case error_condition::not_held:
            return "the lease is no longer held";
        case error_condition::invalid_argument:
            return "an argument is invalid";
        }
        return "unknown holdfast condition " + std::to_string(value);
    }

    bool equivalent(error_code const& code, int value) const noexcept override {
        if (code.category() != holdfast::error_category()) return false;
        auto const e = static_cast<errc>(code.value());
        switch (static_cast<error_condition>(value)) {
        case error_condition::unavailable:
            return e == errc::no_quorum ||
                   (e >= errc::unreachable && e <= errc::no_sentinel_majority);
        case error_condition::not_held:
            return e == errc::lease_lost || e == errc::lease_released;
        case error_condition::invalid_argument:
            return e >= errc::invalid_key && e <= errc::invalid_address;
        }
        return false;
    }
};

} // namespace

boost::system::error_category const& error_category() noexcept {
    static category const instance;
    return instance;
}

boost::system::error_category const& condition_category() noexcept {
    static conditions const instance;
    return instance;
}

std::string error::what() const {
    return report_ ? report_->to_string() + ": " + code_.message() : code_.message();
}

std::ostream& operator<<(std::ostream& out, error const& e) {
    return out << e.what();
}

lock_error::lock_error(error const& e)
    : system_error(e.report() != nullptr ? system_error(e.code(), e.report()->to_string())
                                         : system_error(e.code()))
    , failure_(e) {}

lock_error::~lock_error() = default;

void throw_error(error const& e) {
    throw lock_error(e);
}

std::exception_ptr detail::to_exception_ptr(error const& e) noexcept {
    if (!e) return nullptr;
    try {
        return std::make_exception_ptr(lock_error(e));
    } catch (std::bad_alloc const&) {
        return std::current_exception();
    }
}

} // namespace holdfast
