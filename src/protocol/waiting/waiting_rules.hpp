// The decisions of a wait queue, apart from the machine that uses them.
#ifndef HOLDFAST_PROTOCOL_WAITING_RULES_HPP
#define HOLDFAST_PROTOCOL_WAITING_RULES_HPP

#include "protocol/backoff.hpp"
#include "protocol/rules.hpp"
#include "protocol/time.hpp"
#include "protocol/waiting/key_tracker.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace holdfast::protocol {

/// The decisions of waiting, as pure functions.
struct waiting_rules : tracking_rules {
    /// The pause between a wake-up and the try that follows it. The pause is random. Otherwise the
    /// client to which the server pushes first would always win. The more turns this process has
    /// missed since its own last turn, the shorter the pause, so that no process waits for ever.
    static constexpr duration wake_delay(duration round_trip, unsigned missed,
                                         std::uint64_t random) {
        return full_jitter(3 * round_trip / (1 + missed), max_wake_delay, 0, random);
    }
    /// The least time between two tries that follow pushes. A server pushes each change of a key,
    /// and another program may change it thousands of times a second. `missed`: so many of these
    /// tries in a row were in vain.
    static constexpr duration between_tries(unsigned missed) {
        return missed < 32 ? duration::zero() : std::chrono::milliseconds(2);
    }
    /// How long a process that has released the key stays away from it: until the push has reached
    /// the other processes (half a round trip), their pauses are over (three round trips or less),
    /// and the first of their tries has arrived.
    static constexpr duration stand_back(duration round_trip) {
        return std::min<duration>(5 * round_trip, 2 * max_wake_delay);
    }
    /// True if a process that has released the key is alone, and may try again at once. `silent`:
    /// how many times in a row the process stood back and listened, and no other process took the
    /// key. `since`: the time since the last of these times ended. The process does not hear of a
    /// new waiter until it stands back again, so `since` must be short.
    static constexpr bool is_alone(unsigned silent, duration since) {
        return silent >= 16 && since < std::chrono::milliseconds(5);
    }
    /// True if a tenure may serve another lease. It was won within `won_in`, and has served
    /// `leases` of `limit` within `age`; `longest` bounds its age. For another process to win the
    /// key takes about as long again. So the limit, unless it is 1, does not end a tenure that is
    /// younger than its own try took. Otherwise a key with short sections would be on its way most
    /// of the time.
    static constexpr bool may_hand_over(unsigned leases, unsigned limit, duration won_in,
                                        duration age, duration longest) {
        auto const young = limit > 1 && age < won_in;
        return (leases < limit || young) && age < longest;
    }
    /// True if the queue of a tenure that has served so many leases may be folded. A folded queue
    /// does not know that number, on which the fences and the end of hand-overs depend.
    static constexpr bool may_fold(unsigned leases) { return leases == 1; }
    /// True if the rest of a tenure is long enough for the waiter's lease: half of the waiter's ttl
    /// if the watchdog will extend the lease, otherwise nine tenths of a new lease.
    static constexpr bool suffices(duration left, duration ttl, bool renewed) {
        return renewed ? left >= ttl / 2 : left >= (ttl - redlock_rules::drift(ttl)) / 10 * 9;
    }
    /// How long a tenure of readers lets in further readers of its process. The next one asks the
    /// instances again: a writer of another process may wait, and waits for so long. `won_in`: what
    /// such a question costs.
    static constexpr duration share_time(duration won_in) {
        return std::clamp<duration>(5 * won_in, std::chrono::milliseconds(1),
                                    std::chrono::milliseconds(50));
    }
    /// How long readers that were refused come before the next writer, after a writer's release.
    /// As stand_back(): so long do their tries need.
    static constexpr duration readers_turn(duration round_trip) {
        return std::max<duration>(stand_back(round_trip), std::chrono::milliseconds(3));
    }
    /// How long a writer waits at the arbiter before it leaves its note at all instances: its last
    /// round there may have met another writer. Until then readers can pass it, as they can for as
    /// long in their own process.
    static constexpr duration spreads_note(duration round_trip) { return share_time(round_trip); }
    /// How often a writer that waits asks all instances again, so that its note stays everywhere.
    static constexpr duration renews_note(duration ttl) { return ttl / 3; }
    /// True if a waiter also wakes at the time at which the key expires. If no client deletes the
    /// key, servers push its expiry late.
    static constexpr bool wakes_at_expiry() { return true; }
    /// True if a try follows when the connection is lost through which the push would have come.
    static constexpr bool wakes_at_disconnect() { return true; }
    /// True if a process that has released the key leaves the next turn to the others.
    static constexpr bool stands_back() { return true; }
    /// True if the next waiter inherits the try of a waiter that has left.
    static constexpr bool inherits() { return true; }
    /// True if a deadline that is seen so late says nothing about the servers, because this process
    /// did not run at the deadline. A process that is always a little late must not hide slow
    /// servers. So a small delay is excused only if the last one was not (`again`).
    static constexpr bool excuses(duration late, duration ttl, bool again) {
        auto const stopped = std::max<duration>(ttl / 8, std::chrono::milliseconds(10));
        return late >= stopped || (late > std::chrono::milliseconds(2) && !again);
    }

    /// How long a token stays in the line of a fair key if its process does not ask again. So the
    /// line forgets processes that have died.
    static constexpr duration stays_in_line = std::chrono::seconds(3);
    /// How often the process asks again at least, while it stands in line.
    static constexpr duration renews_place = stays_in_line / 3;
    /// How long the arbiter keeps the key for the process whose turn has come. Without pushes the
    /// process finds that out at its next question.
    static constexpr duration reservation(duration longest_pause) {
        return std::chrono::milliseconds(100) + 2 * std::min(longest_pause, renews_place);
    }
    /// The longest pause after a try that split the votes, so many times in a row. Where an
    /// instance is silent, processes may stand in lines at two arbiters, and each line keeps its
    /// instance from the other as long as processes join it. So fewer and fewer do. `usual`: as
    /// configured.
    static constexpr duration longest_pause(duration usual, unsigned splits) {
        auto const grown = usual * (1U << std::min(splits / 4, 16U));
        return std::max(usual, std::min<duration>(grown, std::chrono::seconds(1)));
    }
    /// How often instances that refuse a reserved key are asked again. The release of the last
    /// holder may reach them later than the arbiter, and a newcomer may have asked for the key in
    /// between.
    static constexpr unsigned repeats = 3;
    static constexpr duration max_wake_delay = std::chrono::milliseconds(10);
    /// How long a queue waits at the arbiter before it asks all instances again, and the longest of
    /// the growing pauses between such tries. A holder that could not reach the arbiter has left
    /// its key there, although a majority may be free.
    static constexpr duration first_recheck = std::chrono::seconds(10);
    static constexpr duration longest_between_rechecks = std::chrono::seconds(30);
    /// If no push is available, one of so many tries asks all instances.
    static constexpr unsigned polls_between_rechecks = 4;
    /// The pauses between the tries of an acquire that waits for instances.
    static constexpr duration first_outage_pause = std::chrono::milliseconds(50);
    static constexpr duration longest_outage_pause = std::chrono::seconds(1);
    static constexpr duration first_backoff = std::chrono::milliseconds(2);
};

} // namespace holdfast::protocol

#endif
