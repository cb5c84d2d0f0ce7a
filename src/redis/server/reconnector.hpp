// When a connection that is lost, or could not be made, is tried again.
#ifndef HOLDFAST_REDIS_RECONNECTOR_HPP
#define HOLDFAST_REDIS_RECONNECTOR_HPP

#include <holdfast/clock.hpp>

#include "protocol/server/reconnect.hpp"
#include "redis/net/turn_timer.hpp"
#include "redis/server/instance.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <memory>

namespace holdfast::redis {

namespace asio = boost::asio;

/// The places outside of the server that may fix a connection: they are looked at more often than
/// the server is asked.
struct setup_sources {
    bool files = false;       ///< of TLS
    bool credentials = false; ///< that change
};

/// All calls are made within a turn.
class reconnector {
public:
    reconnector(asio::any_io_executor const&, instance_owner&, std::chrono::milliseconds max_pause);

    /// A connection has ended, or could not be made.
    void ended(lease_clock::duration up_for, protocol::fault f) { policy_.ended(up_for, f); }
    /// The setup has changed. True if it was the fault of the setup, so that it may be fixed.
    bool setup_changed() { return policy_.setup_changed(); }
    /// Another server takes the place of the last one: the pauses were about that.
    void forget();

    /// The next pause begins.
    void begin_pause();
    void end_pause() { at_ = owner_.time(); }
    bool due() const { return owner_.time() >= at_; }
    /// The source of credentials is asked while the pause goes on.
    bool asks_for_credentials(setup_sources);

    /// Calls `(user.*work)()` at the end of the pause, or earlier to look at the sources.
    template <class User>
    void arm(setup_sources sources, std::weak_ptr<User> user, void (User::*work)()) {
        timer_.arm(pause(sources), std::move(user), work);
    }
    void cancel() { timer_.cancel(); }
    void forget_timer() noexcept { timer_.forget(); }

private:
    lease_clock::duration pause(setup_sources) const noexcept;

    instance_owner& owner_;
    std::chrono::milliseconds max_pause_;
    protocol::reconnect_policy policy_;
    turn_timer timer_;
    lease_clock::time_point at_{}; ///< the end of the pause
    unsigned file_checks_ = 0;     ///< in pauses
};

} // namespace holdfast::redis

#endif
