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
    /// It could not be asked.
    void failed(unsigned arbiter) { failed_.insert(arbiter); }
    unsigned failures() const { return failed_.size(); }

    /// The arbiter granted, and these refused. A holder without the arbiter is met at the instances
    /// that it has. Else all waiters would take the arbiter in turn, in vain, and wake each other
    /// by giving it back. False: that is no news.
    bool refused_by(instance_set refusing) {
        auto const news = refusing_.empty() && !refusing.empty();
        refusing_ = news ? refusing : instance_set();
        failed_ = failed_ - refusing_; // they have answered
        return news;
    }
    void reset() { failed_ = refusing_ = {}; }

private:
    instance_set failed_, refusing_;
};

} // namespace holdfast::protocol

#endif
