// A program as a child process of the test. Its input and output are a socket.
#pragma once

#include "support/net.hpp"

#include <chrono>
#include <string>
#include <sys/types.h>
#include <vector>

namespace holdfast::test {

// It ends with its parent. The functions throw std::system_error.
class child_process {
public:
    child_process(std::string const& program, std::vector<std::string> arguments);
    ~child_process();
    child_process(child_process const&) = delete;
    child_process& operator=(child_process const&) = delete;

    void say(std::string const& text);
    // The next line of output; empty if none comes in time, or if there is none any more:
    // output_ended().
    std::string line(std::chrono::milliseconds limit = std::chrono::seconds(20));
    [[nodiscard]] bool output_ended() const noexcept { return output_ended_; }
    // Whether it has ended by itself. Does not wait.
    bool has_ended();
    // The exit status; -1 if the process was killed, or does not end in time.
    int status(std::chrono::seconds limit = std::chrono::seconds(20));
    void kill();
    void send_signal(int signal);
    // It reads the end of its input.
    void close_input();
    // Stops the process, and returns when it has stopped.
    void stop();
    void go_on();

private:
    net::unique_fd socket_;
    pid_t pid_ = -1;
    int ended_ = 0; // its status, once it has ended by itself
    std::string said_;
    bool output_ended_ = false;
};

} // namespace holdfast::test
