#ifndef HOLDFAST_OPTIONS_HPP
#define HOLDFAST_OPTIONS_HPP

#include <holdfast/trace_context.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast {

class observer;

/// The longest key, prefix included, in bytes.
inline constexpr std::size_t max_key_size = 1024;
/// The most keys of one lock: client::make_multi_lock().
inline constexpr std::size_t max_lock_keys = 64;
/// The most permits of one semaphore: client::make_semaphore().
inline constexpr unsigned max_permits = 10'000;
/// The shortest time to live. With a shorter one the drift allowance (ttl / 100 + 2 ms) would use
/// up the lease.
inline constexpr std::chrono::milliseconds min_ttl{10};
/// The most instances of one client.
inline constexpr std::size_t max_instances = 32;
/// The longest holder_label, in bytes.
inline constexpr std::size_t max_label_size = 31;
/// The longest connection_name, in bytes.
inline constexpr std::size_t max_connection_name_size = 255;
/// The most replicas that client_options::replicas may name.
inline constexpr unsigned max_replicas = 32;
/// For client_options::replicas: as many as the primary lists.
inline constexpr unsigned all_replicas = 0xffff'ffff;
/// The largest handover_limit: a fence has room for that many leases of one tenure, and for the
/// readers after them.
inline constexpr unsigned max_handover_limit = 99;

/// A text of up to `Max` bytes that is kept in place, so the options own it, and a function may
/// build them from strings of its own and return them. Of a longer text it keeps the first `Max`
/// bytes and the whole size, and the client refuses it. Trivially copyable and destructible.
template <std::size_t Max>
class bounded_text {
public:
    /// An empty text.
    constexpr bounded_text() noexcept = default;
    /// Copies `text`.
    constexpr bounded_text(std::string_view text) noexcept
        : size_(text.size()) {
        std::copy_n(text.begin(), (std::min)(size_, Max), bytes_.begin());
    }
    /// Copies `text`.
    bounded_text(std::string const& text) noexcept
        : bounded_text(std::string_view(text)) {}
    /// Copies `text`, which is not null and ends with a null byte.
    constexpr bounded_text(char const* text) noexcept
        : bounded_text(std::string_view(text)) {}

    /// The text, or its first `Max` bytes. Valid for as long as this object is.
    constexpr std::string_view view() const noexcept {
        return {bytes_.data(), (std::min)(size_, Max)};
    }
    /// As view().
    constexpr operator std::string_view() const noexcept { return view(); }
    /// How many bytes the whole text has.
    constexpr std::size_t size() const noexcept { return size_; }
    /// Whether the text is empty.
    constexpr bool empty() const noexcept { return size_ == 0; }
    /// Whether the text has more than `Max` bytes, so that it was cut.
    constexpr bool too_long() const noexcept { return size_ > Max; }

private:
    std::size_t size_ = 0;
    std::array<char, Max> bytes_{};
};

/// How a client treats an instance that has restarted.
///
/// Redlock assumes that an instance keeps a key for its ttl. A restarted instance has forgotten
/// every key that was not on its disk, so it could grant a lock that another client holds. A
/// *durable* server forgets nothing: it has `appendonly yes`, `appendfsync always` and
/// `no-appendfsync-on-rewrite no`, before and after the restart. The client asks for these settings
/// when it connects (CONFIG GET), and for `appendonly` about once a second. If the ACL forbids
/// CONFIG GET, the server is treated as not durable. Do not change `appendfsync` while clients are
/// connected.
///
/// These events count as a restart, also for a durable server:
/// - the instance was a replica;
/// - FLUSHALL, FLUSHDB or SWAPDB, of any database;
/// - a `maxmemory-policy` that may evict locks, for as long as it is set.
///
/// With Sentinel, a fail-over counts too: the new primary may lack the last locks of the old one.
/// Its votes do not count for max_ttl and 2 s, and its extensions for 2 s. `off` drops both times.
/// `strict` also waits after the client's first connection to Sentinel, unless a majority of the
/// sentinels says that it has named this primary for so long already. This rests on the wall clocks
/// of the sentinels. Whatever the policy, a primary has a vote only if a majority of all known
/// sentinels named it within the last 2 s.
///
/// Use `off` in tests that flush.
enum class restart_policy : std::uint8_t {
    /// The instance votes at once. The client does not ask for the settings.
    off,
    /// After a restart that the client notices, the votes do not count for client_options::max_ttl.
    /// A client that starts after the restart compares the uptimes of the servers: those of the
    /// instances, and the nodes of a Cluster. If a server is younger than max_ttl and another one
    /// is older, it has been restarted, and its votes do not count until its uptime is max_ttl. So
    /// it is with a primary that its sentinels have named for longer than it runs. If all servers
    /// are young, or there is only one, the client trusts them. It also trusts a server that was
    /// promoted before the client started, and one that does not tell its uptime.
    observed,
    /// As observed, and a server that is younger than max_ttl when the client first connects has no
    /// vote until its uptime is max_ttl, even if there is no other server to compare it with. The
    /// client cannot tell a new server from one that has been restarted. For clients that live
    /// shortly: the command `holdfast run` uses it. A durable server votes at once.
    by_uptime,
    /// As observed, and also after the client's first connection: the client cannot know the time
    /// before.
    strict,
};

/// Options of a client. Trivially destructible on purpose: g++ 12 destroys other aggregates twice
/// when they are written inside a co_await expression.
struct client_options {
    // Options that most programs set.

    /// The longest ttl that a lock of this client may have; make_lock() refuses a longer one with
    /// errc::invalid_options. An instance that may have forgotten keys has no vote for this long.
    /// So max_ttl must cover the ttl of every client that locks one of the same keys, in other
    /// programs and with other libraries, too. Clients with no key in common, such as services with
    /// prefixes of their own, may have different values. A program whose locks need different
    /// values makes two clients. min_ttl to 24 h.
    std::chrono::milliseconds max_ttl{60'000};
    /// Precedes every key. Shorter than max_key_size, without control bytes (below 0x20, and 0x7f).
    bounded_text<max_key_size - 1> key_prefix{};
    /// The part of each token that names this client, so that reports of other clients show it as
    /// the holder. Every user with access to the keys can read the label. Empty: tokens are random
    /// bits alone. Up to max_label_size letters, digits, and any of `.` `_` `-` `@`; it does not
    /// begin with `revoked@`, which is of client::revoke().
    bounded_text<max_label_size> holder_label{};
    /// The name in CLIENT LIST: printable ASCII without spaces, not empty, up to
    /// max_connection_name_size.
    bounded_text<max_connection_name_size> connection_name = "holdfast";
    /// Whether the client runs its own work on a strand. Set it to false where one thread runs the
    /// executor's context, to save the cost of the strand. Client, lock and lease may then be used
    /// on that thread only. Also where `asio::io_context` was made with the concurrency hint 1, the
    /// client may call that context's handlers straight after its own work. A handler on such a
    /// context must not run the context itself, as a nested `poll()` does, nor block for something
    /// that needs the client.
    bool thread_safe = true;

    // Waiting for instances.

    /// How long an instance may take to answer. After that the client decides without its vote. A
    /// command may wait for the answers to the one batch before it. So each round of a call ends
    /// within twice this time, or within four times if an instance answers in fragments. Most calls
    /// have one round. An acquire has up to three: the arbiter; the other instances; raising a
    /// fence, or asking for the holder. Time in which this process does not run does not count. 1
    /// ms to 60 s.
    std::chrono::milliseconds instance_timeout{500};
    /// How long one attempt to connect may take. The addresses of a name share this time, and the
    /// handshake of TLS may take three quarters of a share. The same limit applies once more to the
    /// DNS lookup. 1 ms to 60 s.
    std::chrono::milliseconds connect_timeout{1'000};
    /// The longest pause between two attempts to connect. The first pause is 20 ms, also after a
    /// connection that was up for this long. 1 ms to 60 s. If the setup seems wrong, for example
    /// because the server's certificate is not trusted, the pauses are 1 s, doubling to 30 s, with
    /// up to a quarter less.
    std::chrono::milliseconds max_reconnect_delay{1'000};

    // Guards against instances that forget keys.

    /// How the client treats an instance that has restarted. This rests on max_ttl: no client that
    /// locks the same keys may have a longer ttl. Every new acquire fails with errc::quarantined
    /// for max_ttl if too few other instances are left: there is only one instance, or a majority
    /// restarted. Held leases continue where their keys still exist.
    restart_policy on_restart = restart_policy::observed;
    /// Whether the client reads the clock of each instance (TIME): before the first command of each
    /// second, and every 2.5 s on an idle connection. An instance whose clock has jumped ahead has
    /// expired keys too early. Its votes do not count for max_ttl after the client notices. Until
    /// then, up to a second, two clients may hold one lock. If the ACL forbids TIME, the client
    /// does not check the instance. If all clocks jump together, this machine's clock has stood
    /// still. Leases then end earlier by the same amount, and all votes count. With one server the
    /// client cannot tell the two cases apart: leases end earlier, and the instance has no vote for
    /// max_ttl. The nodes of a Cluster are compared with each other.
    bool detect_clock_jumps = true;
    /// How many replicas of an instance must have a grant before it counts. The same holds for
    /// extensions and raised fences. The client then ends each batch of them with one WAIT.
    ///
    /// - 0: none. A promoted replica may lack grants that counted.
    /// - k, from 1 to max_replicas: at least k. An instance with fewer replicas grants nothing.
    /// - all_replicas: as many as the primary has listed during the connection, and at least one.
    ///
    /// Only a number that includes every replica that may be promoted is a guard. WAIT does not
    /// tell which replicas have a grant: with 1 of 2, the other one may be promoted, and then every
    /// grant is lost. all_replicas does not count a replica that was cut off before the client
    /// connected, or that came within the last second. So name the number where it is known. No
    /// number survives a primary that restarts empty: its replicas copy the empty data.
    ///
    /// A missing replica stops new locks and extensions at this instance, until the primary lists
    /// enough replicas that have all its writes. The client asks after 100 ms, and then with pauses
    /// of up to a second. Meanwhile acquires fail with errc::too_few_replicas, if too few other
    /// instances are left.
    ///
    /// Grants that do not count are given back. WAIT has a quarter of instance_timeout, and the
    /// server may take 100 ms more. With less than 200 ms of instance_timeout a missing replica
    /// makes the instance suspect. The user needs the right to use WAIT.
    unsigned replicas = 0;
    /// How long an instance remembers the counter of a key's fences: at least half of this time
    /// after the last lease. After that, fences grow only if the clients' clocks are right. All
    /// clients need the same value. max_ttl to 366 days.
    std::chrono::milliseconds fence_ttl{24 * 3'600'000};

    // For operators.

    /// Is told what the client does: see observer.hpp. If a `std::shared_ptr` owns it, the client
    /// shares the ownership. Otherwise it must outlive the client and the run of its context. Null:
    /// no observer.
    holdfast::observer* observer = nullptr;

    // Limits.

    /// How many pending releases the client keeps for an instance. It leaves older ones to the ttl.
    /// At least 1.
    std::size_t max_pending_releases = 100'000;
};

/// How an acquire that may wait treats an outage: too few instances can grant its lock.
enum class outage_policy : std::uint8_t {
    /// Waits for the instances, as it waits for a holder: for as long as the caller has allowed. It
    /// fails at once if permanent errors keep it from a quorum, such as a wrong password, a missing
    /// right, or a server that is not Redis: they last until somebody changes the setup.
    wait,
    /// Fails. An acquire that is already waiting for a holder first allows the instances
    /// client_options::instance_timeout to come back.
    fail,
};

/// The access to a key that a lock asks for.
enum class lock_access : std::uint8_t {
    exclusive, ///< client::make_lock(), client::make_multi_lock()
    read,      ///< read_write_lock::read(): together with other readers
    write,     ///< read_write_lock::write(): alone
    permit,    ///< client::make_semaphore(): one of several permits
};

/// Options of a lock. Trivially destructible, for the same reason.
struct lock_options {
    // Options that most programs set.

    /// How long the key lives on the servers without an extension. This is the longest time for
    /// which a crashed holder keeps others out. All users of a key need the same ttl, or ttls of
    /// more than six times the client_options::instance_timeout of any client: after a restart of
    /// instances, safety rests on no acquire lasting longer than another client's ttl. A lease that
    /// was handed on in this process keeps its predecessor's ttl if that is longer. min_ttl to
    /// client_options::max_ttl.
    std::chrono::milliseconds ttl{10'000};
    /// Whether a watchdog extends the lease, at least every ttl / 3, for as long as it lives.
    /// Without it the lease ends at its first deadline unless extend() is called.
    bool watchdog = true;
    /// Whether leases have a *fencing token*, lease::fence(). The servers then count after the SET,
    /// or run a script instead. Needs the right to run scripts and to use the key `{key}:fence`, or
    /// `key:fence` if the key has a hash tag of its own. These two keys must not be locks
    /// themselves. Without the right to use TIME, instances with different counters agree one round
    /// trip later.
    bool fencing = false;

    // Limits to holding.

    /// The longest time for which one lease lasts, from its grant, however often it is extended. So
    /// a holder that hangs gives the lock up in the end. wait_end() and held() report the end
    /// as they report any loss. A reader with a limit shares with no other reader of its process.
    /// Zero: no limit. Else min_ttl to 366 days.
    std::chrono::milliseconds max_hold{0};
    /// How long before the deadline with_lock() cancels its body if the lease cannot be kept.
    /// Negative: a tenth of the ttl, or of max_hold if that is shorter. At most a third of the ttl,
    /// because extensions begin when a third has passed, and at most half of max_hold.
    std::chrono::milliseconds cancel_margin{-1};

    // Waiting, and turns between processes.

    /// The longest pause before a waiter tries again without a signal: after a split vote, and on
    /// servers that refuse CLIENT TRACKING. The pause is random, up to this. 1 ms to 60 s.
    std::chrono::milliseconds max_retry_delay{50};
    /// Whether lock::acquire() and lock::try_acquire_for() wait for instances that are unreachable,
    /// silent, in quarantine or in a fail-over. lock::try_acquire() and client::adopt() never do.
    outage_policy on_outage = outage_policy::wait;
    /// How many leases one ownership of the key on the servers (a *tenure*) may serve. A released
    /// lease goes to the next waiter of this process in memory (a *hand-over*), until this limit
    /// gives other processes their turn. The limit does not end a tenure that is younger than its
    /// own acquire took on the servers. To pass a key on takes as long again. Leases may be shorter
    /// than that. A tenure with fences serves 99 leases at most. 1 switches hand-overs off. 1 to
    /// max_handover_limit.
    unsigned handover_limit = 64;
    /// How long after its grant a tenure may serve further leases. Zero switches that off. 0 to 60
    /// s.
    std::chrono::milliseconds handover_time{50};
    /// Whether processes get the key in the order in which they asked. A process stands in a line
    /// at one instance, and a release gives the key to the first in line at once. Without it the
    /// order between processes is random. All programs that use the key need the same value: a
    /// program without it gets the key only while no process stands in line. Clients of other
    /// libraries do too. A process whose turn comes has 100 ms and twice the max_retry_delay, but
    /// at most 2.1 s, to take the key. Needs the right to run scripts and to use the keys
    /// `{key}:queue` and `{key}:queue:*`, or `key:queue` and `key:queue:*` if the key has a hash
    /// tag of its own. Nobody else may use these. Not together with yield_to_pollers, nor for
    /// readers and writers, who take turns in any case.
    bool fair = false;
    /// How long the key is left free for clients of other libraries, which poll for it. After each
    /// tenure neither this process nor its peers that wait for the key take it for this long. Set
    /// it to the pause of the pollers, in all processes that use the key. Each poller then finds
    /// the key free at least once after each tenure. Each change of process takes longer by this
    /// time. A process that finds a free key takes it at once. So does try_acquire(), and so does
    /// every waiter after a lost lease or an outage. Zero: the key goes to waiters of this library
    /// at once, and pollers may starve beside them. 0 to 60 s.
    std::chrono::milliseconds yield_to_pollers{0};

    /// Of a lock on several keys (client::make_multi_lock): after so many refusals an acquire takes
    /// the keys one after the other, in byte order, and keeps those that it has while it waits for
    /// the next. Until then it takes all of them or none. Each refusal is a turn of somebody else.
    /// A small number serves locks on several keys first, a large one those on one key. 0: in order
    /// at once. Without effect on other locks.
    unsigned patience = 4;

    // For operators.

    /// The trace of the caller. The events of this lock's acquires and leases carry it to
    /// client_options::observer.
    trace_context trace{};

    /// Whether all members are equal.
    friend bool operator==(lock_options const&, lock_options const&) noexcept = default;
};

} // namespace holdfast

#endif
