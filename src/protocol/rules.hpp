// The arithmetic of Redlock, as pure functions.
//
// Sources: https://redis.io/docs/latest/develop/use/patterns/distributed-locks/ (quorum, validity,
// release of every instance); the drift allowance of 1 % + 2 ms is the one that page's reference
// implementations share.
#ifndef HOLDFAST_PROTOCOL_RULES_HPP
#define HOLDFAST_PROTOCOL_RULES_HPP

#include "protocol/instance_set.hpp"
#include "protocol/time.hpp"

#include <algorithm>
#include <cstdint>

namespace holdfast::protocol {

struct redlock_rules {
    /// A majority of the configured instances. How many can be reached does not matter: two clients
    /// that reach different ones would each find a "majority".
    static constexpr unsigned quorum(unsigned configured, unsigned /*reachable*/) {
        return configured / 2 + 1;
    }

    /// How far the clocks of two machines may run apart during one lease.
    static constexpr duration drift(duration ttl) {
        return ttl / 100 + std::chrono::milliseconds(2);
    }

    /// Until when a round that was sent at `sent` and won at `won` is valid. Counted from before
    /// the first byte left: the earliest moment at which an instance can have started the key's
    /// time to live.
    static constexpr time_point deadline(time_point sent, time_point /*won*/, duration ttl) {
        return sent + ttl - drift(ttl);
    }

    /// Whether a round that reaches its quorum at `now` may still count.
    static constexpr bool in_time(time_point now, time_point deadline) { return now < deadline; }

    /// Whether a lease that ends at `end` may still be extended by a round that is decided at
    /// `now`. A later one might bring back a key that another client has been granted.
    static constexpr bool may_extend(time_point now, time_point end) { return now < end; }

    /// Where a key may exist after an acquire that failed, and is released: wherever one was asked
    /// for and not refused, answered or not.
    static constexpr instance_set owed_release(instance_set maybe_held, instance_set /*granted*/) {
        return maybe_held;
    }

    /// Whether an instance that no longer has our key may get it back. Only after a quorum of the
    /// others has extended: before that, another client may be the rightful owner.
    static constexpr bool may_heal(bool extension_won) { return extension_won; }

    /// Whether a quorum must hold a tenure's number, and not only have granted.
    static constexpr bool levels() { return true; }

    /// Whether a grant that comes while others are being raised, with a greater number than ours,
    /// makes ours as great. If it counted without, two tenures could have one number: it may have
    /// given ours to another tenure just before.
    static constexpr bool late_grant_lifts() { return true; }
};

/// How much before the deadline a holder is told of its loss, so that it has been told by the
/// deadline: also when ten thousand are to be told at one moment.
constexpr duration loss_margin(duration ttl) {
    return std::min<duration>(ttl / 20, std::chrono::milliseconds(50));
}

/// The watchdog's longest period.
constexpr duration renewal_period(duration ttl) {
    return ttl / 3;
}

/// A period up to a fifth shorter, from random bits: so leases that were taken together are not
/// renewed together for ever, as one great batch that fills buffers and keeps the servers from
/// others.
constexpr duration spread_renewal_period(duration ttl, std::uint64_t random) {
    auto const period = renewal_period(ttl);
    return period - duration(static_cast<duration::rep>(
                        random % static_cast<std::uint64_t>(period.count() / 5 + 1)));
}

/// When a lease that was last extended at `sent` is renewed: at the latest one period on, but
/// together with all others of its ttl that are due within the same thousandth of it.
constexpr time_point renewal_time(time_point sent, duration period, duration ttl) {
    auto const due = sent + period;
    return due - due.time_since_epoch() % (ttl / 1024);
}

/// The pause after a renewal that failed: a tenth of the ttl, so that several tries fit in before
/// the deadline.
constexpr duration renewal_retry(duration ttl) {
    return std::clamp<duration>(ttl / 10, std::chrono::milliseconds(1), std::chrono::seconds(1));
}

} // namespace holdfast::protocol

#endif
