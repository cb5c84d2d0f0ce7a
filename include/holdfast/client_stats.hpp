#ifndef HOLDFAST_CLIENT_STATS_HPP
#define HOLDFAST_CLIENT_STATS_HPP

#include <holdfast/clock.hpp>

#include <boost/system/error_code.hpp>

#include <cstdint>
#include <string>

namespace holdfast {

/// Counters of a client since it was made, and its present gauges. For alerts see
/// doc/production.md.
struct client_stats {
    // Counters: they only grow.

    std::uint64_t acquired = 0;        ///< leases given out
    std::uint64_t acquire_failed = 0;  ///< acquires that ended with an error
    std::uint64_t rounds = 0;          ///< rounds of SET that were sent, won or not
    std::uint64_t released = 0;        ///< leases released before they ended
    std::uint64_t renewals = 0;        ///< extensions that won, by the watchdog or by extend()
    std::uint64_t renewals_failed = 0; ///< extensions that failed
    std::uint64_t lost = 0;            ///< leases that ended without a release
    std::uint64_t handoffs = 0;        ///< leases handed on in this process without I/O
    std::uint64_t pushes = 0;          ///< wake-ups of a waiting queue by an instance
    std::uint64_t wasted_wakeups = 0;  ///< tries after a push that found the key taken
    std::uint64_t split_votes = 0;     ///< rounds in which contenders kept each other from a quorum
    std::uint64_t raises = 0;          ///< fences raised where instances had counted differently
    std::uint64_t commands = 0;        ///< commands sent to the instances
    std::uint64_t batches = 0;         ///< batches that carried these commands
    std::uint64_t releases_dropped = 0; ///< pending releases that were left to the ttl

    // Gauges: the present state.

    std::uint64_t held = 0;    ///< leases that have a holder and have not ended
    std::uint64_t pending = 0; ///< acquires under way
    /// Pending acquires that wait for a holder: behind others of this process, or refused by the
    /// instances.
    std::uint64_t waiters = 0;

    /// Commands for each lease given out, with renewals and releases. Zero before the first lease.
    double commands_per_acquisition() const noexcept {
        return acquired == 0 ? 0. : static_cast<double>(commands) / static_cast<double>(acquired);
    }
};

enum class instance_state : std::uint8_t {
    connecting, ///< the first connection is being made; commands wait up to instance_timeout
    up,         ///< connected, probed, answering
    /// As up, but its grants do not count, because it may have forgotten keys before their time.
    /// Lasts for max_ttl after a restart, a flush, a change of role (client_options::on_restart),
    /// or a jump of its clock (client_options::detect_clock_jumps). Also lasts while the instance
    /// may evict keys, and for max_ttl after that.
    quarantined,
    suspect, ///< connected, but an answer is overdue; it has no vote until it answers
    down,    ///< not connected; the client tries again with growing pauses
};

char const* to_string(instance_state) noexcept;

/// An instance as the client sees it now.
struct instance_status {
    std::string address; ///< as configured, without credentials
    instance_state state = instance_state::connecting;
    /// Why it is not up; no error while it is up.
    boost::system::error_code reason;
    std::string message; ///< the reason in words: the server's own, if it gave one
    /// quarantined: the end of the quarantine. The greatest time point while the instance may evict
    /// keys.
    lease_clock::time_point quarantined_until{};
    std::string
        server; ///< product and version, for example "valkey 9.1.2"; empty before the first probe
    std::uint64_t connections = 0;      ///< connections that came up so far
    std::uint64_t pending_releases = 0; ///< releases that wait for this instance
};

} // namespace holdfast

#endif
