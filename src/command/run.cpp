#include "command/run.hpp"

#include <holdfast/client.hpp>

#include "command/child_process.hpp"
#include "command/exit_code.hpp"
#include "command/signal_setup.hpp"

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
#include <poll.h>
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

/// A user who has just set the servers up knows that they have forgotten no lock.
constexpr char const* advice =
    "; if the servers are new, so that they cannot have forgotten a lock, use --new-servers";

/// Between two tries while servers get their votes back, or are away.
constexpr lease_clock::duration least_pause = std::chrono::milliseconds(100);

/// Whether the instances may get better without a person's help.
bool passes(error const& e) {
    return e == errc::unreachable || e == errc::instance_timeout || e == errc::read_only ||
           e == errc::no_quorum || e == errc::no_sentinel_majority || e == errc::too_few_replicas;
}

/// Tells the user, unless that would make this process wait: it has to watch the lock.
void say(std::string const& text) {
    auto const line = "holdfast: " + text + '\n';
    pollfd polled{STDERR_FILENO, POLLOUT, 0};
    if (::poll(&polled, 1, 0) != 1 || (polled.revents & POLLOUT) == 0) return;
    [[maybe_unused]] auto const written = ::write(STDERR_FILENO, line.data(), line.size());
}

/// Acquires the lock, runs the command, and releases the lock. Everything happens on one thread.
class supervisor {
public:
    explicit supervisor(run_settings const& s)
        : settings_(s)
        , ttl_(s.ttl_ms)
        , client_(context_.get_executor(), s.addresses(), options_of(s))
        , lock_(client_.make_lock(s.key, options_of_lock(s)))
        , signals_(context_, SIGCHLD, SIGCONT)
        , kill_timer_(context_)
        , vote_timer_(context_) {
        for (auto const number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP}) {
            if (!setup_.ignored(number)) signals_.add(number);
        }
    }

    int run() {
        wait_for_signal();
        acquire();
        context_.run();
        return result_;
    }

private:
    // Each run is a client that starts anew. So it cannot know whether a server has just been
    // restarted, and has forgotten the lock of another run.
    static client_options options_of(run_settings const& s) {
        auto o = s.options();
        if (!s.new_servers) o.on_restart = restart_policy::by_uptime;
        return o;
    }

    // The command tells the user why it waits, so it waits itself.
    static lock_options options_of_lock(run_settings const& s) {
        return {.ttl = std::chrono::milliseconds(s.ttl_ms),
                .fencing = s.fence,
                .on_outage = outage_policy::fail};
    }

    void acquire() {
        acquiring_ = true;
        auto handler = asio::bind_cancellation_slot(
            stop_.slot(), [this](error e, lease l) { on_acquired(std::move(e), std::move(l)); });
        if (!settings_.wait_ms) return lock_.acquire(std::move(handler));
        lock_.try_acquire_for(std::max(std::chrono::milliseconds(0), time_left()),
                              std::move(handler));
    }

    std::chrono::milliseconds time_left() const {
        auto const all = std::chrono::milliseconds(settings_.wait_ms.value_or(0));
        return all - std::chrono::floor<std::chrono::milliseconds>(lease_clock::now() - begun_);
    }

    /// When the first instance gets its vote back; in the far future if none is in quarantine, or
    /// none will leave it.
    lease_clock::time_point next_vote() const {
        auto const now = lease_clock::now();
        auto first = lease_clock::time_point::max();
        for (auto const& i : client_.instances()) {
            if (i.quarantined_until > now) first = std::min(first, i.quarantined_until);
        }
        return first;
    }

    // Too few instances have a vote. Some get it back in time; false if they do not.
    bool waits_for_votes(error const& e) {
        auto const first = next_vote();
        if (first == lease_clock::time_point::max()) return false;
        auto const pause = std::max(first - lease_clock::now(), least_pause);
        auto const in_time = !settings_.wait_ms || pause < time_left();
        if (!std::exchange(said_wait_, true)) {
            auto const* const then = in_time ? "; waiting for their votes" : "";
            say(e.what() + then + (settings_.new_servers ? "" : advice));
        }
        if (in_time) acquire_after(pause);
        return in_time;
    }

    // Too few instances can be reached. A user who gave a time to wait means it.
    bool waits_for_instances(error const& e) {
        if (!passes(e) || !settings_.wait_ms || time_left() <= least_pause) return false;
        if (!std::exchange(said_outage_, true)) say(e.what() + "; waiting for the instances");
        acquire_after(least_pause);
        return true;
    }

    void acquire_after(lease_clock::duration pause) {
        vote_timer_.expires_after(pause);
        vote_timer_.async_wait([this](boost::system::error_code) {
            if (result_ == 0) return acquire();
            finish(); // a signal ended the wait
        });
    }

    void on_acquired(error e, lease l) {
        acquiring_ = false;
        lease_ = std::move(l);
        if (e) {
            if (result_ == 0) { // else a signal ended the wait
                if (e == errc::quarantined && waits_for_votes(e)) return;
                if (waits_for_instances(e)) return;
                if (e != errc::quarantined || !said_wait_) say(e.what());
                auto const waited = e == errc::contended || e == errc::wait_timeout;
                result_ = waited ? contended : unavailable;
            }
            return finish();
        }
        if (result_ != 0) return give_back(); // a signal came together with the lock
        start();
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
            return give_back();
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
            vote_timer_.cancel();
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
            finish();
        });
    }

    void finish() {
        ended_ = true;
        signals_.cancel();
        client_.close();
    }

    signal_setup const setup_;
    run_settings const& settings_;
    std::chrono::milliseconds const ttl_;
    asio::io_context context_{1};
    client client_;
    lock lock_;
    lease lease_;
    asio::signal_set signals_;
    asio::steady_timer kill_timer_, vote_timer_;
    lease_clock::time_point const begun_ = lease_clock::now();
    bool said_wait_ = false;   ///< why the command does not start yet
    bool said_outage_ = false; ///< that too few instances can be reached
    asio::cancellation_signal stop_;
    child_process child_{setup_};
    int result_ = 0;
    bool acquiring_ = true, lost_ = false, ended_ = false;
};

} // namespace

int run(run_settings const& s) {
    return supervisor(s).run();
}

} // namespace holdfast::command
