#ifndef HOLDFAST_KEY_REPORT_HPP
#define HOLDFAST_KEY_REPORT_HPP

#include <holdfast/detail/api.hpp>

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace holdfast {

/// Whether a key is locked, as client::inspect() finds it.
enum class key_state : std::uint8_t {
    /// A quorum has no key, so nobody holds the lock, and it can be acquired.
    free,
    /// A quorum has the key with one token.
    held,
    /// Nobody can hold the lock, and there is no quorum without the key either: keys are left over,
    /// or tries are under way.
    split,
    /// On so many instances that a quorum is impossible, the key holds something that is no lock.
    not_a_lock,
    /// The instances that answered do not tell: too many are missing, or may have forgotten keys.
    unknown,
};
/// The value in words, for example "held".
HOLDFAST_API char const* to_string(key_state) noexcept;

/// The answer of one instance to client::inspect().
struct key_answer {
    /// The state of the key on one instance.
    enum class kind : std::uint8_t {
        absent,     ///< there is no key
        present,    ///< the key has a token
        not_a_lock, ///< the key holds something that is no string
        unknown,    ///< no answer, or an answer that does not count; `message` has the reason
    };

    std::string address;        ///< as configured, without credentials
    kind found = kind::unknown; ///< the state of the key there
    /// present: a digest of the token (the first 16 hexadecimal digits of its SHA-256). Equal
    /// tokens have equal digests. Empty if the server refuses GETRANGE, or if the key holds an
    /// empty string: a key that expires between two questions looks the same.
    std::string digest{};
    /// present: "this client", or the holder's client_options::holder_label. Empty if the holder
    /// has none.
    std::string holder{};
    /// present: the rest of the key's time to live. Empty for a key that never expires.
    std::optional<std::chrono::milliseconds> ttl_left{};
    bool ttl_known = false; ///< present: the instance told the time to live
    /// The least fence that the present or last tenure of the key may have given. 0: the instance
    /// keeps no counter for the key, or refuses GET.
    std::uint64_t fence = 0;
    std::chrono::nanoseconds round_trip{0}; ///< zero if the instance was not asked
    std::string message{};                  ///< the server's own, or the reason of `unknown`
};
/// The value in words, for example "present".
HOLDFAST_API char const* to_string(key_answer::kind) noexcept;

/// A key on all instances, at about one time. It shows no token.
///
/// @par Thread safety  Distinct objects: safe.
struct HOLDFAST_API key_report {
    std::string key;                      ///< with the client's prefix
    key_state state = key_state::unknown; ///< by the answers of all instances
    unsigned quorum = 0;                  ///< instances that a holder needs
    // Of the lock that is held; else empty.
    std::string holder{}; ///< as key_answer::holder
    std::string digest{}; ///< as key_answer::digest
    /// The time after which the key is gone from so many instances that no quorum has it, if nobody
    /// extends it. Empty if it is not known, or if the key never expires there.
    std::optional<std::chrono::milliseconds> ttl_left{};
    /// The greatest of key_answer::fence: at least this is the fence of the lease.
    std::uint64_t fence = 0;
    /// With a fence: the time of the holder's clock at which it asked for the lock. Empty without a
    /// fence, and if the counter was ahead of the holder's clock.
    std::optional<std::chrono::system_clock::time_point> since{};
    std::vector<key_answer> instances{}; ///< in the order of the client's constructor

    /// One line: the state, the holder, and then each instance.
    /// `lock "k": held by web-7, 8.1 s left (3 of 5 instances): 10.0.0.1:6379 present by web-7
    /// [9f86d081884c7d65], 8.1 s left; ...`
    std::string to_string() const;
};

/// As key_report::to_string().
HOLDFAST_API std::ostream& operator<<(std::ostream&, key_report const&);

} // namespace holdfast

#endif
