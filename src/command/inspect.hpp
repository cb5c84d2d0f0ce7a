// holdfast inspect: the state of a key.
#ifndef HOLDFAST_COMMAND_INSPECT_HPP
#define HOLDFAST_COMMAND_INSPECT_HPP

#include "command/settings.hpp"

#include <string>

namespace holdfast::command {

struct inspect_settings : settings {
    std::string key;
    bool json = false;
};

/// Prints the state of the key. Returns the exit code.
int inspect(inspect_settings const&);

} // namespace holdfast::command

#endif
