// The two locks of a read-write lock. A writer has the key as an exclusive lock has it: with its
// token. While there are readers, the key has a value that is nobody's token, so all exclusive
// locks on it are refused.
//
// Beside the key K there are:
//   {K}:readers  sorted set: the token of each reader, by its deadline on the server's clock in ms
//   {K}:intent   a writer waits: the text that names its client
//   {K}:turn     `wait`: readers were refused; `open`: they have the next turn, and writers none
// Each has a ttl.
#ifndef HOLDFAST_REDIS_READ_WRITE_KEY_HPP
#define HOLDFAST_REDIS_READ_WRITE_KEY_HPP

#include "redis/wire/kinds/read_write_scripts.hpp"
#include "redis/wire/lock_kind.hpp"

#include <string>
#include <string_view>

namespace holdfast::redis {

extern lock_kind const read_key;
extern lock_kind const write_key;

/// The names of the keys beside a key. No two keys share one.
struct companion_names {
    std::string readers, intent, turn;
};
void name_companions(companion_names&, std::string_view key, bool in_cluster);

} // namespace holdfast::redis

#endif
