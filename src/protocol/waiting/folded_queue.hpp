// The rest of a folded wait queue. A queue is folded while its tenure is held, if no acquire waits
// and the queue has no more to remember than this. So a held key costs no queue.
#ifndef HOLDFAST_PROTOCOL_FOLDED_QUEUE_HPP
#define HOLDFAST_PROTOCOL_FOLDED_QUEUE_HPP

#include "protocol/time.hpp"

namespace holdfast::protocol {

struct folded_queue {
    time_point held_since{}; ///< when the tenure was won
    duration round_trip{};   ///< of the try that was won, the only one that counts so far
    bool fenced = false;     ///< whether leases of the tenure can have fences
};

} // namespace holdfast::protocol

#endif
