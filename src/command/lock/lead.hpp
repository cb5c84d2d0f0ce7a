// holdfast lead: a command that runs once in a fleet.
#ifndef HOLDFAST_COMMAND_LOCK_LEAD_HPP
#define HOLDFAST_COMMAND_LOCK_LEAD_HPP

#include "command/lock/guarded_command.hpp"

#include <cstdint>

namespace holdfast::command {

/// Whether a leader starts its command again when that has ended by itself.
enum class restart_rule : std::uint8_t {
    never,
    on_failure,
    always,
};

struct lead_settings : command_settings {
    restart_rule restart = restart_rule::never;
};

/// Returns the exit code.
int lead(lead_settings const&);

} // namespace holdfast::command

#endif
