// The command of `run` and `lead`: works under a lease, and has to end when that is lost.
#ifndef HOLDFAST_COMMAND_LOCK_GUARDED_COMMAND_HPP
#define HOLDFAST_COMMAND_LOCK_GUARDED_COMMAND_HPP

#include <holdfast/lease.hpp>

#include "command/lock/child_process.hpp"
#include "command/lock/patience.hpp"
#include "command/lock/signal_setup.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace holdfast::command {

struct command_settings : lock_settings {
    std::vector<std::string> command;
    bool verbose = false; ///< tells what it waits for without a terminal, too
};

/// The command may take this long to end after SIGTERM. Extensions begin when a third of the ttl
/// has passed, so this is never reached while they succeed.
constexpr std::chrono::milliseconds grace(std::chrono::milliseconds ttl) {
    return ttl / 4;
}

/// Starts the command, passes signals on to it, and ends it in time when its lock is lost. It may
/// be started again after its end. Refers to its arguments; used on one thread.
class guarded_command {
public:
    /// What starts the command.
    class owner {
    public:
        /// A signal came, but not SIGTSTP. If the command runs, it has been passed on.
        virtual void on_signal(int number) = 0;
        /// The command has ended, with its exit code, or with `lost`.
        virtual void on_end(int code) = 0;

    protected:
        ~owner() = default;
    };

    guarded_command(command_settings const&, boost::asio::io_context&, owner&);

    void wait_for_signal();
    /// No more signals are waited for.
    void close();

    /// Returns the exit code of a command that cannot be executed, or 0. The lease stays where it
    /// is until the command has ended.
    int start(lease const& held);
    /// Ends the command by the deadline: nothing that it does later is under the lock.
    void on_lost();

    bool started() const noexcept { return child_.has_value(); }
    bool running() const noexcept { return started() && !ended_; }
    /// Whether the lock was lost before the last command ended.
    bool lost() const noexcept { return lost_; }

private:
    void on_number(int number);
    void on_child();
    void stop_here();
    void resume();

    signal_setup const setup_;
    command_settings const& settings_;
    owner& owner_;
    boost::asio::signal_set signals_;
    boost::asio::steady_timer kill_timer_;
    lease const* lease_ = nullptr;
    std::optional<child_process> child_; ///< the last one
    bool lost_ = false, ended_ = false, closed_ = false;
};

} // namespace holdfast::command

#endif
