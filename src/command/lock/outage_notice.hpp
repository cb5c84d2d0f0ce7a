// Tells a person that too few instances can grant a lock, once for each outage.
#ifndef HOLDFAST_COMMAND_LOCK_OUTAGE_NOTICE_HPP
#define HOLDFAST_COMMAND_LOCK_OUTAGE_NOTICE_HPP

#include <holdfast/client.hpp>

#include "command/lock/patience.hpp"

#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

namespace holdfast::command {

/// Says that an outage has begun, and that it is over: a quorum can vote again. Refers to its
/// arguments.
class outage_notice {
public:
    outage_notice(lock_settings const& s, client& c, boost::asio::io_context& context)
        : settings_(s)
        , client_(c)
        , pause_(context) {}

    /// Looks whether the instances can grant locks in a moment.
    void look();
    /// A call has met an outage.
    void tell(error const&);
    /// It is over, because a lock was granted.
    void over();
    void stop();

private:
    void wait(wait_limit);
    void on_ready(error const&);

    lock_settings const& settings_;
    client& client_;
    boost::asio::steady_timer pause_;
    boost::asio::cancellation_signal stop_;
    bool waits_ = false, told_ = false, stopped_ = false;
    bool ends_ready_ = false; ///< the outage ends when the instances can vote
};

} // namespace holdfast::command

#endif
