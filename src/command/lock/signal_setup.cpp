#include "command/lock/signal_setup.hpp"

namespace holdfast::command {

signal_setup::signal_setup() {
    ::sigemptyset(&ignored_);
    for (int number = 1; number < NSIG; ++number) {
        struct sigaction present {};
        if (::sigaction(number, nullptr, &present) == 0 && present.sa_handler == SIG_IGN)
            ::sigaddset(&ignored_, number);
    }
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, &blocked_);
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGTTOU, SIG_IGN);
}

void signal_setup::restore() const noexcept {
    for (int number = 1; number < NSIG; ++number)
        ::signal(number, ignored(number) ? SIG_IGN : SIG_DFL);
    ::sigprocmask(SIG_SETMASK, &blocked_, nullptr);
}

} // namespace holdfast::command
