// Finds restarts that were before the client's first contact, by the ages of the instances.
//
// A client that starts after a restart cannot compare the server with its predecessor. But servers
// that were started together are of one age. A server that is younger than the longest lease, while
// another one is older, was started again: it may have forgotten a lease that still lasts. Where
// all servers are young, there was no lease before them, and nothing has to be waited for.
//
// The age is that of the first contact with each instance. Later restarts concern restart_guard.
// The uptime in INFO follows the wall clock, which may be set. So an age only adds doubt: it never
// ends a doubt that another guard has.
#ifndef HOLDFAST_PROTOCOL_SERVER_AGES_HPP
#define HOLDFAST_PROTOCOL_SERVER_AGES_HPP

#include "protocol/instance_set.hpp"
#include "protocol/time.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

namespace holdfast::protocol {

/// INFO tells whole seconds, and the server rounds its start too.
inline constexpr duration uptime_error = std::chrono::seconds(1);

/// The latest time at which a server was started that has told `uptime` in seconds by now. Empty if
/// the number cannot be an uptime.
constexpr std::optional<time_point> latest_start(time_point now, std::int64_t uptime) {
    constexpr std::int64_t most = 100 * 365 * std::int64_t{86'400};
    if (uptime < 0 || uptime > most) return std::nullopt;
    return std::min(now, now - std::chrono::seconds(uptime) + uptime_error);
}

class server_ages {
public:
    explicit server_ages(duration max_ttl)
        : max_ttl_(max_ttl) {}

    /// The instance has told its age: it was started at `start` at the latest. Only its first age
    /// counts.
    void told(unsigned instance, time_point start, time_point now) {
        if (known_.contains(instance)) return;
        known_.insert(instance);
        starts_[instance] = start;
        if (is_young(start, now)) {
            young_.insert(instance);
        } else {
            old_.insert(instance);
        }
    }
    /// The instances that were started again while an older one was there, so shortly ago that a
    /// lease may have been forgotten.
    instance_set restarted(time_point now) const {
        instance_set found;
        if (old_.empty()) return found;
        young_.for_each([&](unsigned i) {
            if (is_young(starts_[i], now)) found.insert(i);
        });
        return found;
    }

private:
    bool is_young(time_point start, time_point now) const { return now - start < max_ttl_; }

    duration max_ttl_;
    instance_set known_, young_, old_;
    std::array<time_point, instance_set::capacity> starts_{};
};

} // namespace holdfast::protocol

#endif
