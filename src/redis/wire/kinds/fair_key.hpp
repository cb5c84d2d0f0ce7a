// The lock whose arbiter keeps the processes that wait in a line. Key, token and fence counter are
// those of exclusive_key. Beside the key there is a list, `{key}:queue`, with the token of each
// process in line.
//
// A release gives the key to the first token for a moment (a reservation), and writes the key
// `{key}:queue:token`. The process has registered for pushes of that key. So the server notifies
// that process alone. A reservation is no vote: the process asks the instance again, and that
// answer counts.
#ifndef HOLDFAST_REDIS_FAIR_KEY_HPP
#define HOLDFAST_REDIS_FAIR_KEY_HPP

#include "redis/wire/lock_kind.hpp"

#include <string>
#include <string_view>

namespace holdfast::redis {

extern lock_kind const fair_key;

/// Sets `name` to the list that belongs to `key`, and to no other. Both are in the same slot of a
/// Cluster.
void name_line(std::string& name, std::string_view key, bool in_cluster);

} // namespace holdfast::redis

#endif
