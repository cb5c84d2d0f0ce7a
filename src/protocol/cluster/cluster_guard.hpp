// Guards of a Cluster's nodes, as pure decisions. Each node has its own.
//
// A slot reaches another primary in two ways. In a migration its keys come along. In a fail-over
// a replica is promoted, which may lack the last writes of the old primary. And the old primary may
// execute commands for a moment after that, from the bytes in its sockets.
#ifndef HOLDFAST_PROTOCOL_CLUSTER_GUARD_HPP
#define HOLDFAST_PROTOCOL_CLUSTER_GUARD_HPP

#include "protocol/quarantine.hpp"
#include "protocol/rules.hpp"
#include "protocol/time.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

namespace holdfast::protocol {

/// The state of a primary that distinguishes a promotion from a migration.
struct node_origin {
    std::uint64_t run = 0; ///< identifies the server process
    /// The replication id. A server takes a new one when it stops being a replica.
    std::uint64_t history = 0;
    bool promoted = false; ///< second_repl_offset is not negative: it was a replica
    bool replica = false;  ///< now
};

enum class ownership : std::uint8_t {
    known,    ///< a primary that kept its data, or that got slots in a migration
    promoted, ///< it was a replica, and may lack writes
    restarted ///< a new process, which may have lost its data
};

/// The right rules. Tests break them one at a time.
struct cluster_guard_rules {
    static constexpr bool doubts_promotions() { return true; }
    /// A new owner that was never promoted got its slots in a migration.
    static constexpr bool trusts_migrations() { return true; }
    /// The longest silence after which a grant counts.
    static constexpr duration longest_silence(duration node_timeout) { return node_timeout / 2; }
    /// How long an old primary that is cut off from its Cluster may serve after the promotion.
    static constexpr duration serves_on(duration node_timeout) { return node_timeout / 2; }
    /// True if a quarantine goes along with a slot.
    static constexpr bool inherits() { return true; }
    /// True if a clock that was certainly this far ahead begins a quarantine.
    static constexpr bool too_far_ahead(duration ahead) { return ahead > duration::zero(); }
};

/// Tells whether a node that serves slots may lack grants. The old primary of a slot may have
/// become a replica by itself after its last slot left. So the fate of the old primary proves
/// nothing, and only the new owner is asked.
template <class Rules = cluster_guard_rules>
class basic_ownership_guard {
public:
    /// `strict`: a promotion before the first map counts too.
    explicit basic_ownership_guard(bool strict)
        : strict_(strict) {}

    /// The map names the node as the owner of slots, and the node has reported its origin. `first`:
    /// this is the first map of the client.
    ownership serves(node_origin const& now, bool first) {
        // The client was there before the promotion, so `first` is no excuse.
        if (std::exchange(was_replica_, false) && Rules::doubts_promotions()) {
            known_ = true;
            last_ = now;
            return ownership::promoted;
        }
        auto const before = std::exchange(last_, now);
        auto const known = std::exchange(known_, true);
        if (known && before.run != now.run) return ownership::restarted;
        // A primary that lost its slots and got some again has the same history, unless it was a
        // replica in between.
        auto const was_primary = known && before.history == now.history;
        if (was_primary) return ownership::known;
        auto const may_lack = now.promoted || !Rules::trusts_migrations();
        if (!may_lack || !Rules::doubts_promotions()) return ownership::known;
        return first && !strict_ ? ownership::known : ownership::promoted;
    }

    /// The node owns no slot yet, or is a replica.
    void observed(node_origin const& now) {
        if (now.replica) {
            was_replica_ = true;
            return;
        }
        known_ = true;
        last_ = now;
    }

private:
    bool strict_;
    bool known_ = false;
    bool was_replica_ = false; ///< and has not served since
    node_origin last_;
};

/// How long the grants of a node that may lack others do not count: the longest lease, and the time
/// in which the old primary may still grant.
constexpr duration node_quarantine(duration max_ttl, duration node_timeout) {
    return max_ttl + node_timeout;
}

/// A primary that is cut off from its Cluster serves until it notices. It pings each other primary
/// at least every half of the node timeout, and waits for an answer for the whole of it. The others
/// promote its replica after the node timeout and half a second. In the time in which both serve, a
/// key can expire at the old primary, and be granted there, while its lease is extended at the
/// promoted one. So such an extension does not count.
template <class Rules = cluster_guard_rules>
class basic_succession_guard {
public:
    /// The client has learnt at `seen` that the node was promoted.
    void promoted(time_point seen, duration node_timeout) {
        if (!ceded_) until_ = seen + Rules::serves_on(node_timeout);
    }
    /// The old primary has said itself that it serves no more.
    void ceded() {
        ceded_ = true;
        until_ = {};
    }
    /// The node has no slots any more.
    void retired() { ceded_ = false; }
    /// True if an extension that was sent at this time counts.
    bool counts_extensions(time_point sent) const { return sent >= until_; }

private:
    time_point until_{};
    bool ceded_ = false;
};

/// A slot has moved from a node in quarantine until `until`. The keys that the old owner lacks did
/// not come along, so the new owner lacks them, too. Returns for how long it is in quarantine: as
/// long as the old owner, and `longest` at most. Zero: it is in none.
template <class Rules = cluster_guard_rules>
constexpr duration inherited_quarantine(time_point until, time_point now, duration longest) {
    return Rules::inherits() && until > now ? std::min(until - now, longest) : duration::zero();
}

/// A primary that was frozen or cut off may have been replaced. When it goes on, it executes the
/// commands in its sockets before it hears of that. So a grant counts only if the node was not
/// silent for long before it.
template <class Rules = cluster_guard_rules>
class basic_silence_guard {
public:
    explicit basic_silence_guard(duration node_timeout)
        : longest_(Rules::longest_silence(node_timeout)) {}

    /// The node's setting was read.
    void set_node_timeout(duration node_timeout) {
        longest_ = Rules::longest_silence(node_timeout);
    }

    /// A new connection. Its first answer shows nothing about the time before, so it begins a
    /// doubt.
    void connected() { heard_ = false; }

    /// The node has answered a command that was sent at `sent`; the answer was read at `received`.
    /// True if the answer counts, if it is a grant. If not, the grant must be given back.
    bool answered(time_point sent, time_point received) {
        auto const silent = !heard_ || received - last_sent_ >= longest_;
        if (silent) {
            doubted_ = true;
            doubted_since_ = received;
        }
        // Answers come in the order of the commands.
        heard_ = true;
        last_sent_ = sent;
        return !doubted_;
    }

    /// Another node, asked at `asked`, has a map that names this node. Then no other had replaced
    /// it when it was asked. So its silence counts from then.
    void named_by_another(time_point asked) {
        if (asked < doubted_since_) return;
        doubted_ = false;
        last_sent_ = std::max(last_sent_, asked);
    }

    /// True if grants do not count until another node names this one.
    bool doubted() const { return doubted_; }
    /// True if the answer to a command that is sent now might begin a doubt.
    bool stale(time_point now) const { return !heard_ || now - last_sent_ >= longest_ * 3 / 4; }

    /// When an idle connection must ask again, so that the next grant counts.
    std::optional<time_point> ask_again_by() const {
        if (!heard_) return std::nullopt;
        return last_sent_ + longest_ / 2;
    }

private:
    duration longest_;
    bool heard_ = false;     ///< on this connection
    time_point last_sent_{}; ///< of the last command that was answered
    bool doubted_ = false;
    time_point doubted_since_{};
};

/// The offset of a node's wall clock against ours, from one answer to TIME.
struct clock_offset {
    duration least{}, most{};
    time_point asked{}, answered{};

    /// `shown`: the node's wall clock, from any epoch.
    static clock_offset from(time_point sent, time_point received, duration shown) {
        return {.least = shown - received.time_since_epoch(),
                .most = shown - sent.time_since_epoch(),
                .asked = sent,
                .answered = received};
    }
};

/// How far the clock of a slot's new owner is certainly ahead of the clock of the old owner, beyond
/// drift since the two answers. Expiry crosses a fail-over as wall time. So a clock that is ahead
/// ends leases before their holders know. `longest`: the longest ttl; no key is older.
inline duration certainly_ahead(clock_offset const& now, clock_offset const& before,
                                duration longest) {
    auto const apart = now.answered - std::min(before.asked, now.answered);
    auto const drift = redlock_rules::drift(std::min<duration>(apart, longest));
    return std::max(now.least - before.most - drift, duration::zero());
}

/// A change of owner begins a quarantine of the new one for the longest ttl if this is true.
template <class Rules = cluster_guard_rules>
bool ends_leases_early(clock_offset const& now, clock_offset const& before, duration longest) {
    return Rules::too_far_ahead(certainly_ahead(now, before, longest));
}

/// The difference of two primaries' clocks, above which operators get a warning.
inline constexpr duration clock_warning = std::chrono::milliseconds(100);

using ownership_guard = basic_ownership_guard<>;
using silence_guard = basic_silence_guard<>;
using succession_guard = basic_succession_guard<>;

} // namespace holdfast::protocol

#endif
