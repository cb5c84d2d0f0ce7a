// holdfast watch: a line for each change of keys.
#ifndef HOLDFAST_COMMAND_WATCH_HPP
#define HOLDFAST_COMMAND_WATCH_HPP

#include "command/keys.hpp"

#include <cstdint>

namespace holdfast::command {

struct watch_settings : key_settings {
    bool json = false;
    std::uint64_t count = 0;   ///< lines; 0: no limit
    std::int64_t limit_ms = 0; ///< 0: no limit
};

/// Prints the state of each key, and then each change. Returns the exit code.
int watch(watch_settings const&);

} // namespace holdfast::command

#endif
