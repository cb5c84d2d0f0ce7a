// A child process that runs a program of these tests: contender, sleeper or topology_host.
#ifndef HOLDFAST_TEST_INTEGRATION_CHILD_HPP
#define HOLDFAST_TEST_INTEGRATION_CHILD_HPP

#include "support/net.hpp"
#include "support/wait.hpp"

#include <boost/test/unit_test.hpp>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <poll.h>
#include <string>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace holdfast::test {

/// The process. Its input and output are a socket. It ends with its parent.
class child {
public:
    /// `variable`: the environment variable with the path of the program.
    child(char const* variable, std::vector<std::string> arguments) {
        auto const* const path = std::getenv(variable);
        BOOST_REQUIRE_MESSAGE(path != nullptr, variable << " is not set; ctest sets it");
        arguments.insert(arguments.begin(), path);
        std::vector<char*> argv;
        for (auto& argument : arguments) argv.push_back(argument.data());
        argv.push_back(nullptr);
        int ends[2];
        BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
        socket_ = net::unique_fd(ends[0]);
        net::unique_fd const theirs(ends[1]);
        auto const parent = ::getpid();
        pid_ = ::fork();
        BOOST_REQUIRE(pid_ >= 0);
        if (pid_ == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (::getppid() != parent) ::_exit(1);
            ::dup2(theirs.get(), STDIN_FILENO);
            ::dup2(theirs.get(), STDOUT_FILENO);
            // Asio's sockets are not close-on-exec, so the child closes them.
            ::syscall(SYS_close_range, 3U, ~0U, 0U);
            ::execv(argv[0], argv.data());
            ::_exit(127);
        }
    }
    ~child() {
        if (pid_ > 0) {
            ::kill(pid_, SIGKILL);
            ::waitpid(pid_, nullptr, 0);
        }
    }
    child(child const&) = delete;
    child& operator=(child const&) = delete;

    void say(std::string const& text) {
        auto const line = text + '\n';
        BOOST_REQUIRE(::send(socket_.get(), line.data(), line.size(), MSG_NOSIGNAL) ==
                      static_cast<ssize_t>(line.size()));
    }
    /// The next line of output; empty if none comes in time.
    std::string line(std::chrono::seconds limit = std::chrono::seconds(20)) {
        using clock = std::chrono::steady_clock;
        auto const until = clock::now() + limit;
        for (;;) {
            if (auto const end = said_.find('\n'); end != said_.npos) {
                auto const result = said_.substr(0, end);
                said_.erase(0, end + 1);
                return result;
            }
            auto const left =
                std::chrono::duration_cast<std::chrono::milliseconds>(until - clock::now()).count();
            pollfd polled{socket_.get(), POLLIN, 0};
            if (left <= 0) return {};
            if (::poll(&polled, 1, static_cast<int>(left)) <= 0) continue;
            char buffer[4096];
            auto const n = ::recv(socket_.get(), buffer, sizeof buffer, 0);
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0) return {};
            said_.append(buffer, static_cast<std::size_t>(n));
        }
    }
    /// The exit status; -1 if the process was killed, or does not end in time.
    int status() {
        int ended = 0;
        auto const in_time = wait_until([&] { return ::waitpid(pid_, &ended, WNOHANG) == pid_; },
                                        std::chrono::seconds(20));
        if (!in_time) return -1;
        pid_ = -1;
        return WIFEXITED(ended) ? WEXITSTATUS(ended) : -1;
    }

    void kill() {
        BOOST_REQUIRE(::kill(pid_, SIGKILL) == 0);
        ::waitpid(pid_, nullptr, 0);
        pid_ = -1;
    }
    void send_signal(int signal) { BOOST_REQUIRE(::kill(pid_, signal) == 0); }
    /// It reads the end of its input.
    void close_input() { BOOST_REQUIRE(::shutdown(socket_.get(), SHUT_WR) == 0); }
    /// Stops the process, and returns when it has stopped.
    void stop() {
        BOOST_REQUIRE(::kill(pid_, SIGSTOP) == 0);
        int state = 0;
        BOOST_REQUIRE(::waitpid(pid_, &state, WUNTRACED) == pid_);
        BOOST_REQUIRE(WIFSTOPPED(state));
    }
    void go_on() { BOOST_REQUIRE(::kill(pid_, SIGCONT) == 0); }

private:
    net::unique_fd socket_;
    pid_t pid_ = -1;
    std::string said_;
};

} // namespace holdfast::test

#endif
