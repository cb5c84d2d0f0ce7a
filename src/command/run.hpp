// holdfast run: a command under a lock.
#ifndef HOLDFAST_COMMAND_RUN_HPP
#define HOLDFAST_COMMAND_RUN_HPP

#include "command/settings.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace holdfast::command {

struct run_settings : settings {
    std::string key;
    std::vector<std::string> command;
    std::int64_t ttl_ms = 30'000;
    std::optional<std::int64_t> wait_ms; ///< empty: for ever
    bool fence = false;
    /// Servers that are younger than max_ttl are new, and were not restarted.
    bool new_servers = false;
};

/// Returns the exit code.
int run(run_settings const&);

} // namespace holdfast::command

#endif
