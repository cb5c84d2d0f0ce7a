// A program that a test runs on a terminal, as a person would.
#ifndef HOLDFAST_TEST_INTEGRATION_ON_TERMINAL_HPP
#define HOLDFAST_TEST_INTEGRATION_ON_TERMINAL_HPP

#include "support/text.hpp"
#include "support/wait.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <poll.h>
#include <pty.h>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace holdfast::test {

/// A program on a terminal of its own.
class on_terminal {
public:
    explicit on_terminal(std::vector<std::string> arguments,
                         char const* path = std::getenv("HOLDFAST_COMMAND")) {
        BOOST_REQUIRE(path != nullptr);
        arguments.insert(arguments.begin(), path);
        std::vector<char*> argv;
        for (auto& a : arguments) argv.push_back(a.data());
        argv.push_back(nullptr);
        pid_ = ::forkpty(&terminal_, nullptr, nullptr, nullptr);
        BOOST_REQUIRE(pid_ >= 0);
        if (pid_ == 0) {
            ::signal(SIGINT, SIG_DFL); // a shell's background job ignores it
            ::execv(argv[0], argv.data());
            ::_exit(127);
        }
    }
    ~on_terminal() {
        if (pid_ > 0) {
            ::kill(pid_, SIGKILL);
            ::waitpid(pid_, nullptr, 0);
        }
        ::close(terminal_);
    }
    on_terminal(on_terminal const&) = delete;
    on_terminal& operator=(on_terminal const&) = delete;

    void type(std::string_view text) {
        BOOST_REQUIRE(::write(terminal_, text.data(), text.size()) ==
                      static_cast<ssize_t>(text.size()));
    }
    bool shows(std::string_view text) {
        return wait_until([&] { return read(), contains(shown_, text); }, std::chrono::seconds(20));
    }
    int status() {
        int ended = 0;
        auto const in_time =
            wait_until([&] { return read(), ::waitpid(pid_, &ended, WNOHANG) == pid_; },
                       std::chrono::seconds(20));
        BOOST_REQUIRE_MESSAGE(in_time, shown_);
        pid_ = -1;
        return WIFEXITED(ended) ? WEXITSTATUS(ended) : -1;
    }
    std::string const& shown() const { return shown_; }

private:
    void read() {
        pollfd polled{terminal_, POLLIN, 0};
        while (::poll(&polled, 1, 0) > 0) {
            char buffer[4096];
            auto const n = ::read(terminal_, buffer, sizeof buffer);
            if (n <= 0) return;
            shown_.append(buffer, static_cast<std::size_t>(n));
        }
    }

    int terminal_ = -1;
    pid_t pid_ = -1;
    std::string shown_;
};

} // namespace holdfast::test

#endif
