// What release --force and revoke share: a person decides, and the decision is logged.
#ifndef HOLDFAST_COMMAND_DECISION_HPP
#define HOLDFAST_COMMAND_DECISION_HPP

#include <holdfast/key_report.hpp>

#include <string>
#include <string_view>

namespace holdfast::command {

/// Only a person can answer, so both ends must be a terminal.
bool has_terminal();
/// True if the user types the key.
bool is_typed(std::string const& key);
/// To standard error, and to the system's log if there is one. `token`: a digest.
void log_decision(std::string_view event, key_report const& seen, std::string_view token,
                  std::string_view outcome);

} // namespace holdfast::command

#endif
