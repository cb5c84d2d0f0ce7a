// The revocation of a holder: the token of a lock, or of one of its readers, gives way to a
// tombstone (redis/wire/tombstone.hpp). The same for all kinds, because each has a token under its
// key, or among the readers beside it.
#ifndef HOLDFAST_REDIS_REVOKED_KEY_HPP
#define HOLDFAST_REDIS_REVOKED_KEY_HPP

#include "redis/wire/lock_kind.hpp"

namespace holdfast::redis {

/// Words command::revoke alone.
extern lock_kind const revoked_key;

/// Reads the reply to an extension that shows one or more tombstones. One of our own token names
/// the client that has revoked us. False: the reply is none of these.
bool read_tombstones(partial_answer&, sent_command const&, element const&);

} // namespace holdfast::redis

#endif
