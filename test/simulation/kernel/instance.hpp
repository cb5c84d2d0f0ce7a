// A simulated server, with the key of the one lock that a simulator uses.
//
// It carries out the commands as src/redis/scripts.hpp says: SET NX PX, delete and extend by
// comparison, and the counts of fences. The simulator chooses the clock by which a key expires.
#ifndef HOLDFAST_TEST_SIMULATION_KERNEL_INSTANCE_HPP
#define HOLDFAST_TEST_SIMULATION_KERNEL_INSTANCE_HPP

#include "protocol/messages.hpp"
#include "protocol/tenure/fence.hpp"

#include "simulation/kernel/timeline.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <utility>

namespace holdfast::test {

inline constexpr int nobody = -1;
inline constexpr int stranger = -2; ///< holds the key without a ttl
inline constexpr int revoked = -3;  ///< a tombstone: content::token is the tenure that had the key

struct content {
    int holder = nobody; ///< the tenure that owns the key
    true_time expires = 0;
    std::uint64_t counter = 0; ///< of fences; 0: no counter
    // In a fair contest:
    int token = nobody;    ///< of the holder; a token serves one tenure that sets keys
    bool reserved = false; ///< for the process of `holder`, and not its vote

    bool is_of(unsigned tenure) const { return holder == static_cast<int>(tenure); }
    bool is_expired(true_time clock) const {
        return (holder >= 0 || holder == revoked) && clock >= expires;
    }
    /// True if the key belongs to `tenure` and has not expired.
    bool keeps(unsigned tenure, true_time clock) const { return is_of(tenure) && clock < expires; }
};

/// The answer to a command. `changed`: the command has changed the key.
struct outcome {
    protocol::verdict said = protocol::verdict::refused;
    bool changed = false;
};

/// `expires`: the time at which a key that is set now expires.
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
    case command::raise: // a raise leaves the key as it is
        return {ours ? verdict::yes : verdict::no};
    case command::inspect:
    case command::track:
    case command::survey:
    case command::revoke:
    case command::scan:
        break;
    }
    return {};
}

/// The number that a fenced acquire gets.
struct numbering {
    enum {
        exhausted,
        hinted,
        hint_ignored, ///< the hint is far ahead of the server's clock
        hint_behind,
    } how;
    std::uint64_t number = 0;
};

/// `seconds`: the time of the server's clock. `step` is 1; 0 breaks the rule.
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
    std::int64_t ppm = 0; ///< the rate error of its clock
    true_time frozen_until = 0, down_until = 0;
    content has;
    std::set<unsigned> listeners; ///< the clients that get a push when the key changes

    /// True if the key has just expired.
    bool expire(true_time clock) {
        if (!has.is_expired(clock)) return false;
        has.holder = nobody;
        return true;
    }
};

} // namespace holdfast::test

#endif
