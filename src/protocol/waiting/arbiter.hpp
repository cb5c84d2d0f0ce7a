// The arbiter of a key: the instance that all contenders for the key ask first. The arbiters of
// different keys are spread over the instances.
//
// Rendezvous hashing (Thaler and Ravishankar, 1998): each pair of key and instance has a weight,
// and the instance with the largest weight is the arbiter. If an instance fails, only its own keys
// move, each to the instance with the next largest weight.
#ifndef HOLDFAST_PROTOCOL_ARBITER_HPP
#define HOLDFAST_PROTOCOL_ARBITER_HPP

#include "protocol/instance_set.hpp"

#include <cstdint>

namespace holdfast::protocol {

/// Spreads the bits of `x` evenly: the finalizer of SplitMix64,
/// https://prng.di.unimi.it/splitmix64.c
constexpr std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

/// The arbiter among `candidates`, which must not be empty. `key` is a hash of the key, and
/// `identity(i)` is a hash of instance `i`. All processes compute the same hashes, in whatever
/// order they list the instances.
template <class Identity>
constexpr unsigned arbiter(std::uint64_t key, instance_set candidates, Identity&& identity) {
    unsigned best = 0;
    std::uint64_t most = 0;
    auto first = true;
    candidates.for_each([&](unsigned i) {
        auto const weight = mixed(mixed(identity(i)) ^ key);
        if (!first && weight <= most) return;
        first = false;
        best = i;
        most = weight;
    });
    return best;
}

/// The instances among which a queue chooses the arbiter of its next try.
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
