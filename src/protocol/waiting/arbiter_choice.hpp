// The instances among which a queue chooses the arbiter of its next try.
#ifndef HOLDFAST_PROTOCOL_ARBITER_CHOICE_HPP
#define HOLDFAST_PROTOCOL_ARBITER_CHOICE_HPP

#include "protocol/instance_set.hpp"

namespace holdfast::protocol {

class arbiter_choice {
public:
    instance_set candidates(instance_set reachable) const {
        auto const fit = reachable - failed_;
        return (fit & refusing_).empty() ? fit : fit & refusing_;
    }
    /// The arbiter of the last try could not be asked, or did not answer in time.
    void failed(unsigned arbiter) { failed_.insert(arbiter); }
    unsigned failures() const { return failed_.size(); }

    /// The arbiter granted, but the instances `refusing` refused: the holder has the key there, and
    /// not at the arbiter. So the next arbiter is one of these instances. Otherwise all waiters
    /// would win the old arbiter in turn, in vain, and wake each other by releasing it. False if
    /// the queue already chose among refusing instances, or if no instance refused.
    bool refused_by(instance_set refusing) {
        auto const news = refusing_.empty() && !refusing.empty();
        refusing_ = news ? refusing : instance_set();
        failed_ = failed_ - refusing_; // these instances have answered
        return news;
    }
    void reset() { failed_ = refusing_ = {}; }

private:
    instance_set failed_, refusing_;
};

} // namespace holdfast::protocol

#endif
