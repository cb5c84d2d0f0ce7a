// holdfast list: the locks whose keys begin with a prefix.
#ifndef HOLDFAST_COMMAND_LIST_HPP
#define HOLDFAST_COMMAND_LIST_HPP

#include <holdfast/list_report.hpp>

#include "command/settings.hpp"

#include <string>

namespace holdfast::command {

struct list_settings : settings {
    std::string start; ///< of the keys, behind the prefix of all clients
    list_options limits;
    bool all = false; ///< keys that nobody holds, too
    bool json = false;
};

/// Prints a line for each lock. Returns the exit code.
int list(list_settings const&);

} // namespace holdfast::command

#endif
