// The outputs of a wait queue, for its driver.
#ifndef HOLDFAST_PROTOCOL_QUEUE_ACTION_HPP
#define HOLDFAST_PROTOCOL_QUEUE_ACTION_HPP

#include <cstdint>

namespace holdfast::protocol {

/// The driver's next task.
enum class action : std::uint8_t {
    none,    ///< wait: for an answer, a push, a release, or for wake()
    round,   ///< begin a tenure for front() at all instances at once; then tell begun()
    contend, ///< begin a tenure for front() at the arbiter among candidates(); then tell begun()
    ask,     ///< inspect the refusing instances; then tell asked()
    watch,   ///< ask to_watch() for the key, and to push when it changes; then tell watched()
    listen,  ///< ask the arbiter among candidates() for a push; then tell listening()
    refuse,  ///< front() does not wait: tell it that the key is held, and leave() it
    give_up, ///< take back the tenure that was begun
    forget,  ///< nobody is left: destroy the queue
};

} // namespace holdfast::protocol

#endif
