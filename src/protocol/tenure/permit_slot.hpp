// The slot of a permit. A semaphore has slots, and each instance gives a free one of them to a
// token. To count permits would not do: each instance may count to n, and majorities of them admit
// more. So a permit is won when a quorum has given its token *the same* slot. Then the permit is a
// lock on that slot.
//
//   first round    each instance gives the first free slot from a start that is the same for all
//   second round   if a quorum has given slots, but none of them to a quorum: those that gave
//                  another slot than most are asked for that one
//
// Instances that have another slot when the permit is won get its own by healing. A tenure of any
// other lock has the slot 0 everywhere, so nothing here is ever different for it.
#ifndef HOLDFAST_PROTOCOL_PERMIT_SLOT_HPP
#define HOLDFAST_PROTOCOL_PERMIT_SLOT_HPP

#include "protocol/instance_set.hpp"
#include "protocol/messages.hpp"
#include "protocol/tenure/tally.hpp"

#include <cassert>
#include <cstdint>

namespace holdfast::protocol {

/// The slot that a tenure asks for. Two bytes: each lease has it.
class permit_slot {
public:
    static constexpr unsigned limit = 1U << 14; ///< all slots are below

    /// The first round begins its search here.
    void start_at(unsigned slot) { set(slot); }
    /// The first instance has given this slot, or more have given it than the one before.
    void name(unsigned slot) {
        set(slot);
        named_ = 1;
    }
    /// From now on instances are asked for this slot alone.
    void fix() { fixed_ = 1; }
    /// The permit has this slot already.
    void adopt(unsigned slot) {
        name(slot);
        fix();
    }

    /// The slot that the tenure has or asks for, or else the start.
    unsigned value() const { return slot_; }
    /// True if an instance has given it.
    bool named() const { return named_ != 0; }
    bool fixed() const { return fixed_ != 0; }

private:
    void set(unsigned slot) {
        assert(slot < limit);
        slot_ = slot & (limit - 1);
    }

    std::uint16_t slot_ : 14 = 0;
    std::uint16_t named_ : 1 = 0;
    std::uint16_t fixed_ : 1 = 0;
};

/// Decides in the rounds of an acquisition which slot is the tenure's. It keeps the instances that
/// gave the slot which the second most have given, as these may become the most.
class slot_votes {
public:
    /// What the grant of this slot means for the tenure.
    template <class Rules>
    verdict judge(unsigned instance, unsigned given, permit_slot& ours) {
        if (!ours.named()) ours.name(given);
        if (given == ours.value() || !Rules::counts_by_slot()) return verdict::yes;
        if (given != rival_ && rivals_.size() > 1) return verdict::other;
        if (given != rival_) rivals_ = {};
        rival_ = given & (permit_slot::limit - 1);
        rivals_.insert(instance);
        return verdict::other;
    }
    /// If more have given the rival slot than ours: makes it ours, and returns the instances that
    /// have the former one.
    instance_set change(tally& votes, permit_slot& ours) {
        auto const before = votes.yes();
        if (ours.fixed() || rivals_.size() <= before.size()) return {};
        auto const slot = ours.value();
        ours.name(rival_);
        votes.exchange(rivals_);
        rival_ = slot & (permit_slot::limit - 1);
        rivals_ = before;
        return before;
    }
    /// True if there may be a second round, now or after further answers.
    static bool may_ask_again(tally const& votes, permit_slot const& ours) {
        return !ours.fixed() && !votes.other().empty() &&
               granted(votes) + votes.pending().size() >= votes.quorum();
    }
    /// How many instances have given our token a slot.
    static unsigned granted(tally const& votes) {
        return votes.yes().size() + votes.other().size();
    }
    /// Begins the second round. Returns the instances to be asked.
    static instance_set ask_again(tally& votes, permit_slot& ours) {
        ours.fix();
        return votes.ask_others();
    }

private:
    instance_set rivals_;
    std::uint16_t rival_ = 0;
};

} // namespace holdfast::protocol

#endif
