// The lock with one holder: a string key with the holder's token, and a counter beside it if the
// lock has fences.
//
// SET NX PX, and compare-and-delete by script: https://redis.io/docs/latest/commands/set/
// ("Patterns"). DELIFEQ: Valkey 9.0. DELEX IFEQ: Redis 8.4.
#ifndef HOLDFAST_REDIS_EXCLUSIVE_KEY_HPP
#define HOLDFAST_REDIS_EXCLUSIVE_KEY_HPP

#include "redis/wire/kinds/lock_scripts.hpp"
#include "redis/wire/lock_kind.hpp"

#include <string>
#include <string_view>

namespace holdfast::redis {

extern lock_kind const exclusive_key;

/// Sets `name` to the key of the counter that belongs to `key`. Both are in the same slot of a
/// Cluster, unless `key` has a closing brace and no hash tag. Keys that share a counter, as `a` and
/// `{a}` do, harm no client: the counter grows faster.
void name_fence_key(std::string& name, std::string_view key);
/// As above, or as name_cluster_fence_key().
void name_fence_key(std::string& name, std::string_view key, bool in_cluster);

/// Begins the name of another key beside `key`, in the same slot. The name of a counter is made in
/// three ways, and two keys may have one counter: `a` and `{a}`. If each name ends with the text
/// that is returned, which tells the way, no two keys share one.
std::string_view begin_name(std::string& name, std::string_view key, bool in_cluster);

/// What a key holds that is no lock, for messages: "a list". `type`: as TYPE names it.
std::string held_type(std::string_view type);

} // namespace holdfast::redis

#endif
