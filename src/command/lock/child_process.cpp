#include "command/lock/child_process.hpp"

#include "command/exit_code.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

namespace holdfast::command {

child_process::~child_process() {
    if (started() && !reaped_) {
        signal(SIGKILL);
        reap();
    }
    if (terminal_ >= 0) ::close(terminal_);
}

int child_process::start(std::vector<std::string> const& command, environment const& changes) {
    if (::isatty(STDOUT_FILENO) == 1) terminal_ = ::open("/dev/tty", O_RDWR | O_CLOEXEC);
    for (auto const& [name, value] : changes) {
        if (value.empty()) {
            ::unsetenv(name.c_str());
        } else {
            ::setenv(name.c_str(), value.c_str(), 1);
        }
    }
    std::vector<char*> words;
    for (auto const& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    // The child closes its end in exec, or writes the error number.
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0)
        throw std::system_error(errno, std::generic_category(), "pipe");
    auto const foreground = has_terminal() && ::tcgetpgrp(terminal_) == ::getpgrp();
    auto const parent = ::getpid();
    auto const id = ::fork();
    if (id < 0) {
        auto const error = errno;
        ::close(pipe[0]);
        ::close(pipe[1]);
        throw std::system_error(error, std::generic_category(), "fork");
    }
    if (id == 0) execute(words, pipe[1], foreground, parent);
    ::close(pipe[1]);
    ::setpgid(id, id); // also in the child: the first of both wins
    int error = 0;
    auto const got = ::read(pipe[0], &error, sizeof error);
    ::close(pipe[0]);
    if (got == sizeof error) {
        ::waitpid(id, nullptr, 0);
        if (foreground) take_terminal();
        return error;
    }
    id_ = id;
    return 0;
}

// After fork, only functions that are safe in a signal handler may be called. SIGTTOU is ignored
// until restore(), so the terminal can be taken.
void child_process::execute(std::vector<char*> const& command, int to, bool foreground,
                            pid_t parent) const noexcept {
    ::setpgid(0, 0);
    if (foreground) ::tcsetpgrp(terminal_, ::getpgrp());
    signals_.restore();
#if defined(__linux__)
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    if (::getppid() != parent) ::_exit(lost);
    ::execvp(command[0], command.data());
    auto const error = errno;
    [[maybe_unused]] auto const written = ::write(to, &error, sizeof error);
    ::_exit(cannot_execute);
}

void child_process::signal(int number) const noexcept {
    if (started() && !reaped_) ::kill(-id_, number);
}

child_process::state child_process::poll() const noexcept {
    siginfo_t info{};
    auto const id = static_cast<id_t>(id_);
    auto const every = WEXITED | WSTOPPED | WNOHANG;
    if (!started() || ::waitid(P_PID, id, &info, every | WNOWAIT) != 0 || info.si_pid != id_)
        return state::running;
    if (info.si_code != CLD_STOPPED) return state::ended;
    ::waitid(P_PID, id, &info, WSTOPPED | WNOHANG); // reported once
    return state::stopped;
}

int child_process::reap() noexcept {
    int status = 0;
    while (::waitpid(id_, &status, 0) < 0 && errno == EINTR) {
    }
    reaped_ = true;
    take_terminal();
    return WIFSIGNALED(status) ? by_signal + WTERMSIG(status) : WEXITSTATUS(status);
}

void child_process::give_terminal() const noexcept {
    if (has_terminal() && started() && !reaped_ && ::tcgetpgrp(terminal_) == ::getpgrp())
        ::tcsetpgrp(terminal_, id_);
}

// Only from the command: a shell may have given it to another job meanwhile.
void child_process::take_terminal() const noexcept {
    if (!has_terminal()) return;
    auto const foreground = ::tcgetpgrp(terminal_);
    if (foreground == id_ || ::kill(-foreground, 0) != 0) ::tcsetpgrp(terminal_, ::getpgrp());
}

} // namespace holdfast::command
