// The output of a protocol machine. A tenure answers each event with one action, and a wait queue
// gives its actions in next(). The driver carries out an action: first its commands, then its
// effect.
#ifndef HOLDFAST_PROTOCOL_ACTION_HPP
#define HOLDFAST_PROTOCOL_ACTION_HPP

#include "protocol/instance_set.hpp"

namespace holdfast::protocol {

/// `Effect` names an event in this process: for the owner of the key, or for the queue.
template <class Effect>
struct action {
    /// The instances that get each command. The driver sends the commands in this order.
    instance_set acquire{}, contend{}, raise{}, extend{}, heal{}, release{}, inspect{}, track{};
    Effect effect = Effect::none;

    /// True if there is no command and no effect.
    bool empty() const {
        return effect == Effect::none && !sets_keys() && (release | inspect | track).empty();
    }
    bool sets_keys() const { return !(acquire | contend | raise | extend | heal).empty(); }
};

} // namespace holdfast::protocol

#endif
