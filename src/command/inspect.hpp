// holdfast inspect: the state of keys.
#ifndef HOLDFAST_COMMAND_INSPECT_HPP
#define HOLDFAST_COMMAND_INSPECT_HPP

#include "command/keys.hpp"

namespace holdfast::command {

struct inspect_settings : key_settings {
    bool json = false;
};

/// Prints the state of the key, or of several in a table. Returns the exit code.
int inspect(inspect_settings const&);

} // namespace holdfast::command

#endif
