#include "command/output.hpp"

#include <cerrno>
#include <cstring>
#include <iostream>
#include <poll.h>
#include <unistd.h>

namespace holdfast::command {

int flush_output() {
    errno = 0;
    if (std::cout.flush()) return 0;
    auto const cause = errno != 0 ? errno : EIO; // an earlier write may have failed
    if (cause != EPIPE)
        std::cerr << "holdfast: the output cannot be written: " << std::strerror(cause) << '\n';
    return cause;
}

void say(std::string const& text) {
    auto const line = "holdfast: " + text + '\n';
    pollfd polled{STDERR_FILENO, POLLOUT, 0};
    if (::poll(&polled, 1, 0) != 1 || (polled.revents & POLLOUT) == 0) return;
    [[maybe_unused]] auto const written = ::write(STDERR_FILENO, line.data(), line.size());
}

bool has_reader() {
    return ::isatty(STDERR_FILENO) == 1;
}

} // namespace holdfast::command
