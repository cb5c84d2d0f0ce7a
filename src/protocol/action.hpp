// The output of a protocol machine. Each machine answers an event with one action, or is asked for
// its next one, and its driver carries it out: first the commands, then the effect.
#ifndef HOLDFAST_PROTOCOL_ACTION_HPP
#define HOLDFAST_PROTOCOL_ACTION_HPP

#include "protocol/instance_set.hpp"

namespace holdfast::protocol {

/// `Effect` says what happens in this process: to the owner of the key, or to the queue.
template <class Effect>
struct action {
    /// The instances that get each command. The driver sends them in this order.
    instance_set acquire{}, contend{}, raise{}, extend{}, heal{}, release{}, inspect{}, watch{};
    Effect effect = Effect::none;

    /// No command, and no effect.
    bool empty() const {
        return effect == Effect::none && !sets_keys() && (release | inspect | watch).empty();
    }
    bool sets_keys() const { return !(acquire | contend | raise | extend | heal).empty(); }
};

} // namespace holdfast::protocol

#endif
