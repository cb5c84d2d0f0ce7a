// A waiter in a wait queue.
#ifndef HOLDFAST_PROTOCOL_WAITER_HPP
#define HOLDFAST_PROTOCOL_WAITER_HPP

#include "protocol/time.hpp"

#include <boost/intrusive/list.hpp>

namespace holdfast::protocol {

using waiter_hook = boost::intrusive::list_base_hook<boost::intrusive::tag<struct in_wait_queue>>;

/// Wants the key. Linked while it stands in the queue.
struct waiter : waiter_hook {
    duration ttl{};
    bool watched = true; ///< whether its lease will be extended
    bool fenced = false; ///< whether its lease is to have a fence
    bool waits = true;   ///< if not, it wants to know at once
    bool again = false;  ///< does not wait, and has had another try after a pause of this process
};

using waiter_list = boost::intrusive::list<waiter, boost::intrusive::base_hook<waiter_hook>,
                                           boost::intrusive::constant_time_size<false>>;

} // namespace holdfast::protocol

#endif
