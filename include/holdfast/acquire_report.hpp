#ifndef HOLDFAST_ACQUIRE_REPORT_HPP
#define HOLDFAST_ACQUIRE_REPORT_HPP

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace holdfast {

/// What one instance had to say to an acquire.
enum class instance_outcome : std::uint8_t {
    unanswered, ///< asked, or still being connected to, and the acquire was over before it answered
    granted,    ///< it gave us the key, and was asked to release it again
    held,       ///< the key exists there: somebody else's, or left over from somebody
    unreachable, ///< no connection, or it broke
    timed_out,   ///< connected, and silent for longer than instance_timeout
    rejected,    ///< the server answered with an error of its own
    quarantined, ///< its votes do not count for now: see instance_state::quarantined
    not_needed,  ///< up; not asked, or not waited for, as the acquire was decided without it
};

char const* to_string(instance_outcome) noexcept;

struct instance_report {
    std::string address; ///< as configured, without credentials
    instance_outcome outcome = instance_outcome::unanswered;
    /// From sending to the answer, of an instance that did not grant; else zero.
    std::chrono::nanoseconds round_trip{0};
    /// held: what is left of the key's time to live, where known. Empty for a key that never
    /// expires.
    std::optional<std::chrono::milliseconds> ttl_left;
    bool ttl_known = false;
    /// held: "this client", or the holder's client_options::owner_label, where it has one.
    std::string holder{};
    /// The server's own message, or why there is no connection. Never holds a password or a token.
    std::string message;
};

/// Why an acquire failed, instance by instance: those of its last round.
///
/// @par Thread safety  Distinct objects: safe.
struct acquire_report {
    std::string key;
    unsigned quorum = 0;
    unsigned up = 0;                    ///< instances that were up, and voted, when it ended
    unsigned attempts = 0;              ///< tries made for the key by this client meanwhile
    std::chrono::nanoseconds waited{0}; ///< from the call to its end
    /// Who had the key: "this client", or the label of another one. Empty if nobody, or not known.
    /// The label is of whom a waiter met first: in a long wait it may have become somebody else's
    /// turn.
    std::string holder{};
    std::vector<instance_report> instances;

    /// In one line, as in what(): how many instances are up, and then each of them.
    std::string to_string() const;
};

std::ostream& operator<<(std::ostream&, acquire_report const&);

} // namespace holdfast

#endif
