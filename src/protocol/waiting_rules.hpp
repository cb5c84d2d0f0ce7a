// The decisions of waiting, apart from the machine that makes them.
#ifndef HOLDFAST_PROTOCOL_WAITING_RULES_HPP
#define HOLDFAST_PROTOCOL_WAITING_RULES_HPP

#include "protocol/backoff.hpp"
#include "protocol/key_watch.hpp"
#include "protocol/rules.hpp"
#include "protocol/time.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace holdfast::protocol {

/// The decisions of waiting, as pure functions.
struct waiting_rules : watching_rules {
    /// The pause between a wake-up and the try that follows it. It is random, so that it is not
    /// always the first client in the server's order that wins. It is the shorter, the more turns
    /// of others this process has missed since its own last turn, so that no process waits for
    /// ever.
    static constexpr duration wake_delay(duration round_trip, unsigned missed,
                                         std::uint64_t random) {
        return full_jitter(3 * round_trip / (1 + missed), max_wake_delay, 0, random);
    }
    /// How long a process that gave the key up stays away from it: until the push has reached the
    /// others (half a round trip), their pauses are over (three, or less), and the first of their
    /// tries has arrived.
    static constexpr duration stand_back(duration round_trip) {
        return std::min<duration>(5 * round_trip, 2 * max_wake_delay);
    }
    /// Whether a process that gave the key up may try again at once, as it is alone. `silent`: the
    /// times in a row that it stood back and listened, and no other process took the key; `since`:
    /// the time since the last of them ended. A new waiter is not seen until it stands back again,
    /// so that must not be long.
    static constexpr bool is_alone(unsigned silent, duration since) {
        return silent >= 16 && since < std::chrono::milliseconds(5);
    }
    /// Whether a tenure that has served so many leases for so long may serve another.
    static constexpr bool may_hand_over(unsigned leases, unsigned limit, duration age,
                                        duration longest) {
        return leases < limit && age < longest;
    }
    /// Whether the rest of a tenure is as long as a waiter's lease from the instances: nearly all
    /// of its ttl, or enough for the watchdog to see to that.
    static constexpr bool suffices(duration left, duration ttl, bool watched) {
        return watched ? left >= ttl / 2 : left >= (ttl - redlock_rules::drift(ttl)) / 10 * 9;
    }
    /// Whether a waiter trusts the clock beside the push: a key that no client deletes expires, and
    /// servers push that late.
    static constexpr bool wakes_at_expiry() { return true; }
    /// Whether a try follows when the connection that a push would have come through is lost.
    static constexpr bool wakes_at_disconnect() { return true; }
    /// Whether a process that gave the key up leaves the others their turn.
    static constexpr bool stands_back() { return true; }
    /// Whether a try goes on for the first waiter when the one that it was made for has left.
    static constexpr bool inherits() { return true; }
    /// Whether a deadline that is seen so late says nothing of the servers, as this process did not
    /// run when it came. A process that is late by little each time must not hide slow servers: it
    /// is excused once in a row.
    static constexpr bool excuses(duration late, duration ttl, bool again) {
        auto const stopped = std::max<duration>(ttl / 8, std::chrono::milliseconds(10));
        return late >= stopped || (late > std::chrono::milliseconds(2) && !again);
    }

    static constexpr duration max_wake_delay = std::chrono::milliseconds(10);
    /// When a waiter at the arbiter asks all instances again, and how the pauses between such
    /// tries grow: a holder that could not reach the arbiter has left its key there, and a majority
    /// is free all the same.
    static constexpr duration first_recheck = std::chrono::seconds(10);
    static constexpr duration longest_between_rechecks = std::chrono::seconds(30);
    /// Where no push is to be had, every so many tries ask all instances.
    static constexpr unsigned polls_between_rechecks = 4;
    static constexpr duration first_backoff = std::chrono::milliseconds(2);
};

} // namespace holdfast::protocol

#endif
