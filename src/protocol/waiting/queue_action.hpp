// The actions of a wait queue.
#ifndef HOLDFAST_PROTOCOL_QUEUE_ACTION_HPP
#define HOLDFAST_PROTOCOL_QUEUE_ACTION_HPP

#include "protocol/action.hpp"

#include <cstdint>

namespace holdfast::protocol {

enum class queue_effect : std::uint8_t {
    none,         ///< without a command: wait for an answer, a push, a release, or wake()
    try_all,      ///< begin a tenure for front() at all instances at once; then call try_begun()
    try_arbiter,  ///< begin one at the arbiter among candidates(); then call try_begun()
    try_reserved, ///< begin one at all instances at once, with the token that arbiter() has in its
                  ///< line; then call try_begun()
    inspect,      ///< inspect the refusing instances; at the end call inspected()
    listen,       ///< ask the arbiter among candidates() for a push; then call listening()
    refuse,       ///< front() does not wait: tell it that the key is held, and call leave()
    cancel_try,   ///< cancel the tenure that was begun
    fold,         ///< held, and no waiter is left: the driver may keep folded() alone, and destroy
                  ///< the queue
    forget,       ///< no waiter is left: destroy the queue
};

/// `watch`: ask these instances for the key, and to push when it changes. Call watched() with each
/// answer.
using queue_action = action<queue_effect>;

} // namespace holdfast::protocol

#endif
