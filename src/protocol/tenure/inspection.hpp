// The inspection asks the instances that refused a key: is the key a lock, and how long does it
// last?
#ifndef HOLDFAST_PROTOCOL_INSPECTION_HPP
#define HOLDFAST_PROTOCOL_INSPECTION_HPP

#include "protocol/instance_set.hpp"
#include "protocol/messages.hpp"
#include "protocol/tenure/round_trips.hpp"
#include "protocol/time.hpp"

namespace holdfast::protocol {

class inspection {
public:
    void begin(time_point now, instance_set asked) {
        asked_ = now;
        pending_ = asked;
        complete_ = !asked.empty();
        found_lock_ = false;
    }
    /// False if no answer of this instance is awaited.
    bool count(unsigned instance, verdict v) {
        if (!pending_.contains(instance)) return false;
        pending_.erase(instance);
        if (v == verdict::yes) found_lock_ = true;
        if (v == verdict::unsent || v == verdict::unknown) complete_ = false;
        return true;
    }
    /// Stops waiting for the missing answers.
    void give_up() {
        pending_ = {};
        complete_ = false;
    }

    instance_set pending() const { return pending_; }
    /// True if every instance that was asked has answered or still may. False if none was asked.
    bool complete() const { return complete_; }
    /// The time from which the missing answers are late.
    time_point patience_ends(round_trips const& usual) const {
        return found_lock_ ? late_from(usual, asked_, pending_, 1) : time_point::max();
    }

private:
    time_point asked_{};
    instance_set pending_;
    bool complete_ = true;
    /// An instance said that the key is a lock, or is gone. Until then the key may be no lock, and
    /// a waiter might wait for ever.
    bool found_lock_ = false;
};

} // namespace holdfast::protocol

#endif
