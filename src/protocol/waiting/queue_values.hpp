// The values of a wait queue: its phases, its actions, what it counts, and what is left of it when
// it is folded.
//
//   ready          -> trying          try_all, try_arbiter, try_reserved
//   trying         -> held            won()
//                  -> ready           failed(), arbiter_failed(); cancel_try
//                  -> waiting         refused(), contended(), failed_in_outage()
//                  -> to inspect      contended() by all, and the reason is not known
//   to inspect     -> inspecting      inspect
//   inspecting     -> waiting         inspected()
//   held           -> ready           part: readers, or a permit, go on without the queue
//                  -> standing back   released(), while other processes may want the key
//                  -> ready           lost(), or released() otherwise
//                  -> (folded)        fold: no acquire waits, and there is nothing to remember
//   (folded)       -> held            made again from folded(), before the next event
//   waiting, standing back -> ready   wake()
#ifndef HOLDFAST_PROTOCOL_QUEUE_VALUES_HPP
#define HOLDFAST_PROTOCOL_QUEUE_VALUES_HPP

#include "protocol/action.hpp"
#include "protocol/time.hpp"

#include <cstdint>

namespace holdfast::protocol {

enum class queue_phase : std::uint8_t {
    ready,         ///< for a try
    trying,        ///< a try is under way
    to_inspect,    ///< refused, and the reason is not known
    inspecting,    ///< refused, and the instances were asked for the reason
    waiting,       ///< until a time, or for an awaited_event
    held,          ///< a lease of this process has the key
    standing_back, ///< has just released the key: waits for a time
};

/// The event that ends the wait of a queue before its time. A try that follows an outage does not
/// reset it.
enum class awaited_event : std::uint8_t {
    time,      ///< nothing else
    push,      ///< a push by the arbiter
    instances, ///< enough instances for a quorum
};

enum class queue_effect : std::uint8_t {
    none,         ///< without a command: wait for an answer, a push, a release, or wake()
    try_all,      ///< begin a tenure for front() at all instances at once; then call try_begun()
    try_arbiter,  ///< begin one at the arbiter among candidates(); then call try_begun()
    try_reserved, ///< begin one at all instances at once, with the token that arbiter() has in its
                  ///< line; then call try_begun()
    inspect,      ///< inspect the refusing instances; at the end call inspected()
    listen,       ///< ask the arbiter among candidates() for a push; then call listening()
    refuse,       ///< to_refuse() does not wait: report that the key is held, and call leave()
    cancel_try,   ///< cancel the tenure that was begun
    fold,         ///< held, and no waiter is left: the driver may keep folded() alone, and destroy
                  ///< the queue
    part,         ///< held, and the tenure is of readers or a permit: it goes on without the queue
    forget,       ///< no waiter is left: destroy the queue
};

/// `track`: ask these instances for the key, and to push when it changes. Call tracked() with each
/// answer.
using queue_action = action<queue_effect>;

/// Only the differences of these counts are of use: a folded queue forgets them.
struct queue_counts {
    unsigned tries = 0;
    unsigned tenures = 0; ///< tries that were won
    unsigned wasted = 0;  ///< tries that were refused right after a push
    unsigned splits = 0;  ///< tries that ended with votes for several, and a quorum for none
};

/// The rest of a folded queue. A queue is folded while its tenure is held, if no acquire waits and
/// the queue has no more to remember than this. So a held key costs no queue.
struct folded_queue {
    time_point held_since{}; ///< when the tenure was won
    duration round_trip{};   ///< of the try that was won, the only one that counts so far
    bool fenced = false;     ///< whether leases of the tenure can have fences
    bool writes = false;     ///< whether it is a writer's
    duration ttl{};          ///< of the tenure
};

} // namespace holdfast::protocol

#endif
