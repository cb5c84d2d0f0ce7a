#include "support/child_process.hpp"

#include "support/wait.hpp"

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <poll.h>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

namespace holdfast::test {

namespace {

void require(bool done, char const* what) {
    if (!done) throw std::system_error(errno, std::generic_category(), what);
}

} // namespace

child_process::child_process(std::string const& program, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), program);
    std::vector<char*> argv;
    for (auto& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    int ends[2];
    require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
    socket_ = net::unique_fd(ends[0]);
    net::unique_fd const theirs(ends[1]);
    auto const parent = ::getpid();
    pid_ = ::fork();
    require(pid_ >= 0, "fork");
    if (pid_ > 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    ::dup2(theirs.get(), STDIN_FILENO);
    ::dup2(theirs.get(), STDOUT_FILENO);
    // Asio's sockets are not close-on-exec, so the child closes them.
    ::syscall(SYS_close_range, 3U, ~0U, 0U);
    ::execv(argv[0], argv.data());
    ::_exit(127);
}

child_process::~child_process() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
}

void child_process::say(std::string const& text) {
    auto const line = text + '\n';
    require(::send(socket_.get(), line.data(), line.size(), MSG_NOSIGNAL) ==
                static_cast<ssize_t>(line.size()),
            "send");
}

std::string child_process::line(std::chrono::milliseconds limit) {
    using clock = std::chrono::steady_clock;
    auto const until = clock::now() + limit;
    for (;;) {
        if (auto const end = said_.find('\n'); end != said_.npos) {
            auto const result = said_.substr(0, end);
            said_.erase(0, end + 1);
            return result;
        }
        auto const left =
            std::chrono::ceil<std::chrono::milliseconds>(until - clock::now()).count();
        pollfd polled{socket_.get(), POLLIN, 0};
        if (left <= 0) return {};
        if (::poll(&polled, 1, static_cast<int>(left)) <= 0) continue;
        char buffer[4096];
        auto const n = ::recv(socket_.get(), buffer, sizeof buffer, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            output_ended_ = true;
            return {};
        }
        said_.append(buffer, static_cast<std::size_t>(n));
    }
}

bool child_process::has_ended() {
    if (pid_ > 0 && ::waitpid(pid_, &ended_, WNOHANG) == pid_) pid_ = -1;
    return pid_ <= 0;
}

int child_process::status(std::chrono::seconds limit) {
    if (!wait_until([&] { return has_ended(); }, limit)) return -1;
    return WIFEXITED(ended_) ? WEXITSTATUS(ended_) : -1;
}

void child_process::kill() {
    send_signal(SIGKILL);
    ::waitpid(pid_, &ended_, 0);
    pid_ = -1;
}

// Never to a process that has ended: its number may be another's, and -1 is all of them.
void child_process::send_signal(int signal) {
    if (pid_ <= 0) throw std::logic_error("the child process has ended");
    require(::kill(pid_, signal) == 0, "kill");
}

void child_process::close_input() {
    require(::shutdown(socket_.get(), SHUT_WR) == 0, "shutdown");
}

void child_process::stop() {
    send_signal(SIGSTOP);
    require(::waitpid(pid_, &ended_, WUNTRACED) == pid_, "waitpid");
    if (WIFSTOPPED(ended_)) return;
    pid_ = -1;
    throw std::runtime_error("the child process has ended");
}

void child_process::go_on() {
    send_signal(SIGCONT);
}

} // namespace holdfast::test
