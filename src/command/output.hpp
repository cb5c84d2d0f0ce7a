// What the command writes: whether standard output takes it all, and messages for people.
#ifndef HOLDFAST_COMMAND_OUTPUT_HPP
#define HOLDFAST_COMMAND_OUTPUT_HPP

#include <string>

namespace holdfast::command {

/// Flushes standard output. The errno of the failure, or 0: all is written. Tells the failure on
/// standard error, unless the reader has ended (EPIPE).
[[nodiscard]] int flush_output();

/// A line on standard error, unless that would make this process wait: it has to watch a lock.
void say(std::string const& text);

/// True if a person reads standard error.
bool has_reader();

} // namespace holdfast::command

#endif
