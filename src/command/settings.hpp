// Settings that all commands share: the instances, and how to reach them.
#ifndef HOLDFAST_COMMAND_SETTINGS_HPP
#define HOLDFAST_COMMAND_SETTINGS_HPP

#include <holdfast/address.hpp>
#include <holdfast/options.hpp>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace holdfast::command {

struct settings {
    std::string instances, instances_file;
    std::string prefix, label;
    std::int64_t timeout_ms = 2'000;
    std::int64_t max_ttl_ms = 60'000;

    /// Adds the options to a subcommand.
    void add_to(CLI::App&);
    /// @throws system_error  errc::invalid_address; std::runtime_error: no list, or no such file.
    std::vector<address> addresses() const;
    client_options options() const;
    /// @throws std::runtime_error  The ttl is longer than max_ttl.
    void check_ttl(std::int64_t ttl_ms) const;
};

/// Adds an option for a time with its unit: `500ms`, `30s`, `5m`, `1h`, `2d`.
CLI::Option* add_time(CLI::App&, std::string const& name, std::int64_t& milliseconds,
                      std::string const& text);

/// As the user would give it: `90s`, `2h`.
std::string option_text(std::int64_t milliseconds);

/// This machine and process, as far as a label can hold it: `web-7@4711`.
std::string default_label();

} // namespace holdfast::command

#endif
