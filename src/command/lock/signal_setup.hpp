// The handling of signals that this process was started with, and its own.
#ifndef HOLDFAST_COMMAND_LOCK_SIGNAL_SETUP_HPP
#define HOLDFAST_COMMAND_LOCK_SIGNAL_SETUP_HPP

#include <csignal>

namespace holdfast::command {

/// One object for a process, made before its first handler.
class signal_setup {
public:
    /// Unblocks all signals. Ignores SIGPIPE and SIGTTOU: a message must neither end nor stop this
    /// process.
    signal_setup();

    /// True if this process was started with the signal ignored, as nohup(1) does. Then the command
    /// ignores it, too.
    bool ignored(int number) const noexcept { return ::sigismember(&ignored_, number) == 1; }
    /// For the child, between fork and exec: the state at the start.
    void restore() const noexcept;

private:
    sigset_t ignored_{}, blocked_{};
};

} // namespace holdfast::command

#endif
