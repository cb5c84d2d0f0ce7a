#ifndef HOLDFAST_ACQUIRE_REPORT_HPP
#define HOLDFAST_ACQUIRE_REPORT_HPP

#include <holdfast/detail/api.hpp>

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace holdfast {

/// The call that a report is about.
enum class reported_call : std::uint8_t {
    acquire, ///< lock::acquire() and its variants, and with_lock()
    extend,  ///< lease::extend(), and the watchdog
    release, ///< lease::release(), and the destructor of a lease
    ready,   ///< client::wait_ready()
};

/// The answer of one instance to a call.
enum class instance_outcome : std::uint8_t {
    unanswered,   ///< asked; the call ended before an answer
    granted,      ///< gave us the key, and has been asked to release it
    held,         ///< the key exists there: a holder's, or left over
    unreachable,  ///< no connection, or the connection broke
    timed_out,    ///< connected, and silent for longer than instance_timeout
    rejected,     ///< the server answered with an error
    quarantined,  ///< its votes do not count for now: see instance_state::quarantined
    unreplicated, ///< too few of its replicas have the grant: see instance_state::unreplicated
    not_needed,   ///< up; the call was decided without its vote
    done,         ///< extend, release: did so; adopt: has the lease; ready: can lock
    missing,      ///< extend, release: does not have our key any more; adopt: not this lease
};

/// The value in words, for example "granted".
HOLDFAST_API char const* to_string(instance_outcome) noexcept;

/// The answer of one instance, as reports have it.
struct instance_report {
    std::string address;                                     ///< as configured, without credentials
    instance_outcome outcome = instance_outcome::unanswered; ///< of the last round
    /// From sending to the answer of an instance that did not grant; else zero.
    std::chrono::nanoseconds round_trip{0};
    /// held: the rest of the key's time to live, where known. Empty for a key that never expires.
    std::optional<std::chrono::milliseconds> ttl_left;
    bool ttl_known = false; ///< held: the instance told the time to live
    /// held: the key of a lock on several keys that stood in the way. Else empty.
    std::string key{};
    /// held: "this client", or the holder's client_options::holder_label. Empty if the holder has
    /// none.
    std::string holder{};
    /// The server's own message, or the reason why there is no connection. Never holds a password
    /// or a token.
    std::string message;
};

/// Why an acquire failed, or an extend or a release: the answers of each instance in its last
/// round.
///
/// @par Thread safety  Distinct objects: safe.
struct HOLDFAST_API acquire_report {
    std::string key;                             ///< with the client's prefix; ready: empty
    reported_call call = reported_call::acquire; ///< the call that failed
    unsigned quorum = 0;                         ///< instances that have to grant
    /// Instances that were up and had a vote at the end. A Cluster counts if the primary of the key
    /// does.
    unsigned up = 0;
    unsigned attempts = 0;              ///< acquire: tries of this client for the key meanwhile
    std::chrono::nanoseconds waited{0}; ///< from the call to its end
    /// The holder of the key: "this client", or the label of another client. Empty if there is
    /// none, or if it is not known. The label is that of the first holder that a waiter met. After
    /// a long wait another client may hold the key.
    std::string holder{};
    std::vector<instance_report> instances; ///< in the order of the client's constructor

    /// One line, as in what(): the verdict, and then each instance.
    /// `lock "k" not acquired: held by web-7, 8.1 s left (3 of 5 instances), after 1 try in 1.2 ms:
    /// 10.0.0.1:6379 held by web-7, 8.1 s left after 0.4 ms; ...`
    std::string to_string() const;
};

/// As acquire_report::to_string().
HOLDFAST_API std::ostream& operator<<(std::ostream&, acquire_report const&);

} // namespace holdfast

#endif
