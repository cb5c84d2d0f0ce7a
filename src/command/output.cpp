#include "command/output.hpp"

#include <cerrno>
#include <cstring>
#include <iostream>

namespace holdfast::command {

int flush_output() {
    errno = 0;
    if (std::cout.flush()) return 0;
    auto const cause = errno != 0 ? errno : EIO; // an earlier write may have failed
    if (cause != EPIPE)
        std::cerr << "holdfast: the output cannot be written: " << std::strerror(cause) << '\n';
    return cause;
}

} // namespace holdfast::command
