// The search for the names of locks: SCAN cursor MATCH prefix* COUNT n TYPE string. Other programs
// have sorted sets of their own, so the keys of semaphores are found by those beside them: SCAN
// cursor MATCH *prefix*:until* COUNT n TYPE zset.
//
// It is worded and read as the commands of a lock are, so the wire has nothing of its own for it.
// In the arguments, `key` is the prefix, `number` the cursor, `node` the server of a Cluster, and
// `permits` not zero if the keys beside semaphores are wanted. In
// the answer, `number` is the next cursor, and `value` has the keys. Only for_each_key() knows how
// they are packed, so an answer is no larger than without a list.
//
// https://redis.io/docs/latest/commands/scan/ (TYPE: Redis 6.0)
#ifndef HOLDFAST_REDIS_KEY_SCAN_HPP
#define HOLDFAST_REDIS_KEY_SCAN_HPP

#include "redis/wire/lock_kind.hpp"
#include "redis/wire/reply_handler.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace holdfast::redis {

extern lock_kind const key_scan;

/// The keys that a server looks at for one SCAN, or a few more. While it does, all its other
/// clients wait, and the names of all of them have to fit into one reply.
inline constexpr unsigned keys_per_scan = 100;

/// The size of a key, before its bytes.
using packed_size = std::uint32_t;

/// Calls `visit(std::string_view)` for each key in an answer with the verdict yes.
template <class Visit>
void for_each_key(answer const& a, Visit&& visit) {
    auto rest = a.value.value_or(std::string_view());
    while (!rest.empty()) {
        packed_size size = 0;
        std::memcpy(&size, rest.data(), sizeof size);
        visit(rest.substr(sizeof size, size));
        rest.remove_prefix(sizeof size + size);
    }
}

/// True for the name of a key that the library keeps beside the key of a lock: the counter of its
/// fences, the line of a fair lock, the call to a process in that line, the readers, the intent or
/// the turn of a read-write lock, or the deadlines or counters of a semaphore.
bool is_beside_a_lock(std::string_view name);

/// The key of the semaphore whose deadlines have this name; empty if they are no semaphore's. See
/// name_permit_keys().
std::string_view semaphore_of(std::string_view name);

} // namespace holdfast::redis

#endif
