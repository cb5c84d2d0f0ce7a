#include "command/lock/run.hpp"

#include <holdfast/at_most_every.hpp>
#include <holdfast/client.hpp>

#include "command/exit_code.hpp"
#include "command/lock/child_process.hpp"
#include "command/lock/holder_notice.hpp"
#include "command/lock/signal_setup.hpp"
#include "command/output.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <exception>
#include <string>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace holdfast::command {

namespace asio = boost::asio;

namespace {

/// The command may take this long to end after SIGTERM. Extensions begin when a third of the ttl
/// has passed, so this is never reached while they succeed.
std::chrono::milliseconds grace(std::chrono::milliseconds ttl) {
    return ttl / 4;
}

/// If the key is gone, another holder may have the lock already.
constexpr std::chrono::milliseconds short_grace(1'000);

/// SIGKILL comes this long before the deadline, because it takes time, too.
constexpr std::chrono::milliseconds kill_margin(20);

/// Acquires the lock, runs the command, and releases the lock. Everything happens on one thread.
class supervisor {
public:
    explicit supervisor(run_settings const& s)
        : settings_(s)
        , ttl_(s.ttl_ms)
        , client_(context_.get_executor(), s.addresses(), s.client())
        , lock_(client_.make_lock(s.key, s.lock()))
        , signals_(context_, SIGCHLD, SIGCONT)
        , kill_timer_(context_)
        , over_(context_)
        , patience_(s, client_, context_)
        , notice_(client_, context_, s.key) {
        for (auto const number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP}) {
            if (!setup_.ignored(number)) signals_.add(number);
        }
    }

    int run() {
        wait_for_signal();
        attempt();
        context_.run();
        return result_;
    }

private:
    void attempt() {
        acquiring_ = true;
        if (settings_.interval_ms) return attempt_run();
        auto handler = asio::bind_cancellation_slot(
            stop_.slot(), [this](error e, lease l) { on_acquired(e, std::move(l)); });
        if (settings_.adopted) {
            return client_.adopt(settings_.key, *settings_.adopted, settings_.lock(),
                                 std::move(handler));
        }
        if (settings_.verbose || has_reader()) notice_.start();
        patience_.acquire(lock_, std::move(handler));
    }

    void on_acquired(error const& e, lease l) {
        acquiring_ = false;
        if (e) return on_failed(e);
        notice_.stop();
        lease_ = std::move(l);
        if (result_ != 0) return give_back(); // a signal came together with the lock
        start();
    }

    void on_failed(error const& e) {
        if (result_ != 0) return finish(); // a signal ended the wait
        auto const retried = patience_.retries(e, [this] {
            if (result_ == 0) return attempt();
            finish(); // a signal ended the pause
        });
        if (retried) return;
        result_ = patience_.give_up(e);
        if (e == errc::lease_lost) result_ = lost; // it cannot be adopted
        finish();
    }

    //
    // At most once in an interval
    //

    void attempt_run() {
        auto const body = [this](lease& held) { return run_under(held); };
        auto handler = asio::bind_cancellation_slot(
            stop_.slot(),
            [this](std::exception_ptr e, start_report r) { on_run(std::move(e), r); });
        at_most_every(std::chrono::milliseconds(*settings_.interval_ms), lock_, body,
                      std::move(handler));
    }

    // The supervisor watches the lease itself: the command may take a moment to end.
    asio::awaitable<void> run_under(lease& held) {
        co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
        acquiring_ = false;
        in_body_ = true;
        over_.expires_at(asio::steady_timer::time_point::max());
        lease_ = held.share();
        if (result_ == 0) {
            start();
        } else {
            undo_run();
        }
        co_await over_.async_wait(asio::as_tuple(asio::deferred));
    }

    // No command was started, so the next call may start one before the interval is over.
    void undo_run() {
        if (!in_body_) return give_back();
        client_.force_release(settings_.key + ":last", [this](error e, key_report) {
            if (e) say("no command was started, but the next one has to wait: " + e.what());
            give_back();
        });
    }

    void on_run(std::exception_ptr failure, start_report const& r) {
        acquiring_ = false;
        try {
            if (failure) std::rethrow_exception(std::move(failure));
        } catch (lock_error const& e) {
            if (!in_body_) return on_failed(e.failure());
            // All else has been told.
            if (child_.started() && e.code() == errc::lease_lost) result_ = lost;
        }
        if (!in_body_ && result_ == 0 && (settings_.verbose || has_reader())) say(r.to_string());
        finish();
    }

    void start() {
        child_process::environment const changes{
            {"HOLDFAST_KEY", std::string(lease_.key())},
            {"HOLDFAST_FENCE", settings_.fence ? std::to_string(lease_.fence()) : ""}};
        int error = 0;
        try {
            error = child_.start(settings_.command, changes);
        } catch (std::system_error const& e) {
            error = e.code().value();
        }
        if (error != 0) {
            say("cannot execute " + settings_.command.front() + ": " + std::strerror(error));
            result_ = error == ENOENT ? not_found : cannot_execute;
            return undo_run();
        }
        lease_.wait_end(grace(ttl_), [this](holdfast::error e, lease_end how) {
            if (!e && how != lease_end::released) on_lost();
        });
    }

    // Nothing that the command does after the deadline is under the lock.
    void on_lost() {
        if (ended_ || std::exchange(lost_, true)) return;
        child_.signal(SIGTERM);
        child_.signal(SIGCONT);
        auto const left = lease_.deadline() - kill_margin - lease_clock::now();
        auto const gone = left > grace(ttl_);
        kill_timer_.expires_after(gone ? std::min<lease_clock::duration>(left, short_grace) : left);
        kill_timer_.async_wait([this](boost::system::error_code ec) {
            if (!ec) child_.signal(SIGKILL);
        });
        say("the lock is lost, the command has to end: " + std::string(lock_.key()));
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
            if (number == SIGCONT) resume();
            if (child_.started()) on_child();
        } else if (child_.started()) {
            child_.signal(number);
        } else if (number != SIGTSTP) {
            result_ = by_signal + number;
            if (acquiring_) stop_.emit(asio::cancellation_type::all);
            patience_.hurry();
        }
    }

    void on_child() {
        switch (child_.poll()) {
        case child_process::state::running:
            break;
        case child_process::state::stopped:
            // Without a terminal, the lock is extended until the command goes on.
            if (child_.has_terminal()) stop_here();
            break;
        case child_process::state::ended:
            if (std::exchange(ended_, true)) break;
            if (lost_) child_.signal(SIGKILL); // its descendants
            result_ = child_.reap();
            if (lost_) result_ = lost;
            give_back();
            break;
        }
    }

    // The user's shell gets the terminal, and wakes this process group later. The kernel ignores
    // SIGTSTP if there is no such shell.
    void stop_here() {
        child_.take_terminal();
        signals_.remove(SIGTSTP);
        ::signal(SIGTSTP, SIG_DFL);
        ::kill(0, SIGTSTP);
        if (!setup_.ignored(SIGTSTP)) signals_.add(SIGTSTP);
        resume();
    }

    // This process may have been stopped for longer than the lock lasts.
    void resume() {
        if (!child_.started() || ended_) return;
        if (!lease_.held()) {
            lost_ = true;
            child_.signal(SIGKILL);
        }
        child_.give_terminal();
        child_.signal(SIGCONT);
    }

    void give_back() {
        kill_timer_.cancel();
        lease_.release([this](release_result r) {
            if (!r.confirmed() && !lost_) say("the lock was not released: " + r.what());
            if (child_.started() && r == errc::lease_lost) result_ = lost;
            if (!in_body_) return finish();
            over_.expires_at(asio::steady_timer::time_point::min());
        });
    }

    void finish() {
        ended_ = true;
        notice_.stop();
        signals_.cancel();
        client_.close();
    }

    signal_setup const setup_;
    run_settings const& settings_;
    std::chrono::milliseconds const ttl_;
    asio::io_context context_{1};
    client client_;
    holdfast::lock lock_;
    lease lease_;
    asio::signal_set signals_;
    asio::steady_timer kill_timer_;
    asio::steady_timer over_; ///< the end of the body of at_most_every()
    patience patience_;
    holder_notice notice_;
    asio::cancellation_signal stop_;
    child_process child_{setup_};
    int result_ = 0;
    bool acquiring_ = true, in_body_ = false, lost_ = false, ended_ = false;
};

} // namespace

int run(run_settings const& s) {
    return supervisor(s).run();
}

} // namespace holdfast::command
