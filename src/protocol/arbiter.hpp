// Where the contenders for a key meet first: the same instance for all of them, and another for
// each key.
//
// Rendezvous hashing (Thaler and Ravishankar, 1998): each pair of key and instance has a weight,
// and the largest wins. When an instance goes, only its own keys move, each to the next in its
// order.
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

/// The arbiter among `candidates`, of which there must be one. `key` and the results of `identity`
/// for an instance are hashes that all processes compute alike, in any order of the instances.
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
