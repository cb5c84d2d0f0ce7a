// The lock of which several clients have a permit each: a semaphore. Each permit is a slot, and an
// instance gives a slot to one token at a time, as it gives the key of an exclusive lock. So a
// quorum on one slot is one holder of that slot.
//
// The key K and those beside it:
//   K            sorted set: each token by its slot
//   {K}:until    sorted set: the same tokens by their deadlines on the server's clock in ms
//   {K}:fences   sorted set: each slot by the counter of its tenures, if the lock has fences
// Each has a ttl. K is written when a token comes or goes, and seldom else, so that the clients
// that wait can track it.
#ifndef HOLDFAST_REDIS_PERMIT_KEY_HPP
#define HOLDFAST_REDIS_PERMIT_KEY_HPP

#include "redis/wire/kinds/permit_scripts.hpp"
#include "redis/wire/lock_kind.hpp"

#include <string>
#include <string_view>

namespace holdfast::redis {

extern lock_kind const permit_key;

/// The names of the keys beside the key of a semaphore. No two keys share one.
struct permit_names {
    std::string until, fences;
};
void name_permit_keys(permit_names&, std::string_view key, bool in_cluster);

} // namespace holdfast::redis

#endif
