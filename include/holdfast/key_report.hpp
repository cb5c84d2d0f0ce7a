#ifndef HOLDFAST_KEY_REPORT_HPP
#define HOLDFAST_KEY_REPORT_HPP

#include <holdfast/detail/api.hpp>

#include <chrono>
#include <cstddef>
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
    /// A quorum has the key with one token, with readers, or with permits of a semaphore. So no
    /// other client gets the key, but readers may join readers, and a permit may be free.
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

/// One of those who share a read_write_lock, or who wait for it, or who have a permit of a
/// semaphore, as the instances have them.
struct key_user {
    /// A reader, a permit: a digest of its token, as key_answer::digest. Of a writer that waits:
    /// empty.
    std::string digest{};
    /// "this client", or the client_options::holder_label. Empty if the client has none.
    std::string holder{};
    /// The time after which it is gone, if nobody renews it. Empty if TIME or PTTL is refused.
    std::optional<std::chrono::milliseconds> ttl_left{};
    /// Of a permit: lease::slot(). Empty for the others.
    std::optional<unsigned> slot{};
};

/// The turn of the readers that a writer has kept waiting.
enum class readers_turn : std::uint8_t {
    none, ///< no reader was refused lately
    wait, ///< readers were refused: they have the turn after the writer
    open, ///< they have their turn: no writer gets the key
};
/// The value in words, for example "open".
HOLDFAST_API char const* to_string(readers_turn) noexcept;

/// The answer of one instance to client::inspect().
struct key_answer {
    /// The state of the key on one instance.
    enum class kind : std::uint8_t {
        absent,     ///< there is no key
        present,    ///< the key has a token
        readers,    ///< the key says that there are readers: see read_write_lock
        permits,    ///< the key is that of a semaphore: see client::make_semaphore()
        not_a_lock, ///< the key holds something that is neither
        unknown,    ///< no answer, or an answer that does not count; `message` has the reason
    };

    std::string address;        ///< as configured, without credentials
    kind found = kind::unknown; ///< the state of the key there
    /// present: a digest of the token (the first 16 hexadecimal digits of its SHA-256). Equal
    /// tokens have equal digests. Empty if the server refuses GETRANGE, or if the key holds an
    /// empty string: a key that expires between two questions looks the same. readers, permits:
    /// always the same, the digest of the value that stands for them.
    std::string digest{};
    /// present: "this client", or the holder's client_options::holder_label. Empty if the holder
    /// has none. readers: "readers". permits: "permits".
    std::string holder{};
    /// present, readers, permits: the rest of the key's time to live. Empty for a key that never
    /// expires. With readers or permits the key outlives the last of them by up to a half of its
    /// ttl.
    std::optional<std::chrono::milliseconds> ttl_left{};
    bool ttl_known = false; ///< present, readers, permits: the instance told the time to live
    /// The least fence that the present or last tenure of the key may have given. 0: the instance
    /// keeps no counter for the key, or refuses GET.
    std::uint64_t fence = 0;
    std::chrono::nanoseconds round_trip{0}; ///< zero if the instance was not asked
    std::string message{};                  ///< the server's own, or the reason of `unknown`

    // Of a read_write_lock. A server that refuses the commands shows less, and the report stays.

    /// No more readers, or permits, of a key are shown than this.
    static constexpr std::size_t max_readers = 64;
    /// readers: those that last longest, the longest first. Empty if ZRANGE is refused.
    std::vector<key_user> readers{};
    /// readers: how many there are. If there are more than max_readers, some of them may have
    /// expired. Zero: all have, so a writer of this library gets the key here, and others must wait
    /// until it expires. Empty if the server does not tell, or has lost the set of its readers;
    /// `message` says why.
    std::optional<std::uint64_t> reader_count{};
    /// A writer that waits, if one has left a note here. New readers wait for it.
    std::optional<key_user> writer{};
    readers_turn turn = readers_turn::none; ///< of the readers that were refused
    /// The rest of that turn. Empty without a turn.
    std::optional<std::chrono::milliseconds> turn_left{};

    // Of a semaphore. Its counters of fences are not shown: each is for one slot.

    /// permits: those that are taken, by slot, the least first. At most max_readers. If more are
    /// taken, the time of some is not known, and some may have expired.
    std::vector<key_user> permits{};
    /// permits: how many are taken. If there are more than max_readers, some of them may have
    /// expired. Zero: all have, so no client is refused here. How many there are in all, each
    /// client has from its own client::make_semaphore().
    std::optional<std::uint64_t> permit_count{};
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
    std::string holder{}; ///< as key_answer::holder: with readers "readers", of permits "permits"
    std::string digest{}; ///< as key_answer::digest
    /// Held by readers: those that a quorum has, so the ones that may read, the one that lasts
    /// longest first. The rest of the time is that on a quorum. At most key_answer::max_readers.
    std::vector<key_user> readers{};
    /// Held by readers: how many there are. If there are more than key_answer::max_readers, as many
    /// as a quorum has, which may be a few more. Empty if the instances do not tell.
    std::optional<std::uint64_t> reader_count{};
    /// Permits of a semaphore: those that a quorum has in the same slot, by slot. The rest of the
    /// time is that on a quorum. At most key_answer::max_readers.
    std::vector<key_user> permits{};
    /// Permits of a semaphore: how many are taken, as reader_count. Empty for other locks.
    std::optional<std::uint64_t> permit_count{};
    /// The writer that most instances say is waiting, whatever the state is.
    std::optional<key_user> writer{};
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
    ///
    /// With readers: `lock "k": held by 2 readers (web-1, web-2), 12.0 s left (3 of 5 instances), a
    /// writer of web-7 waits: 10.0.0.1:6379 2 readers, 12.0 s left; ...`
    ///
    /// Of a semaphore: `lock "k": held by 2 permits (0 web-1, 3 web-2), 12.0 s left (3 of 5
    /// instances): 10.0.0.1:6379 2 permits, 12.0 s left; ...`
    std::string to_string() const;
    /// True if the lock is held by readers.
    bool shared() const noexcept;
    /// True if permits of a semaphore are taken.
    bool counted() const noexcept;
};

/// As key_report::to_string().
HOLDFAST_API std::ostream& operator<<(std::ostream&, key_report const&);

} // namespace holdfast

#endif
