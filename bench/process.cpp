#include "process.hpp"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

extern char** environ; // NOLINT

namespace holdfast::bench {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

void fail_with(int error, std::string const& operation) {
    throw std::system_error(error, std::generic_category(), operation);
}

process::process(std::vector<std::string> arguments, std::array<int, 3> const& descriptors) {
    std::vector<char*> argv;
    for (auto& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
    for (int i = 0; i < 3; ++i)
        ::posix_spawn_file_actions_adddup2(&actions, descriptors[static_cast<std::size_t>(i)], i);
    // A process group of its own, so that the processes of a shell end with it.
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    ::posix_spawnattr_setpgroup(&attributes, 0);
    int const error = ::posix_spawn(&pid_, argv[0], &actions, &attributes, argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
    if (error != 0) {
        pid_ = -1;
        fail_with(error, "cannot run " + arguments.front());
    }
}

process::process(process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)) {}

std::optional<int> process::wait(clock::time_point deadline) {
    for (;;) {
        int status = 0;
        auto const got = ::waitpid(pid_, &status, WNOHANG);
        if (got == pid_) {
            ::kill(-pid_, SIGKILL); // the other processes of the group
            pid_ = -1;
            return status;
        }
        if (got < 0 && errno != EINTR) fail_with(errno, "waitpid");
        if (clock::now() >= deadline) return std::nullopt;
        std::this_thread::sleep_for(1ms);
    }
}

void process::end() noexcept {
    if (pid_ < 0) return;
    ::kill(-pid_, SIGKILL);
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
}

std::string describe_end(std::optional<int> status) {
    if (!status) return "does not end";
    if (WIFSIGNALED(*status)) return std::string("was ended by ") + ::strsignal(WTERMSIG(*status));
    return "exited with status " + std::to_string(WEXITSTATUS(*status));
}

} // namespace holdfast::bench
