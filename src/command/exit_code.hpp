// The exit codes of the command; doc/command.md and the man page list them.
#ifndef HOLDFAST_COMMAND_EXIT_CODE_HPP
#define HOLDFAST_COMMAND_EXIT_CODE_HPP

namespace holdfast::command {

enum exit_code : int {
    success = 0,
    // inspect
    key_free = 0,
    key_held = 1,     ///< or revoked
    key_unusable = 2, ///< split, or not a lock
    key_unknown = 3,
    // release and revoke, beside success
    was_free = 1,
    held_by_another = 2, ///< or no lock
    undetermined = 3,
    not_confirmed = 4, ///< by the user
    // watch
    cannot_write = 1,
    out_of_time = 124, ///< as timeout(1)
    // list, beside success and cannot_write
    incomplete = 3,
    // doctor
    warnings = 1,
    faults = 2,
    // run, beside the command's own. 124 to 127 as in timeout(1) and env(1).
    lost = 122,
    unavailable = 123,
    contended = 124,
    usage = 125, ///< wrong usage, of all commands
    cannot_execute = 126,
    not_found = 127,
    by_signal = 128, ///< and the number of the signal
};

} // namespace holdfast::command

#endif
