// The lock on several keys, all or none. Each key is that of an exclusive lock, with the token of
// the one tenure and with a counter of its own, so locks on several keys, on one key and of other
// libraries exclude each other. All commands are scripts, because no native command looks at every
// key before it changes one.
#ifndef HOLDFAST_REDIS_SET_KEY_HPP
#define HOLDFAST_REDIS_SET_KEY_HPP

#include "redis/wire/lock_kind.hpp"

namespace holdfast::redis {

extern lock_kind const set_key;

} // namespace holdfast::redis

#endif
