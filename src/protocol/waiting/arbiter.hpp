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

} // namespace holdfast::protocol

#endif
