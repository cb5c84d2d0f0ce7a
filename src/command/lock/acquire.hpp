// holdfast acquire, holdfast extend: a lock for a script that cannot wrap its work in a command.
#ifndef HOLDFAST_COMMAND_LOCK_ACQUIRE_HPP
#define HOLDFAST_COMMAND_LOCK_ACQUIRE_HPP

#include "command/lock/patience.hpp"
#include "command/lock/token_input.hpp"

#include <cstdint>

namespace holdfast::command {

struct acquire_settings : lock_settings {
    bool json = false;
};

/// Acquires the lock, prints its token, and leaves the key to its ttl. Returns the exit code.
int acquire(acquire_settings const&);

struct extend_settings : key_settings {
    std::int64_t ttl_ms = 0;
    token_input token;
};

/// Returns the exit code.
int extend(extend_settings const&);

} // namespace holdfast::command

#endif
