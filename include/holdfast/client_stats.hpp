#ifndef HOLDFAST_CLIENT_STATS_HPP
#define HOLDFAST_CLIENT_STATS_HPP

#include <holdfast/clock.hpp>
#include <holdfast/detail/api.hpp>
#include <holdfast/detail/boost_version.hpp>
#include <holdfast/latency_histogram.hpp>

#include <boost/system/error_code.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace holdfast {

/// How an acquire ended, for client_stats::acquires.
enum class acquire_outcome : std::uint8_t {
    acquired,    ///< from the instances
    handed_over, ///< from a holder of the same client, or shared with readers, without I/O
    contended,   ///< errc::contended
    timed_out,   ///< errc::wait_timeout
    cancelled,   ///< errc::cancelled
    unavailable, ///< error_condition::unavailable, and errc::granted_too_late
    failed,      ///< any other error: the client was shut down, or memory ran out
};
/// The number of values of acquire_outcome.
inline constexpr std::size_t acquire_outcomes = 7;
/// The value in words, for example "contended".
HOLDFAST_API char const* to_string(acquire_outcome) noexcept;

/// Counters of a client since it was made, and its present gauges. For alerts see
/// doc/production.md. metrics.hpp has them as text for Prometheus.
struct client_stats {
    // Counters: they only grow.

    std::uint64_t acquired = 0;       ///< leases given out
    std::uint64_t acquire_failed = 0; ///< acquires that ended with an error
    std::uint64_t rounds = 0;         ///< rounds of SET that were sent, won or not
    std::uint64_t released = 0;       ///< leases released before they ended
    std::uint64_t extended = 0;       ///< extensions that won, by the watchdog or by extend()
    std::uint64_t extend_failed = 0;  ///< extensions that failed
    std::uint64_t lost = 0;           ///< leases that ended without a release
    std::uint64_t revoked = 0;        ///< of these: leases that were revoked
    std::uint64_t revocations = 0;    ///< holders that this client has revoked
    /// Leases handed on in this process, or shared by its readers, without I/O.
    std::uint64_t handovers = 0;
    std::uint64_t pushes = 0;         ///< wake-ups of a queue or wait_change() by an instance
    std::uint64_t wasted_wakeups = 0; ///< tries after a push that found the key taken
    std::uint64_t split_votes = 0;    ///< rounds in which contenders kept each other from a quorum
    std::uint64_t raises = 0;         ///< fences raised where instances had counted differently
    std::uint64_t commands = 0;       ///< commands sent to the instances
    std::uint64_t batches = 0;        ///< batches that carried these commands
    std::uint64_t releases_dropped = 0;  ///< pending releases that were left to the ttl
    std::uint64_t observer_failures = 0; ///< exceptions from client_options::observer

    // Durations, since the client was made.

    /// From the call of an acquire to its end, for each acquire_outcome in its order.
    std::array<latency_histogram, acquire_outcomes> acquires{};
    /// The same for acquires that waited for a holder, however they ended.
    latency_histogram waits{};
    latency_histogram holds{};      ///< from the grant of a lease to its release or loss
    latency_histogram extensions{}; ///< from sending an extension to its success

    /// The longest time for which the event loop stood still while work of the client was due:
    /// see stall_event. Zero if that never took stall_threshold.
    std::chrono::nanoseconds longest_stall{0};

    // Gauges: the present state.

    std::uint64_t held = 0;    ///< leases that have a holder and have not ended
    std::uint64_t permits = 0; ///< of these, permits of semaphores
    std::uint64_t pending = 0; ///< acquires under way
    /// Pending acquires that wait: behind others of this process, refused by the instances, or for
    /// instances in an outage.
    std::uint64_t waiters = 0;

    /// Commands for each lease given out, with extensions and releases. Zero before the first
    /// lease.
    double commands_per_acquisition() const noexcept {
        return acquired == 0 ? 0. : static_cast<double>(commands) / static_cast<double>(acquired);
    }
};

/// The state of an instance, as the client sees it.
enum class instance_state : std::uint8_t {
    connecting, ///< the first connection is being made; commands wait up to instance_timeout
    up,         ///< connected, probed, answering
    /// As up, but its grants do not count, because it may have forgotten keys before their time.
    /// Lasts for max_ttl after a restart, a flush, a change of role (client_options::on_restart),
    /// or a jump of its clock (client_options::detect_clock_jumps), and for max_ttl and 2 s after a
    /// fail-over of Sentinel. In a Cluster: for max_ttl and the cluster-node-timeout after a
    /// fail-over or a restart. Also lasts while the instance may evict keys, and for max_ttl after
    /// that.
    quarantined,
    /// As up, but its grants do not count: too few of its replicas have the last ones, or it
    /// refuses WAIT (client_options::replicas). `reason` tells which.
    unreplicated,
    /// Connected, but an answer is overdue; it has no vote until it answers. With Sentinel: the
    /// last answers of a majority of the sentinels that named this primary are more than 2 s old.
    suspect,
    /// Not connected; the client tries again with growing pauses. With Sentinel also while no
    /// majority of the sentinels names a primary (errc::no_sentinel_majority).
    down,
};

/// The value in words, for example "quarantined".
HOLDFAST_API char const* to_string(instance_state) noexcept;

/// A service of an instance that the client does without: the ACL forbids a command, the server or
/// a proxy does not know it, or it has no effect. The instance votes all the same.
enum class degradation : std::uint8_t {
    /// CLIENT TRACKING, CLIENT CACHING or PTTL is refused, or pushes do not arrive: then until the
    /// next push. Waiters poll (lock_options::max_retry_delay), and a flush is noticed within a
    /// second.
    no_push,
    /// TIME is refused. Jumps of the server's clock are not noticed
    /// (client_options::detect_clock_jumps).
    no_clock_check,
    /// INFO is refused, or does not name the server process (`run_id`). Restarts, changes of role,
    /// flushes and evictions are not noticed (client_options::on_restart), nor that two addresses
    /// lead to one server.
    no_restart_check,
    /// `INFO commandstats` is refused. A flush during a lost connection is not noticed.
    no_flush_check,
    /// CONFIG GET is refused. The server counts as not durable (client_options::on_restart).
    no_durability_check,
    /// TYPE is refused. A key that is no lock counts as a held lock.
    no_type_check,
    /// PTTL is refused. Reports do not tell when a held lock expires, and waiters poll.
    no_expiry_times,
    /// GETRANGE is refused. Reports do not name the holder.
    no_holder_names,
    /// SCRIPT LOAD is refused. The first use of each script sends all of it.
    no_script_preload,
    /// EVALSHA is refused. Each use of a script sends all of it (EVAL).
    no_script_cache,
    /// DELIFEQ, DELEX or SET IFEQ is refused. Scripts take their place.
    no_native_compare,
    /// HELLO is refused. The connection speaks RESP2, which has no pushes.
    no_resp3,
    /// The server refuses to acquire locks, for example because the ACL forbids SET or the keys.
    no_acquire,
    /// The server refuses to extend leases. They end at their deadlines.
    no_extend,
    /// The server refuses to release locks. Each key stays there until its ttl is over.
    no_release,
    /// The server refuses locks with lock_options::fencing.
    no_fencing,
    /// The credentials_source failed, or the server refused its credentials. The connection keeps
    /// those from before.
    old_credentials,
    /// A Cluster: the clocks of two primaries differ by more than 100 ms. If slots go from one to
    /// the other, leases may end early, or the new owner is in quarantine
    /// (client_options::detect_clock_jumps).
    clocks_apart,
    /// Sentinel: one of the sentinels refuses SUBSCRIBE. The client asks the sentinels for
    /// fail-overs once a second, and is not told of them at once.
    no_announcements,
    /// More replicas are attached than client_options::replicas asks for, which is not 0. A
    /// fail-over may promote one that lacks a lock.
    spare_replicas,
};

/// The effect in words, for example "no push: waiters poll".
HOLDFAST_API char const* to_string(degradation) noexcept;

/// A degradation of an instance, and its reason.
struct instance_degradation {
    degradation kind{}; ///< the service that is missing
    /// The command, and the words of the server. Holds no secret.
    std::string message;
};

/// An instance as the client sees it now.
struct instance_status {
    std::string address;                               ///< as configured, without credentials
    instance_state state = instance_state::connecting; ///< as of now
    /// Why it is not up; no error while it is up.
    boost::system::error_code reason;
    std::string message; ///< the reason in words: the server's own, if it gave one
    /// quarantined: the end of the quarantine. The greatest time point while the instance may evict
    /// keys.
    lease_clock::time_point quarantined_until{};
    std::string
        server; ///< product and version, for example "valkey 9.1.2"; empty before the first probe
    /// Whether the server is durable: see restart_policy. Empty before the first probe.
    std::optional<bool> durable{};
    /// How far the server's clock is ahead of this machine's, by its last answer to TIME. Off by up
    /// to half of a round trip. Empty without such an answer.
    std::optional<std::chrono::microseconds> clock_offset{};
    /// With Sentinel: the server that the client uses as the primary, `host:port`. Empty while
    /// there is none, and without Sentinel.
    std::string primary{};
    /// The TLS of the connection, for example "TLS 1.3, session resumed". With tls_options::verify
    /// off it ends in "certificate not verified". Empty without a connection, and without TLS.
    std::string tls{};
    /// Why TLS files that have changed are not in use: the client goes on with the earlier ones.
    /// Empty: the present files are in use.
    std::string tls_problem{};
    /// How long the instance took to answer a batch of commands, since the client was made. Those
    /// of a Cluster's nodes count together.
    latency_histogram round_trips{};
    std::uint64_t connections = 0;      ///< connections that came up so far
    std::uint64_t pending_releases = 0; ///< releases that wait for this instance
    /// The services that the client does without on the present connection, or had to on the last
    /// one; each kind once. Commands of locks (no_acquire, no_extend, no_release, no_fencing) leave
    /// the list as soon as one succeeds. For the others, a right that was granted meanwhile counts
    /// from the next connection.
    std::vector<instance_degradation> degradations{};
    /// A Cluster: its primaries that own slots. The address is then that of the Cluster. The state
    /// is the best of the nodes' states, and `message` tells of a node that is not up.
    std::vector<instance_status> nodes{};
    unsigned slots = 0; ///< a node of a Cluster: how many hash slots it owns
};

/// One line: the address, the state and its reason, the server and the degradations.
HOLDFAST_API std::ostream& operator<<(std::ostream&, instance_status const&);

} // namespace holdfast

#endif
