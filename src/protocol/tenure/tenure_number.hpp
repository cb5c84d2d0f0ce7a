// The number from which the fences of a tenure's leases are made, and the instances that hold it.
//
// A quorum must hold the number before the tenure is won. Otherwise instances that do not know the
// number might give it, or a smaller one, to a later tenure. Instances that hold less are raised.
#ifndef HOLDFAST_PROTOCOL_TENURE_NUMBER_HPP
#define HOLDFAST_PROTOCOL_TENURE_NUMBER_HPP

#include "protocol/instance_set.hpp"
#include "protocol/messages.hpp"
#include "protocol/tenure/counting.hpp"

#include <algorithm>
#include <cstdint>

namespace holdfast::protocol {

template <class Rules>
class tenure_number {
public:
    /// Instances give a number of at least the hint, unless that is too far ahead of their clocks.
    void request(count_plan const& plan) {
        requested_ = true;
        hint_ = plan.hint;
        counting_ = plan.how;
    }
    count_plan plan() const { return {hint_, counting_}; }
    bool requested() const { return requested_; }
    /// The number of a tenure that was won elsewhere.
    void adopt(std::uint64_t number) {
        requested_ = true;
        number_ = number;
    }

    /// An instance has granted, and its counter is `number`. True if the number of the tenure has
    /// grown, so that earlier holders of it hold less.
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
    /// The grant of an instance no longer counts, and neither does its number.
    void lost(unsigned instance) { holders_.erase(instance); }

    /// True for the first raise.
    bool begin_raising() {
        auto const first = !raising_;
        raising_ = true;
        return first;
    }
    bool raising() const { return raising_; }

    /// Zero before the first grant.
    std::uint64_t value() const { return number_; }
    /// The instances that are known to hold the number, or a greater one.
    instance_set holders() const { return holders_; }
    /// The number to send with a command. Instances that are asked after another one has granted
    /// get the hint too, even if that one rejected the hint. They may have lost their counters, and
    /// then only the hint keeps this number above earlier ones.
    std::uint64_t for_command(command c) const {
        return c == command::raise ? number_ : std::max(number_, hint_);
    }
    /// How an instance is to count for a command that is sent now.
    counting counting_for(command c) const {
        return c == command::acquire ? counting_ : counting::by_script;
    }

private:
    std::uint64_t hint_ = 0, number_ = 0;
    instance_set holders_;
    // Without padding: each lease has room for it.
    bool requested_ : 1 = false;
    bool raising_ : 1 = false;
    counting counting_ : 2 = counting::by_script;
};

} // namespace holdfast::protocol

#endif
