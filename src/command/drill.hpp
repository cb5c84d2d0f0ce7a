// holdfast doctor --drill: an exercise on a deployment that nobody needs at the moment. The
// operator stops and starts the servers that it names, and it checks what clients see.
#ifndef HOLDFAST_COMMAND_DRILL_HPP
#define HOLDFAST_COMMAND_DRILL_HPP

#include "command/doctor.hpp"

namespace holdfast::command {

/// Prints each step and each check, and a verdict. Returns the exit code.
int drill(doctor_settings const&);

} // namespace holdfast::command

#endif
