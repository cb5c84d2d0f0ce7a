// Counts the votes of one round.
//
// An instance of a semaphore may have given another slot than the one that is counted
// (permit_slot.hpp). It has voted, but neither for the tenure nor against it.
#ifndef HOLDFAST_PROTOCOL_TALLY_HPP
#define HOLDFAST_PROTOCOL_TALLY_HPP

#include "protocol/instance_set.hpp"
#include "protocol/messages.hpp"

#include <cstdint>
#include <utility>

namespace holdfast::protocol {

class tally {
public:
    tally() = default;

    /// A round among `configured` instances of which only `asked` can answer: the others count as
    /// failed.
    tally(unsigned configured, unsigned quorum, instance_set asked)
        : pending_(asked)
        , configured_(static_cast<std::uint8_t>(configured))
        , quorum_(static_cast<std::uint8_t>(quorum)) {}

    /// Counts an instance's answer. False if it was not asked, or has answered already.
    bool count(unsigned instance, verdict v) {
        if (!pending_.contains(instance)) return false;
        pending_.erase(instance);
        switch (v) {
        case verdict::yes:
            yes_.insert(instance);
            break;
        case verdict::no:
            no_.insert(instance);
            break;
        case verdict::other:
            yes_.insert(instance);
            no_.insert(instance);
            break;
        case verdict::unsent:
        case verdict::unknown:
        case verdict::refused:
        case verdict::rival:
            break; // failed() has it
        }
        return true;
    }

    /// Replaces the yes of an instance by another verdict.
    void retract(unsigned instance, verdict v) {
        yes_.erase(instance);
        pending_.insert(instance);
        count(instance, v);
    }

    /// The instances that said no are to be asked again. Returns these.
    instance_set ask_again() {
        auto const again = no();
        no_ = other();
        pending_ = pending_ | again;
        return again;
    }
    /// The same for those that have another slot.
    instance_set ask_others() {
        auto const again = other();
        yes_ = yes_ - again;
        no_ = no_ - again;
        pending_ = pending_ | again;
        return again;
    }
    /// From now on the slot of these is counted. Those that said yes have another one.
    void exchange(instance_set others) {
        no_ = (no_ | yes()) - others;
        yes_ = yes_ | others;
    }

    bool won() const { return yes().size() >= quorum_; }
    /// True if the missing answers can no longer make a quorum of yes.
    bool impossible() const { return yes().size() + pending_.size() < quorum_; }
    /// True if so many instances failed that the others are no quorum.
    bool too_few_answered() const { return impossible_without(failed().size()); }
    /// True if so many instances are missing that the others are no quorum.
    bool impossible_without(unsigned some) const { return some + quorum_ > configured_; }
    /// True if the votes for and against are together a quorum.
    bool has_verdict() const { return (yes_ | no_).size() >= quorum_; }
    /// True if so many instances have not what we have that the others are no quorum.
    bool denied() const { return configured_ - lacking().size() < quorum_; }

    instance_set yes() const { return yes_ - no_; }
    instance_set no() const { return no_ - yes_; }
    /// The instances that have given our token another slot.
    instance_set other() const { return yes_ & no_; }
    /// The instances that do not have what the tenure has.
    instance_set lacking() const { return no_; }
    /// The instances that can no longer vote.
    instance_set failed() const {
        return instance_set::first(configured_) - (pending_ | yes_ | no_);
    }
    instance_set pending() const { return pending_; }
    unsigned quorum() const { return quorum_; }
    unsigned configured() const { return configured_; }

private:
    instance_set pending_;
    instance_set yes_, no_; ///< in both: it has another slot
    std::uint8_t configured_ = 0;
    std::uint8_t quorum_ = 0;
};

template <class Rules>
tally new_tally(unsigned configured, instance_set reachable, instance_set asked) {
    return tally(configured, Rules::quorum(configured, reachable.size()), asked);
}

} // namespace holdfast::protocol

#endif
