// Whether standard output takes all that is written.
#ifndef HOLDFAST_COMMAND_OUTPUT_HPP
#define HOLDFAST_COMMAND_OUTPUT_HPP

namespace holdfast::command {

/// Flushes standard output. The errno of the failure, or 0: all is written. Tells the failure on
/// standard error, unless the reader has ended (EPIPE).
[[nodiscard]] int flush_output();

} // namespace holdfast::command

#endif
