// The phases of a wait queue.
//
//   ready          -> trying          try_all, try_arbiter, try_reserved
//   trying         -> held            won()
//                  -> ready           failed(), arbiter_failed(); cancel_try
//                  -> waiting         refused(), contended(), failed_in_outage()
//                  -> to inspect      contended() by all, and the reason is not known
//   to inspect     -> inspecting      inspect
//   inspecting     -> waiting         inspected()
//   held           -> standing back   released(), while other processes may want the key
//                  -> ready           lost(), or released() otherwise
//                  -> (folded)        fold: no acquire waits, and there is nothing to remember
//   (folded)       -> held            made again from folded(), before the next event
//   waiting, standing back -> ready   wake()
#ifndef HOLDFAST_PROTOCOL_QUEUE_PHASE_HPP
#define HOLDFAST_PROTOCOL_QUEUE_PHASE_HPP

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

} // namespace holdfast::protocol

#endif
