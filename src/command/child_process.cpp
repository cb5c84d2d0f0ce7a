#include "command/child_process.hpp"

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

namespace {

// A process in the background that changes the foreground gets SIGTTOU, unless it blocks that.
void set_foreground(pid_t group) noexcept {
    sigset_t blocked, before;
    ::sigemptyset(&blocked);
    ::sigaddset(&blocked, SIGTTOU);
    ::sigprocmask(SIG_BLOCK, &blocked, &before);
    ::tcsetpgrp(STDIN_FILENO, group);
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
}

} // namespace

child_process::~child_process() {
    if (!started() || ended_) return;
    signal(SIGKILL);
    ::waitpid(id_, nullptr, 0);
    take_terminal();
}

int child_process::start(std::vector<std::string> const& command, environment const& added) {
    has_terminal_ = ::tcgetpgrp(STDIN_FILENO) == ::getpgrp();
    for (auto const& [name, value] : added) ::setenv(name.c_str(), value.c_str(), 1);
    std::vector<char*> words;
    for (auto const& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    // The child closes its end in exec, or writes the error number.
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0)
        throw std::system_error(errno, std::generic_category(), "pipe");
    auto const parent = ::getpid();
    auto const id = ::fork();
    if (id < 0) {
        auto const error = errno;
        ::close(pipe[0]);
        ::close(pipe[1]);
        throw std::system_error(error, std::generic_category(), "fork");
    }
    if (id == 0) execute(words, pipe[1], parent);
    ::close(pipe[1]);
    ::setpgid(id, id); // also in the child: the first of both wins
    int error = 0;
    auto const told = ::read(pipe[0], &error, sizeof error);
    ::close(pipe[0]);
    if (told == sizeof error) {
        ::waitpid(id, nullptr, 0);
        if (has_terminal_) set_foreground(::getpgrp());
        return error;
    }
    id_ = id;
    return 0;
}

// After fork, only functions that are safe in a signal handler may be called.
void child_process::execute(std::vector<char*> const& command, int tells, pid_t parent) const {
    ::setpgid(0, 0);
    if (has_terminal_) set_foreground(::getpgrp());
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
#if defined(__linux__)
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    if (::getppid() != parent) ::_exit(lost);
    ::execvp(command[0], command.data());
    auto const error = errno;
    [[maybe_unused]] auto const written = ::write(tells, &error, sizeof error);
    ::_exit(cannot_execute);
}

void child_process::signal(int number) const noexcept {
    if (started() && !ended_) ::kill(-id_, number);
}

child_process::state child_process::poll() {
    int status = 0;
    if (ended_) return state::ended;
    if (!started() || ::waitpid(id_, &status, WNOHANG | WUNTRACED) != id_) return state::running;
    if (WIFSTOPPED(status)) return state::stopped;
    exit_code_ = WIFSIGNALED(status) ? by_signal + WTERMSIG(status) : WEXITSTATUS(status);
    ended_ = true;
    take_terminal();
    return state::ended;
}

void child_process::give_terminal() const noexcept {
    if (has_terminal_ && started() && !ended_) set_foreground(id_);
}

void child_process::take_terminal() const noexcept {
    if (has_terminal_) set_foreground(::getpgrp());
}

} // namespace holdfast::command
