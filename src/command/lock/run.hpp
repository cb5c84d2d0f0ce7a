// holdfast run: a command under a lock.
#ifndef HOLDFAST_COMMAND_LOCK_RUN_HPP
#define HOLDFAST_COMMAND_LOCK_RUN_HPP

#include <holdfast/lease_token.hpp>

#include "command/lock/guarded_command.hpp"

#include <cstdint>
#include <optional>

namespace holdfast::command {

struct run_settings : command_settings {
    std::optional<std::int64_t> interval_ms; ///< at most one run in this time
    std::optional<lease_token> adopted;      ///< of the lease to run under, instead of a new one
};

/// Returns the exit code.
int run(run_settings const&);

} // namespace holdfast::command

#endif
