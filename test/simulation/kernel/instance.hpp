// A simulated server, and the key of the one lock that a simulator is about.
//
// It carries out the commands as src/redis/scripts.hpp says: SET NX PX; to delete and to extend
// by comparison; to count fences. The simulator decides by which clock a key expires.
#ifndef HOLDFAST_TEST_SIMULATION_KERNEL_INSTANCE_HPP
#define HOLDFAST_TEST_SIMULATION_KERNEL_INSTANCE_HPP

#include "protocol/fence.hpp"
#include "protocol/messages.hpp"

#include "simulation/kernel/timeline.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <utility>

namespace holdfast::test {

inline constexpr int nobody = -1;
inline constexpr int stranger = -2; ///< has taken the key without a ttl

struct content {
    int holder = nobody; ///< the tenure that owns the key
    true_time expires = 0;
    std::uint64_t counter = 0; ///< of fences; 0: none

    bool is_of(unsigned tenure) const { return holder == static_cast<int>(tenure); }
    bool is_expired(true_time clock) const { return holder >= 0 && clock >= expires; }
    /// The key of `tenure` is there, and has time to live.
    bool keeps(unsigned tenure, true_time clock) const { return is_of(tenure) && clock < expires; }
};

/// The answer to a command, and whether it has changed the key.
struct outcome {
    protocol::verdict said = protocol::verdict::refused;
    bool changed = false;
};

/// `expires`: of a key that is set now.
inline outcome carry_out(content& has, protocol::command op, unsigned tenure, true_time expires) {
    using protocol::command;
    using protocol::verdict;
    auto const ours = has.is_of(tenure);
    switch (op) {
    case command::acquire:
    case command::contend:
    case command::heal:
        if (has.holder != nobody) return {verdict::no};
        has.holder = static_cast<int>(tenure);
        has.expires = expires;
        return {verdict::yes, true};
    case command::extend:
        if (!ours) return {verdict::no};
        has.expires = expires;
        return {verdict::yes, true};
    case command::release:
        if (!ours) return {verdict::no};
        has.holder = nobody;
        return {verdict::yes, true};
    case command::raise: // the key stays as it is
        return {ours ? verdict::yes : verdict::no};
    case command::inspect:
    case command::watch:
        break;
    }
    return {};
}

/// The number of an acquire with a fence.
struct numbering {
    enum {
        exhausted,
        hinted,
        hint_ignored, ///< it is far ahead of the server's clock
        hint_behind,
    } how;
    std::uint64_t number = 0;
};

/// `seconds`: the server's clock. `step` is 1, or 0 to break the rule.
inline numbering next_number(std::uint64_t counter, std::uint64_t hint, double seconds,
                             unsigned step = 1) {
    if (counter >= protocol::fence_limit - 1) return {numbering::exhausted};
    auto const least = std::max<std::uint64_t>(counter + step, 1);
    if (hint <= counter + step) return {numbering::hint_behind, least};
    auto const near = hint < counter + step + 600'000;
    if (near || static_cast<double>(hint) <= (std::floor(seconds) + 61) * 10'000)
        return {numbering::hinted, hint};
    return {numbering::hint_ignored, least};
}

struct instance {
    std::int64_t ppm = 0; ///< of its clock
    true_time frozen_until = 0, down_until = 0;
    content has;
    std::set<unsigned> listeners; ///< the clients that it is to tell of a change

    /// Whether the key has just expired.
    bool expire(true_time clock) {
        if (!has.is_expired(clock)) return false;
        has.holder = nobody;
        return true;
    }
};

} // namespace holdfast::test

#endif
