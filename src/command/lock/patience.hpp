// How long a command waits for a lock, and for instances that cannot vote yet.
#ifndef HOLDFAST_COMMAND_LOCK_PATIENCE_HPP
#define HOLDFAST_COMMAND_LOCK_PATIENCE_HPP

#include <holdfast/client.hpp>

#include "command/keys.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

namespace holdfast::command {

/// Settings of the commands that acquire a lock.
struct lock_settings : key_settings {
    std::int64_t ttl_ms = 0;
    std::optional<std::int64_t> wait_ms; ///< empty: indefinitely
    bool fence = false;
    /// Servers that are younger than max_ttl are new, and were not restarted.
    bool new_servers = false;

    client_options client() const;
    /// With outage_policy::fail: the command tells the user why it waits, so it waits itself.
    lock_options lock() const;
};

/// Whether the instances may get better without a person's help.
bool passes(error const&);
/// Why a command waits for instances, for its user.
std::string why_it_waits(lock_settings const&, error const&);

/// Decides whether an attempt that failed is made again, and tells the user why. Refers to its
/// arguments.
class patience {
public:
    patience(lock_settings const& s, client& c, boost::asio::io_context& context)
        : settings_(s)
        , client_(c)
        , pause_(context) {}

    /// Makes an attempt, which waits for a holder as the user wants.
    template <class Handler>
    void acquire(holdfast::lock const& on, Handler handler) const {
        if (!settings_.wait_ms) return on.acquire(std::move(handler));
        on.try_acquire_for(std::max(std::chrono::milliseconds(0), time_left()), std::move(handler));
    }

    /// True if it calls `again` later, for another attempt.
    bool retries(error const&, std::function<void()> again);
    /// Lets a pause end at once.
    void hurry() { pause_.cancel(); }
    /// Tells the user about the last failure. Returns the exit code.
    int give_up(error const&) const;

private:
    std::chrono::milliseconds time_left() const;
    bool waits_for_votes(error const&);
    bool waits_for_instances(error const&);

    lock_settings const& settings_;
    client& client_;
    boost::asio::steady_timer pause_;
    lease_clock::time_point const begun_ = lease_clock::now();
    bool said_wait_ = false;   ///< that too few instances have a vote
    bool said_outage_ = false; ///< that too few instances can be reached
};

} // namespace holdfast::command

#endif
