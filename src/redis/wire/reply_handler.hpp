// An operation as the connections see it: it gives the arguments of its commands, and gets the
// answers.
#ifndef HOLDFAST_REDIS_REPLY_HANDLER_HPP
#define HOLDFAST_REDIS_REPLY_HANDLER_HPP

#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>

#include "protocol/messages.hpp"
#include "protocol/tenure/counting.hpp"
#include "redis/wire/token.hpp"

#include <boost/container_hash/hash.hpp>
#include <boost/smart_ptr/intrusive_ptr.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace holdfast::redis {

struct key_companions;
struct lock_kind;
extern lock_kind const exclusive_key;

/// The place that a process asks for in the line of a fair lock.
enum class line_place : std::uint8_t {
    newcomer, ///< acquire: the process does not stand in line
    back,     ///< acquire: the process has come first in line; contend: it joins at the end
    front,    ///< contend: the process has come first in line before, and had no luck
};

/// Where the token of a holder is that is to be revoked.
enum class token_place : std::uint8_t {
    key,     ///< the value of the lock's key
    readers, ///< one of the readers
    permits, ///< one of the permits of a semaphore
};
inline constexpr std::size_t token_places = 3;

struct command_args {
    std::string_view key;
    token_text token;
    std::chrono::milliseconds ttl{0};
    /// The time for which an instance keeps the counter of the key's tenures. Zero for a key
    /// without fences.
    std::chrono::milliseconds fence_ttl{0};
    std::uint64_t number = 0;      ///< the tenure's number, or the hint
    protocol::counting counting{}; ///< acquire: how the instance is to count
    // Of a lock on several keys:
    std::span<std::string_view const> keys{}; ///< in byte order; `key` is their common name
    std::uint8_t watched = 0; ///< contend, track: the index of the key whose change is pushed
    /// acquire: the tokens of this client that the keys may have already, in the order of the keys.
    /// Such a key counts as free. Empty: there are none.
    std::span<std::string const> prior{};
    // Of a fair lock:
    line_place place = line_place::newcomer;
    std::uint16_t node = 0;                    ///< scan: see redis/server/instance.hpp
    std::chrono::milliseconds reserved_for{0}; ///< when the turn of the process comes
    std::chrono::milliseconds in_line_for{0};  ///< if the process does not ask again

    // Of a read-write lock:
    std::string_view intent{}; ///< of this client, when a writer of it waits
    bool waits = false;        ///< acquire, contend: if it is refused, it leaves a note
    std::chrono::milliseconds readers_turn{0}; ///< release by a writer: for readers that wait
    // Of a revocation, whose token is the holder's:
    std::string_view tombstone{};
    token_place held_in = token_place::key;

    // Of a semaphore:
    std::uint16_t permits = 0; ///< acquire, contend, heal: slots 0 to permits-1 are given
    std::uint16_t start = 0;   ///< acquire, contend: the slot at which the search begins
    std::optional<std::uint16_t>
        slot{}; ///< of the tenure, as soon as it has one: no other is taken

    bool fenced() const { return fence_ttl.count() != 0; }
    /// The key, or the first of several.
    std::string_view first_key() const { return keys.empty() ? key : keys.front(); }
};

/// What a grant says beside its verdict. The rest of an answer is of no use to a grant that has to
/// wait for another reply.
struct grant_facts {
    std::uint64_t number = 0; ///< see answer
    std::uint16_t slot = 0;
};

struct answer {
    protocol::verdict verdict = protocol::verdict::unknown;
    errc cause{}; ///< set if the verdict is unsent, unknown or refused
    /// The server's own message, or the reason why the connection was lost. Valid during the call.
    std::string_view message{};
    bool ttl_known = false; ///< contend, inspect, track, survey: `ttl_left` is valid
    /// The key's time to live. Empty for a key that never expires.
    std::optional<std::chrono::milliseconds> ttl_left{};
    bool push_follows = false; ///< contend, track: a push will come when the key changes
    /// contend for a fair lock, refused: the turn has come since. A push that follows is for the
    /// turn, not for each change.
    bool called = false;
    /// A grant with a fence, survey: the instance's counter; 0 if there is none. scan: the next
    /// cursor.
    std::uint64_t number = 0;
    /// inspect: the holder's label. extend, verdict no: the label of the tombstone of our own
    /// token, if that is there. Valid during the call.
    std::string_view holder{};
    std::uint16_t slot = 0; ///< verdict yes or other of a semaphore: the slot of our token
    /// Of a lock on several keys, verdict no; inspect: the key that stands in the way, counted from
    /// 1. Zero: none.
    std::uint8_t obstacle = 0;
    bool present = false; ///< survey: there is a key
    /// survey: the key's value, or as much of it as a token has bytes. Valid during the call.
    /// Without a value the server does not show it; it may be empty. scan: the keys, packed.
    std::optional<std::string_view> value{};
    key_companions const* beside = nullptr; ///< survey: valid during the call

    grant_facts granted() const { return {.number = number, .slot = slot}; }
};

class reply_handler;

/// Identifies the grant of some keys, and their release: in a Cluster the release follows the
/// grant.
struct grant_id {
    reply_handler const* owner = nullptr;
    unsigned slot = 0; ///< of several slots, else 0

    friend bool operator==(grant_id const&, grant_id const&) = default;
    friend std::size_t hash_value(grant_id const& id) {
        return boost::hash<reply_handler const*>()(id.owner) + id.slot;
    }
};

class reply_handler {
public:
    reply_handler() = default;
    reply_handler(reply_handler const&) = delete;
    reply_handler& operator=(reply_handler const&) = delete;

    /// The kind of the lock: it words all commands of the operation, and reads the replies.
    virtual lock_kind const& kind() const noexcept { return exclusive_key; }
    virtual grant_id grant() const noexcept { return {.owner = this}; }
    virtual command_args arguments(protocol::command) const noexcept = 0;
    /// True if the command is still wanted. Called when a server did not know the script of a
    /// command, before the command is sent again.
    virtual bool still_wants(protocol::command) const noexcept = 0;
    /// Called exactly once for each command that an available instance took. `round` is the number
    /// that was submitted with the command.
    virtual void on_answer(unsigned instance, protocol::command, std::uint32_t round,
                           answer const&) = 0;

protected:
    ~reply_handler() = default;

private:
    /// Called when no reference is left.
    virtual void recycle() noexcept = 0;

    // References are counted on the client's executor alone, so they need no atomics.
    friend void intrusive_ptr_add_ref(reply_handler* e) noexcept { ++e->references_; }
    friend void intrusive_ptr_release(reply_handler* e) noexcept {
        if (--e->references_ == 0) e->recycle();
    }
    std::uint32_t references_ = 0;
};

using reply_handler_ptr = boost::intrusive_ptr<reply_handler>;

} // namespace holdfast::redis

#endif
