// The rest of a wait queue that is folded: its tenure is held, no acquire waits, and the queue has
// no more to remember than this. So a held key costs no queue.
#ifndef HOLDFAST_PROTOCOL_FOLDED_QUEUE_HPP
#define HOLDFAST_PROTOCOL_FOLDED_QUEUE_HPP

#include "protocol/time.hpp"

namespace holdfast::protocol {

struct folded_queue {
    time_point held_since{}; ///< when the tenure was won
    duration round_trip{};   ///< as the queue has measured it
    bool fenced = false;     ///< whether leases of the tenure can have fences
};

} // namespace holdfast::protocol

#endif
