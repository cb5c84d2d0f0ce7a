// The actions of a wait queue.
#ifndef HOLDFAST_PROTOCOL_QUEUE_ACTION_HPP
#define HOLDFAST_PROTOCOL_QUEUE_ACTION_HPP

#include "protocol/action.hpp"

#include <cstdint>

namespace holdfast::protocol {

enum class queue_effect : std::uint8_t {
    none,        ///< with no command: wait for an answer, a push, a release, or for wake()
    try_all,     ///< begin a tenure for front() at all instances at once; then tell try_begun()
    try_arbiter, ///< begin a tenure for front() at the arbiter among candidates(); then the same
    inspect,     ///< inspect the refusing instances; then tell inspected()
    listen,      ///< ask the arbiter among candidates() for a push; then tell listening()
    refuse,      ///< front() does not wait: tell it that the key is held, and leave() it
    cancel_try,  ///< take back the tenure that was begun
    forget,      ///< no waiter is left: destroy the queue
};

/// `watch`: ask these instances for the key, and to push when it changes; then tell watched().
using queue_action = action<queue_effect>;

} // namespace holdfast::protocol

#endif
