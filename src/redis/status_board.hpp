// The status of an instance, for users on any thread.
#ifndef HOLDFAST_REDIS_STATUS_BOARD_HPP
#define HOLDFAST_REDIS_STATUS_BOARD_HPP

#include <holdfast/client_stats.hpp>
#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>

#include <cstddef>
#include <mutex>
#include <new>
#include <string>
#include <string_view>

namespace holdfast::redis {

/// @par Thread safety  Safe.
class status_board {
public:
    explicit status_board(std::string address) { status_.address = std::move(address); }

    instance_status status() const {
        std::lock_guard const lock(mutex_);
        auto s = status_;
        if (s.state == instance_state::up && s.quarantined_until > lease_clock::now()) {
            s.state = instance_state::quarantined;
            s.reason = make_error_code(errc::quarantined);
            s.message = quarantine_reason_;
        }
        return s;
    }

    void set_state(instance_state state, errc cause, std::string_view message) {
        std::lock_guard const lock(mutex_);
        status_.state = state;
        status_.reason = cause == errc{} ? error_code{} : make_error_code(cause);
        status_.message = message;
    }
    void count_connection(std::string server) {
        std::lock_guard const lock(mutex_);
        ++status_.connections;
        status_.server = std::move(server);
    }
    void set_quarantine(lease_clock::time_point until, std::string_view reason) noexcept {
        std::lock_guard const lock(mutex_);
        status_.quarantined_until = until;
        try {
            quarantine_reason_ = reason;
        } catch (std::bad_alloc const&) {
            quarantine_reason_.clear(); // the error code is still reported
        }
    }
    void set_kept_releases(std::size_t count) {
        std::lock_guard const lock(mutex_);
        status_.pending_releases = count;
    }

private:
    mutable std::mutex mutex_;
    instance_status status_;
    std::string quarantine_reason_;
};

} // namespace holdfast::redis

#endif
