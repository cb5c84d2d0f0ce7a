// The arithmetic of Redlock, as pure functions.
//
// Source: https://redis.io/docs/latest/develop/use/patterns/distributed-locks/ (quorum, validity,
// release of every instance). The reference implementations on that page share the drift allowance
// of 1 % + 2 ms.
#ifndef HOLDFAST_PROTOCOL_RULES_HPP
#define HOLDFAST_PROTOCOL_RULES_HPP

#include "protocol/instance_set.hpp"
#include "protocol/time.hpp"

#include <algorithm>
#include <cstdint>

namespace holdfast::protocol {

struct redlock_rules {
    /// A majority of the configured instances, not of the reachable ones. Otherwise two clients
    /// that reach different instances could each find a majority.
    static constexpr unsigned quorum(unsigned configured, unsigned /*reachable*/) {
        return configured / 2 + 1;
    }

    /// How far the clocks of two machines may run apart during one lease.
    static constexpr duration drift(duration ttl) {
        return ttl / 100 + std::chrono::milliseconds(2);
    }

    /// The time until which a round is valid that was sent at `sent` and won at `won`. It counts
    /// from before the first byte left. That is the earliest moment at which an instance can have
    /// started the key's time to live.
    static constexpr time_point deadline(time_point sent, time_point /*won*/, duration ttl) {
        return sent + ttl - drift(ttl);
    }

    /// True if a round that reaches its quorum at `now` may still count.
    static constexpr bool in_time(time_point now, time_point deadline) { return now < deadline; }

    /// True if a lease that ends at `end` may still be extended by a round that is decided at
    /// `now`. A later round might bring back a key that another client has been granted.
    static constexpr bool may_extend(time_point now, time_point end) { return now < end; }

    /// The instances at which a failed acquire is released: all that were asked and did not refuse,
    /// answered or not.
    static constexpr instance_set to_release(instance_set maybe_held, instance_set /*granted*/) {
        return maybe_held;
    }

    /// True if an instance that no longer has our key may get it back. A quorum of the others must
    /// have extended first. Before that, another client may be the rightful owner.
    static constexpr bool may_heal(bool extension_won) { return extension_won; }

    /// True if a permit is won only when a quorum has given its token the same slot.
    static constexpr bool counts_by_slot() { return true; }

    /// True if a tenure is won only when a quorum holds its number. A quorum of grants is then not
    /// enough.
    static constexpr bool levels() { return true; }

    /// True if a grant during a raise, with a greater number than ours, makes our number as great.
    /// Otherwise two tenures could have one number: the instance may have given our number to
    /// another tenure just before.
    static constexpr bool late_grant_lifts() { return true; }
};

/// How long before the deadline a holder hears of a loss. So every holder has heard of it by the
/// deadline, even if ten thousand leases end at one moment.
constexpr duration loss_margin(duration ttl) {
    return std::min<duration>(ttl / 20, std::chrono::milliseconds(50));
}

/// The watchdog's longest period.
constexpr duration renewal_period(duration ttl) {
    return ttl / 3;
}

/// A period that is up to a fifth shorter, from random bits. So leases that were taken together are
/// not renewed together for ever, in one great batch that fills buffers and keeps the servers busy.
constexpr duration spread_renewal_period(duration ttl, std::uint64_t random) {
    auto const period = renewal_period(ttl);
    return period - duration(static_cast<duration::rep>(
                        random % static_cast<std::uint64_t>(period.count() / 5 + 1)));
}

/// When a lease that was last extended at `sent` is renewed: at most one period later. The time is
/// rounded down to a multiple of ttl / 1024, so that leases which are due within that time are
/// renewed together.
constexpr time_point renewal_time(time_point sent, duration period, duration ttl) {
    auto const due = sent + period;
    return due - due.time_since_epoch() % (ttl / 1024);
}

/// The pause after a failed renewal: a tenth of the ttl, from 1 ms to 1 s. So several tries fit in
/// before the deadline.
constexpr duration renewal_retry(duration ttl) {
    return std::clamp<duration>(ttl / 10, std::chrono::milliseconds(1), std::chrono::seconds(1));
}

} // namespace holdfast::protocol

#endif
