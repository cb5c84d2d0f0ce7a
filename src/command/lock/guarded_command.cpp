#include "command/lock/guarded_command.hpp"

#include "command/exit_code.hpp"
#include "command/output.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

namespace holdfast::command {

namespace {

/// If the key is gone, another holder may have the lock already.
constexpr std::chrono::milliseconds short_grace(1'000);

/// SIGKILL comes this long before the deadline, because it takes time, too.
constexpr std::chrono::milliseconds kill_margin(20);

std::string lines(std::vector<std::string_view> const& all) {
    std::string text;
    for (auto const& each : all) text.append(text.empty() ? "" : "\n").append(each);
    return text;
}

} // namespace

guarded_command::guarded_command(command_settings const& s, boost::asio::io_context& context,
                                 owner& o)
    : settings_(s)
    , owner_(o)
    , signals_(context, SIGCHLD, SIGCONT)
    , kill_timer_(context) {
    for (auto const number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP}) {
        if (!setup_.ignored(number)) signals_.add(number);
    }
}

int guarded_command::start(lease const& held) {
    lease_ = &held;
    lost_ = ended_ = false;
    child_process::environment const changes{
        {"HOLDFAST_KEY", std::string(held.key())},
        {"HOLDFAST_KEYS", lines(held.keys())},
        {"HOLDFAST_FENCE", settings_.fence ? std::to_string(held.fence()) : ""},
        {"HOLDFAST_SLOT", held.slot() ? std::to_string(*held.slot()) : ""}};
    int error = 0;
    try {
        error = child_.emplace(setup_).start(settings_.command, changes);
    } catch (std::system_error const& e) {
        error = e.code().value();
    }
    if (error == 0) return success;
    child_.reset();
    say("cannot execute " + settings_.command.front() + ": " + std::strerror(error));
    return error == ENOENT ? not_found : cannot_execute;
}

void guarded_command::on_lost() {
    if (!running() || std::exchange(lost_, true)) return;
    child_->signal(SIGTERM);
    child_->signal(SIGCONT);
    auto const last_moments = grace(std::chrono::milliseconds(settings_.ttl_ms));
    auto const left = lease_->deadline() - kill_margin - lease_clock::now();
    auto const gone = left > last_moments;
    kill_timer_.expires_after(gone ? std::min<lease_clock::duration>(left, short_grace) : left);
    kill_timer_.async_wait([this](boost::system::error_code ec) {
        if (!ec && lost_) child_->signal(SIGKILL);
    });
    say("the lock is lost, the command has to end: " + settings_.name());
}

void guarded_command::wait_for_signal() {
    signals_.async_wait([this](boost::system::error_code ec, int number) {
        if (ec || closed_) return;
        on_number(number);
        if (!closed_) wait_for_signal();
    });
}

void guarded_command::close() {
    closed_ = true;
    signals_.cancel();
}

void guarded_command::on_number(int number) {
    if (number == SIGCHLD || number == SIGCONT) {
        if (number == SIGCONT) resume();
        if (running()) on_child();
        return;
    }
    if (running()) child_->signal(number);
    if (number != SIGTSTP) owner_.on_signal(number);
}

void guarded_command::on_child() {
    switch (child_->poll()) {
    case child_process::state::running:
        break;
    case child_process::state::stopped:
        // Without a terminal, the lock is extended until the command goes on.
        if (child_->has_terminal()) stop_here();
        break;
    case child_process::state::ended: {
        ended_ = true;
        kill_timer_.cancel();
        if (lost_) child_->signal(SIGKILL); // its descendants
        auto const code = child_->reap();
        owner_.on_end(lost_ ? exit_code::lost : code);
        break;
    }
    }
}

// The user's shell gets the terminal, and wakes this process group later. The kernel ignores
// SIGTSTP if there is no such shell.
void guarded_command::stop_here() {
    child_->take_terminal();
    signals_.remove(SIGTSTP);
    ::signal(SIGTSTP, SIG_DFL);
    ::kill(0, SIGTSTP);
    if (!setup_.ignored(SIGTSTP)) signals_.add(SIGTSTP);
    resume();
}

// This process may have been stopped for longer than the lock lasts.
void guarded_command::resume() {
    if (!running()) return;
    if (!lease_->held()) {
        lost_ = true;
        child_->signal(SIGKILL);
    }
    child_->give_terminal();
    child_->signal(SIGCONT);
}

} // namespace holdfast::command
