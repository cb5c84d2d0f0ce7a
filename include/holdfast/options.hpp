#ifndef HOLDFAST_OPTIONS_HPP
#define HOLDFAST_OPTIONS_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace holdfast {

/// The longest key, prefix included, in bytes.
inline constexpr std::size_t max_key_size = 1024;
/// The shortest time to live. Below it the drift allowance eats the lease.
inline constexpr std::chrono::milliseconds min_ttl{10};
/// The most instances one client can have.
inline constexpr std::size_t max_instances = 32;

/// The longest owner_label, in bytes.
inline constexpr std::size_t max_label_size = 31;
/// The largest handoff_limit.
inline constexpr unsigned max_handoff_limit = 65'535;

/// What a client makes of an instance that has restarted. Redlock assumes that an instance keeps a key for its
/// ttl; one that restarts forgets what was not on its disk, and could grant to one what another holds. A server
/// with `appendonly yes`, `appendfsync always` and `no-appendfsync-on-rewrite no`, before and after, forgets nothing
/// in a restart. It is asked for these when the client connects (CONFIG GET; a client whose ACL forbids it takes it to
/// forget), and for `appendonly` about once a second. Do not change `appendfsync` while it runs.
///
/// These count as a restart, whatever the server writes to disk: a time as a replica; FLUSHALL, FLUSHDB and SWAPDB, of
/// any database; and a `maxmemory-policy` that may evict locks, for as long as it is set. Use `off` in tests that
/// flush.
enum class restart_guard : std::uint8_t {
    off,      ///< it votes at once, and is not asked again
    observed, ///< after a restart in the client's life its votes do not count for client_options::max_ttl
    strict,   ///< the same, and when the client connects for the first time: it cannot know what was before
};

/// How a client works. Trivially destructible on purpose: g++ 12 destroys other aggregates twice when they
/// are written inside a co_await expression.
struct client_options {
    /// How long an instance may take to answer before its votes are done without. A command may wait for
    /// the answers to the one batch before it, so each round of a call settles within twice that, and
    /// within four times that where an instance trickles its answers. A call has one round, and an
    /// acquire up to three (the arbiter, the others, and raising a fence, or asking who holds the key).
    /// Time in which this process does not run does not count. 1 ms to 60 s.
    std::chrono::milliseconds instance_timeout{500};
    /// How long a connection may take to be made; as long again is given to looking up a name. 1 ms to 60 s.
    std::chrono::milliseconds connect_timeout{1'000};
    /// The longest pause between two tries to connect. Tries start at 20 ms apart, and again so after a
    /// connection that was up for this long. 1 ms to 60 s.
    std::chrono::milliseconds reconnect_delay{1'000};
    /// The longest ttl that a lock of this client may ask for; a longer one is refused with
    /// errc::invalid_options. It is also for how long an instance that may have forgotten keys has
    /// no vote, so give it the longest ttl that any client of these locks has, and no more. min_ttl
    /// to 24 h.
    std::chrono::milliseconds max_ttl{60'000};
    /// What it makes of an instance that restarted. All clients' ttls must be within this one's max_ttl. Where
    /// too few other instances are left (there is but one, or a majority restarted), nobody gets a new lock for
    /// max_ttl, with errc::quarantined; leases that are held go on as far as their keys are still there.
    restart_guard on_restart = restart_guard::observed;
    /// Whether the instances are asked for their time: before the first command of each second, and about every
    /// two seconds where there is none. One whose clock has jumped ahead has expired keys too early; its votes do
    /// not count for max_ttl from when it is noticed. In the second until then two may hold a lock. One that does
    /// not let us ask (TIME) is not watched. If all jump together, the clock of this machine has stood still: then
    /// leases end earlier by as much, those that are over by that are lost, and all votes count. A lone instance is
    /// taken both ways.
    bool watch_clocks = true;
    /// How long an instance remembers a key's fence: at least half of this after the last lease. After that the
    /// clients' clocks must be right for fences to grow. One value for all clients. max_ttl to 366 days.
    std::chrono::milliseconds fence_ttl{24 * 3'600'000};
    /// How many releases are kept for an instance that cannot be reached; older ones are left to their ttl.
    /// At least 1.
    std::size_t max_kept_releases = 100'000;
    /// Put before every key. Copied by the client.
    std::string_view key_prefix{};
    /// What CLIENT LIST shows for our connections: no spaces or control characters. Copied by the client.
    std::string_view name = "holdfast";
    /// Put in front of each token, so that a report of another client of ours can say whom it waited for.
    /// Whoever can read the keys can read it. Empty: tokens are random bits alone. Up to max_label_size
    /// letters, digits, and any of `.` `_` `-` `@`. Copied by the client.
    std::string_view owner_label{};
    /// Whether the client's own work runs on a strand. False is for programs that run the executor's context
    /// on one thread, and saves the strand's cost; client, lock and lease are then for that thread alone.
    bool thread_safe = true;
};

/// How a lock behaves. Trivially destructible, for the same reason.
struct lock_options {
    /// How long the key lives on the servers without renewal: the longest that a crashed holder can keep
    /// others out. Choose the same for all who use a key, or more than six times client_options::instance_timeout
    /// of any client: what is promised after restarts of instances rests on no acquire lasting longer than
    /// another's ttl. A lease that a holder of this process handed on keeps that one's ttl, if that is longer.
    /// min_ttl to client_options::max_ttl.
    std::chrono::milliseconds ttl{10'000};
    /// The longest pause before a waiter tries again where it has to guess: after a split vote, and on servers
    /// that refuse CLIENT TRACKING. The pause is random up to that. 1 ms to 60 s.
    std::chrono::milliseconds retry_delay{50};
    /// Whether the lease is extended, at least every ttl / 3, for as long as it lives. If not, it ends at its
    /// first deadline unless extend() is called.
    bool watchdog = true;
    /// Whether leases have a fence(), a number by which a resource tells who is late. Costs the servers a script
    /// in the place of a SET. Needs the right to run scripts and to use the key `{key}:fence`, or `key:fence`
    /// where the key has a hash tag of its own; the two keys must not be locks themselves. Without the right to
    /// TIME, instances that have counted differently agree one round trip later.
    bool fencing = false;
    /// When a lease ends at the latest, counted from when it was given, whatever is done to extend it: so that
    /// a holder that hangs does not hold for ever. Its holder is told as of any loss. Zero: no limit. Else
    /// min_ttl or more.
    std::chrono::milliseconds max_hold{0};
    /// How long before the deadline client::run() cancels a section whose lease cannot be kept. Negative: a tenth
    /// of the ttl, or of max_hold if that is shorter. Up to a third of the ttl, as renewals begin when that much
    /// has passed, and up to half of max_hold.
    std::chrono::milliseconds grace{-1};
    /// How many leases one ownership of the key on the servers may serve: a lease that is released goes to the
    /// next waiter of this process in memory, until the limit is reached and other processes get their turn.
    /// 1 switches it off. 1 to max_handoff_limit.
    unsigned handoff_limit = 64;
    /// For how long after the key was won its leases may be handed on. Zero switches it off. 0 to 60 s.
    std::chrono::milliseconds handoff_time{50};
    /// For how long the key is left free for clients of other libraries, which poll for it. After
    /// each tenure, that is, after up to handoff_limit leases or handoff_time, neither the process
    /// that had the key nor those that wait for it take it for so long. Set it to the pause of the
    /// pollers, in all processes that use the key; each poller then finds the key free at least
    /// once after each tenure. Each change of process takes so much longer. A process that comes
    /// new to a free key, and try_acquire, do not heed it, and nobody does after a lease was lost or
    /// too few instances were there. Zero: the key goes to waiters of this library at once, and
    /// pollers may starve beside them. 0 to 60 s.
    std::chrono::milliseconds yield_to_pollers{0};
};

} // namespace holdfast

#endif
