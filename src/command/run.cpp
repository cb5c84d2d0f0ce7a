#include "command/run.hpp"

#include <holdfast/client.hpp>

#include "command/child_process.hpp"
#include "command/exit_code.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <iostream>
#include <optional>
#include <utility>

namespace holdfast::command {

namespace asio = boost::asio;

namespace {

/// The command may take this long to end after SIGTERM. Extensions begin when a third of the ttl
/// has passed, so this is never reached while they succeed.
std::chrono::milliseconds grace(std::chrono::milliseconds ttl) {
    return ttl / 4;
}

/// SIGKILL comes this long before the deadline, because it takes time, too.
constexpr std::chrono::milliseconds kill_margin(20);

void say(std::string const& text) {
    std::cerr << "holdfast: " << text << '\n';
}

/// Acquires the lock, runs the command, and releases the lock. Everything happens on one thread.
class supervisor {
public:
    explicit supervisor(run_settings const& s)
        : settings_(s)
        , ttl_(s.ttl_ms)
        , client_(context_.get_executor(), s.addresses(), s.options())
        , lock_(client_.make_lock(s.key, {.ttl = ttl_, .fencing = s.fence}))
        , signals_(context_, SIGINT, SIGTERM, SIGHUP)
        , kill_timer_(context_) {
        for (auto const number : {SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD, SIGCONT})
            signals_.add(number);
    }

    int run() {
        wait_for_signal();
        acquire();
        context_.run();
        return result_;
    }

private:
    void acquire() {
        auto handler = asio::bind_cancellation_slot(
            stop_.slot(), [this](error e, lease l) { on_acquired(std::move(e), std::move(l)); });
        if (!settings_.wait_ms) return lock_.acquire(std::move(handler));
        lock_.try_acquire_for(std::chrono::milliseconds(*settings_.wait_ms), std::move(handler));
    }

    void on_acquired(error e, lease l) {
        acquiring_ = false;
        lease_ = std::move(l);
        if (e) {
            if (result_ == 0) { // else a signal ended the wait
                say(e.what());
                auto const waited = e == errc::contended || e == errc::wait_timeout;
                result_ = waited ? contended : unavailable;
            }
            return finish();
        }
        if (result_ != 0) return give_back(); // a signal came together with the lock
        start();
    }

    void start() {
        child_process::environment added{{"HOLDFAST_KEY", lease_.key()}};
        if (settings_.fence) added.emplace_back("HOLDFAST_FENCE", std::to_string(lease_.fence()));
        if (auto const error = child_.start(settings_.command, added); error != 0) {
            say("cannot execute " + settings_.command.front() + ": " + std::strerror(error));
            result_ = error == ENOENT ? not_found : cannot_execute;
            return give_back();
        }
        lease_.wait_lost(grace(ttl_), [this](error e) {
            if (!e) on_lost();
        });
    }

    // Nothing that the command does after the deadline is under the lock.
    void on_lost() {
        if (ended_) return;
        lost_ = true;
        say("the lock is lost, the command has to end: " + lock_.key());
        child_.signal(SIGTERM);
        child_.signal(SIGCONT);
        kill_timer_.expires_after(lease_.deadline() - kill_margin - lease_clock::now());
        kill_timer_.async_wait([this](boost::system::error_code ec) {
            if (!ec) child_.signal(SIGKILL);
        });
    }

    void wait_for_signal() {
        signals_.async_wait([this](boost::system::error_code ec, int number) {
            if (ec) return;
            on_signal(number);
            if (!ended_) wait_for_signal();
        });
    }

    void on_signal(int number) {
        if (number == SIGCHLD || number == SIGCONT) {
            if (child_.started()) on_child();
        } else if (child_.started()) {
            child_.signal(number);
        } else {
            result_ = by_signal + number;
            if (acquiring_) stop_.emit(asio::cancellation_type::all);
        }
    }

    void on_child() {
        switch (child_.poll()) {
        case child_process::state::running:
            break;
        case child_process::state::stopped:
            // The shell that waits for us gets the terminal, and wakes us later. The lock may be
            // lost by then.
            child_.take_terminal();
            ::raise(SIGSTOP);
            child_.give_terminal();
            child_.signal(SIGCONT);
            break;
        case child_process::state::ended:
            if (ended_) break;
            ended_ = true;
            result_ = lost_ ? static_cast<int>(lost) : child_.exit_code();
            give_back();
            break;
        }
    }

    void give_back() {
        kill_timer_.cancel();
        lease_.release([this](release_result r) {
            if (!r && !lost_) say("the lock was not released: " + r.what());
            if (child_.started() && r == errc::lease_lost) result_ = lost;
            finish();
        });
    }

    void finish() {
        ended_ = true;
        signals_.cancel();
        client_.close();
    }

    run_settings const& settings_;
    std::chrono::milliseconds const ttl_;
    asio::io_context context_{1};
    client client_;
    lock lock_;
    lease lease_;
    asio::signal_set signals_;
    asio::steady_timer kill_timer_;
    asio::cancellation_signal stop_;
    child_process child_;
    int result_ = 0;
    bool acquiring_ = true, lost_ = false, ended_ = false;
};

} // namespace

int run(run_settings const& s) {
    return supervisor(s).run();
}

} // namespace holdfast::command
