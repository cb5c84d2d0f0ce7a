// The status of an instance, for users on any thread.
#ifndef HOLDFAST_REDIS_STATUS_BOARD_HPP
#define HOLDFAST_REDIS_STATUS_BOARD_HPP

#include <holdfast/client_stats.hpp>
#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>

#include "redis/wire/optional_text.hpp"

#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::redis {

/// @par Thread safety  Safe.
class status_board {
public:
    explicit status_board(std::string address) { status_.address = std::move(address); }

    instance_status status() const {
        std::lock_guard const lock(mutex_);
        auto s = status_;
        if (s.state != instance_state::up) return s;
        auto const show = [&](instance_state state, objection const& o) {
            s.state = state;
            s.reason = make_error_code(o.cause);
            s.message = o.text;
        };
        if (doubt_.cause != errc{}) {
            show(instance_state::suspect, doubt_);
        } else if (s.quarantined_until > lease_clock::now()) {
            show(instance_state::quarantined, quarantine_);
        } else if (replicas_.cause != errc{}) {
            show(instance_state::unreplicated, replicas_);
        }
        return s;
    }

    void set_state(instance_state state, errc cause, std::string message) noexcept {
        std::lock_guard const lock(mutex_);
        status_.state = state;
        status_.reason = cause == errc{} ? error_code{} : make_error_code(cause);
        status_.message = std::move(message);
    }
    void set_tls(std::string text, std::string problem) noexcept {
        std::lock_guard const lock(mutex_);
        status_.tls = std::move(text);
        status_.tls_problem = std::move(problem);
    }
    void count_connection(std::string server) {
        std::lock_guard const lock(mutex_);
        ++status_.connections;
        status_.server = std::move(server);
    }
    /// A new connection: the services that it lacks.
    void set_degradations(std::vector<instance_degradation> all) noexcept {
        std::lock_guard const lock(mutex_);
        status_.degradations.swap(all);
    }
    void add_degradation(degradation kind, std::string message) {
        std::lock_guard const lock(mutex_);
        status_.degradations.push_back({.kind = kind, .message = std::move(message)});
    }
    void remove_degradation(degradation kind) noexcept {
        std::lock_guard const lock(mutex_);
        std::erase_if(status_.degradations, [&](auto const& d) { return d.kind == kind; });
    }
    void set_quarantine(lease_clock::time_point until, std::string_view reason) noexcept {
        std::lock_guard const lock(mutex_);
        status_.quarantined_until = until;
        quarantine_.set(errc::quarantined, reason);
    }
    /// Why grants do not count that wait for replicas; errc{} if they do.
    void set_replicas(errc cause, std::string_view reason) noexcept {
        std::lock_guard const lock(mutex_);
        replicas_.set(cause, reason);
    }
    /// Why the answers of an instance that is up do not count; errc{} if they do.
    void set_doubt(errc cause, std::string_view message) noexcept {
        std::lock_guard const lock(mutex_);
        doubt_.set(cause, message);
    }
    void set_durable(bool is) {
        std::lock_guard const lock(mutex_);
        status_.durable = is;
    }
    void set_clock_offset(std::chrono::microseconds ahead) {
        std::lock_guard const lock(mutex_);
        status_.clock_offset = ahead;
    }
    void set_primary(std::string server) {
        std::lock_guard const lock(mutex_);
        status_.primary = std::move(server);
    }
    void set_pending_releases(std::size_t count) {
        std::lock_guard const lock(mutex_);
        status_.pending_releases = count;
    }

private:
    /// Why the answers of an instance that is up do not count.
    struct objection {
        errc cause{}; ///< errc{}: they do
        std::string text;

        void set(errc c, std::string_view message) noexcept {
            cause = c;
            text = text_if_memory([&] { return message; });
        }
    };

    mutable std::mutex mutex_;
    instance_status status_;
    objection doubt_, quarantine_, replicas_;
};

} // namespace holdfast::redis

#endif
