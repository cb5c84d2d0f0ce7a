// The keys that a command is for.
#ifndef HOLDFAST_COMMAND_KEYS_HPP
#define HOLDFAST_COMMAND_KEYS_HPP

#include <holdfast/client.hpp>

#include "command/settings.hpp"

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace holdfast::command {

/// With a blank between two, as lock::key().
std::string joined(std::vector<std::string> const& keys);

/// Settings of the commands on one key or several.
struct key_settings : settings {
    std::vector<std::string> keys;

    /// Adds the keys to a subcommand. Refers to this object.
    void add_keys_to(CLI::App&, std::string const& text);
    std::string name() const { return joined(keys); }

    lock_access access = lock_access::exclusive;
    unsigned permits = 0; ///< of a semaphore
    /// The options of the commands that take a lock of readers and writers, or a permit. Refers to
    /// this object.
    void add_access_to(CLI::App&);
    /// @throws std::runtime_error  Those locks have one key.
    void check_access() const;

    /// A lock on all keys.
    holdfast::lock make_lock(client const&, lock_options const&) const;
};

} // namespace holdfast::command

#endif
