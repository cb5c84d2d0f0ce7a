// The command that `run` executes, as a process group of its own.
#ifndef HOLDFAST_COMMAND_LOCK_CHILD_PROCESS_HPP
#define HOLDFAST_COMMAND_LOCK_CHILD_PROCESS_HPP

#include "command/lock/signal_setup.hpp"

#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace holdfast::command {

/// If this process dies, the kernel kills the command (Linux), but not its descendants.
class child_process {
public:
    /// Names and values; an empty value removes the variable.
    using environment = std::vector<std::pair<std::string, std::string>>;

    enum class state {
        running,
        stopped,
        ended, ///< and not reaped: its group cannot be another one
    };

    explicit child_process(signal_setup const& signals)
        : signals_(signals) {}
    ~child_process();
    child_process(child_process const&) = delete;
    child_process& operator=(child_process const&) = delete;

    /// Starts the command with a changed environment. Returns an error number of exec, or 0.
    /// @throws std::system_error  No process could be made.
    int start(std::vector<std::string> const& command, environment const& changes);
    bool started() const noexcept { return id_ > 0; }
    /// Sends a signal to the whole group.
    void signal(int number) const noexcept;
    /// Asks the kernel for the state of the command.
    state poll() const noexcept;
    /// After the end. Returns the command's exit code, or 128 and the number of the signal.
    int reap() noexcept;

    /// True if this process has a terminal, and shows its output there. In a pipeline the other
    /// processes need the terminal.
    bool has_terminal() const noexcept { return terminal_ >= 0; }
    /// Puts the group into the foreground of the terminal, if this process is there.
    void give_terminal() const noexcept;
    void take_terminal() const noexcept;

private:
    [[noreturn]] void execute(std::vector<char*> const& command, int to, bool foreground,
                              pid_t parent) const noexcept;

    signal_setup const& signals_;
    int terminal_ = -1;
    pid_t id_ = 0;
    bool reaped_ = false;
};

} // namespace holdfast::command

#endif
