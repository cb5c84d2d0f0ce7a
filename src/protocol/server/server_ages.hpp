// Finds restarts that were before the client's first contact, by the ages of the instances.
//
// A client that starts after a restart cannot compare the server with its predecessor. But servers
// that were started together are of one age. A server that is younger than the longest lease, while
// another one is older, was started again: it may have forgotten a lease that still lasts. Where
// all servers are young, there was no lease before them, and nothing has to be waited for.
//
// Behind Sentinel there is evidence of another kind: if the sentinels have had a primary for longer
// than its process has run, it was started again.
//
// The age is that of the first contact with each server. Later restarts concern restart_guard. The
// uptime in INFO follows the wall clock, which may be set. So an age only adds doubt: it never ends
// a doubt that another guard has.
#ifndef HOLDFAST_PROTOCOL_SERVER_AGES_HPP
#define HOLDFAST_PROTOCOL_SERVER_AGES_HPP

#include "protocol/time.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

namespace holdfast::protocol {

/// INFO reports whole seconds, and the server rounds its start too.
inline constexpr duration uptime_error = std::chrono::seconds(1);

/// The latest time at which a server was started that has reported `uptime` in seconds by now.
/// Empty if the number cannot be an uptime.
constexpr std::optional<time_point> latest_start(time_point now, std::int64_t uptime) {
    constexpr std::int64_t most = 100 * 365 * std::int64_t{86'400};
    if (uptime < 0 || uptime > most) return std::nullopt;
    return std::min(now, now - std::chrono::seconds(uptime) + uptime_error);
}

/// True if the process of a primary was started again, at `start` at the latest. `named`: a time at
/// which the sentinels had the server as the primary already.
constexpr bool restarted_since(time_point named, time_point start) {
    // The start may have been earlier by the error, and by the second that the server rounds.
    return named < start - 2 * uptime_error;
}

/// True if a lease from before this start may still last.
constexpr bool is_young(time_point start, time_point now, duration max_ttl) {
    return now - start < max_ttl;
}

class server_ages {
public:
    explicit server_ages(duration max_ttl)
        : max_ttl_(max_ttl) {}

    /// A server has reported its age at the first contact: it was started at `start` at the latest.
    void on_age(time_point start, time_point now) {
        some_old_ = some_old_ || !is_young(start, now, max_ttl_);
    }
    /// True if a server is so old that one which is young has been started again.
    bool some_old() const { return some_old_; }

private:
    duration max_ttl_;
    bool some_old_ = false;
};

} // namespace holdfast::protocol

#endif
