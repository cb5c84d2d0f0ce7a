// The number from which the fences of a tenure's leases are made, and the instances that hold it.
//
// A quorum that has granted must also hold the number: instances that know nothing of it might else
// give the same number, or a smaller one, to a later tenure. Instances that hold less are raised.
#ifndef HOLDFAST_PROTOCOL_TENURE_NUMBER_HPP
#define HOLDFAST_PROTOCOL_TENURE_NUMBER_HPP

#include "protocol/instance_set.hpp"
#include "protocol/messages.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace holdfast::protocol {

template <class Rules>
class tenure_number {
public:
    /// Instances are asked for a number of at least `hint`, where they find that credible.
    void request(std::uint64_t hint) {
        requested_ = true;
        hint_ = hint;
    }
    bool requested() const { return requested_; }

    /// An instance has counted so far. True: the number has grown, and instances that held the last
    /// one do not hold this one.
    bool count(unsigned instance, std::uint64_t number) {
        auto const first = number_ == 0;
        if (number == number_ || (raising_ && number > number_ && !Rules::late_grant_lifts())) {
            holders_.insert(instance);
        } else if (number > number_) {
            number_ = number;
            holders_ = instance_set::only(instance);
            return !first;
        }
        return false;
    }
    /// An instance has been raised to the number.
    void raised(unsigned instance) { holders_.insert(instance); }
    /// An instance has lost the key, and its number with it.
    void lost(unsigned instance) { holders_.erase(instance); }

    /// True for the first raise.
    bool begin_raising() { return !std::exchange(raising_, true); }
    bool raising() const { return raising_; }

    /// Zero before the first grant.
    std::uint64_t value() const { return number_; }
    /// The instances that are known to hold the number, or a greater one.
    instance_set holders() const { return holders_; }
    /// The number to send with a command. An instance that is asked after another has granted gets
    /// the hint too, even if the other did not believe it: it may have lost its counter, and then
    /// only the hint keeps this number above earlier ones.
    std::uint64_t for_command(command c) const {
        return c == command::raise ? number_ : std::max(number_, hint_);
    }

private:
    std::uint64_t hint_ = 0, number_ = 0;
    instance_set holders_;
    bool requested_ = false;
    bool raising_ = false;
};

} // namespace holdfast::protocol

#endif
