// A timer whose work is part of a turn of the client.
#ifndef HOLDFAST_REDIS_TURN_TIMER_HPP
#define HOLDFAST_REDIS_TURN_TIMER_HPP

#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>

#include "redis/net/turn_owner.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

namespace holdfast::redis {

namespace asio = boost::asio;

/// A member of its user.
class turn_timer {
public:
    turn_timer(asio::any_io_executor const& executor, turn_owner& owner)
        : owner_(owner)
        , timer_(executor) {}

    /// Calls `(user.*work)()` after the pause, unless the user has gone or the timer was armed
    /// again or cancelled. Throws std::bad_alloc; the timer is then not armed.
    template <class User>
    void arm(lease_clock::duration pause, std::weak_ptr<User> user, void (User::*work)()) {
        timer_.expires_after(std::max(pause, lease_clock::duration::zero()));
        timer_.async_wait([this, user = std::move(user), work, alarm = ++alarms_](error_code ec) {
            auto const alive = user.lock();
            // The handler may have been queued before the timer was cancelled. The owner may be
            // gone since, though the user is not.
            if (ec || !alive || alarm != alarms_) return;
            in_turn(owner_, [&] { (*alive.*work)(); });
        });
    }
    void cancel() noexcept {
        forget();
        timer_.cancel();
    }
    /// As cancel(), for a context that is being destroyed.
    void forget() noexcept { ++alarms_; }

private:
    turn_owner& owner_;
    asio::steady_timer timer_;
    std::uint64_t alarms_ = 0; ///< the last one; the handlers of others do nothing
};

} // namespace holdfast::redis

#endif
