// The command that `run` executes, as a process group of its own.
#ifndef HOLDFAST_COMMAND_CHILD_PROCESS_HPP
#define HOLDFAST_COMMAND_CHILD_PROCESS_HPP

#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace holdfast::command {

/// In a terminal, the group is in the foreground while it runs, as under a shell. If this process
/// dies, the kernel kills the command (Linux), but not its descendants.
class child_process {
public:
    using environment = std::vector<std::pair<std::string, std::string>>;

    enum class state {
        running,
        stopped,
        ended
    };

    child_process() = default;
    ~child_process();
    child_process(child_process const&) = delete;
    child_process& operator=(child_process const&) = delete;

    /// Starts the command with these variables added. Returns an error number of exec, or 0.
    int start(std::vector<std::string> const& command, environment const& added);
    bool started() const noexcept { return id_ > 0; }
    /// Sends a signal to the whole group.
    void signal(int number) const noexcept;
    /// Asks the kernel for the state of the command. Once it has ended, the answer stays.
    state poll();
    /// After the end: the command's exit code, or 128 and the number of the signal.
    int exit_code() const noexcept { return exit_code_; }

    /// The foreground of the terminal goes to the command, or comes back. Nothing happens without a
    /// terminal, or if this process was in the background.
    void give_terminal() const noexcept;
    void take_terminal() const noexcept;

private:
    [[noreturn]] void execute(std::vector<char*> const& command, int tells, pid_t parent) const;

    pid_t id_ = 0;
    int exit_code_ = 0;
    bool ended_ = false;
    bool has_terminal_ = false;
};

} // namespace holdfast::command

#endif
