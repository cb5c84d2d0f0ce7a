// Counts the votes of one round.
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
        case verdict::unsent:
        case verdict::unknown:
        case verdict::refused:
        case verdict::other:
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
        pending_ = pending_ | no_;
        return std::exchange(no_, {});
    }

    bool won() const { return yes_.size() >= quorum_; }
    /// True if the missing answers can no longer make a quorum of yes.
    bool impossible() const { return yes_.size() + pending_.size() < quorum_; }
    /// True if so many instances failed that the others are no quorum.
    bool too_few_answered() const { return impossible_without(failed().size()); }
    /// True if so many instances are missing that the others are no quorum.
    bool impossible_without(unsigned some) const { return some + quorum_ > configured_; }
    /// True if the votes for and against are together a quorum.
    bool has_verdict() const { return yes_.size() + no_.size() >= quorum_; }
    /// True if so many instances said no that the others are no quorum.
    bool denied() const { return configured_ - no_.size() < quorum_; }

    instance_set yes() const { return yes_; }
    instance_set no() const { return no_; }
    /// The instances that can no longer vote.
    instance_set failed() const {
        return instance_set::first(configured_) - (pending_ | yes_ | no_);
    }
    instance_set pending() const { return pending_; }
    unsigned quorum() const { return quorum_; }

private:
    instance_set pending_, yes_, no_;
    std::uint8_t configured_ = 0;
    std::uint8_t quorum_ = 0;
};

} // namespace holdfast::protocol

#endif
