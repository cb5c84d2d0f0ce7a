// Decides the next step of a command that a node of a Cluster refused, and the node that a release
// goes to.
//
// A key migrates with its slot, so two nodes may execute a grant and its release in any order. Two
// rules keep a release behind its grant:
//   - once the release of a key was submitted, its grant is not sent again;
//   - the release goes to the node that got the last copy of the grant, over the same connection,
//     even if the map has changed since.
// Without the second rule, the release went to the new owner first, which had no key. The grant was
// redirected there after it, and the key stayed for its ttl.
#ifndef HOLDFAST_PROTOCOL_CLUSTER_ROUTE_HPP
#define HOLDFAST_PROTOCOL_CLUSTER_ROUTE_HPP

#include "protocol/cluster/cluster_refusal.hpp"
#include "protocol/messages.hpp"
#include "protocol/time.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace holdfast::protocol {

/// The right rules. Tests break them one at a time.
struct cluster_rules {
    static constexpr unsigned most_hops = 3;
    /// True if a grant may be sent again after a redirect. `wanted`: no release was submitted.
    static constexpr bool may_resend_grant(bool wanted) { return wanted; }
    /// True if a release goes to the node that got the last copy of its grant; else it goes to the
    /// owner of the slot.
    static constexpr bool release_follows_grant() { return true; }
};

/// The next step after a refusal.
struct cluster_step {
    enum class kind : std::uint8_t {
        resend,        ///< send the command to the node that the refusal names
        resend_asking, ///< the same, with ASKING before it on the same connection
        /// Answer that the command was not executed: no vote, and nothing to release. A waiter may
        /// try again after a pause.
        not_executed,
        keep, ///< a release: keep it for the slot until the owner of the slot can execute it
    };

    kind type{};
    bool set_owner = false;   ///< the refusal names the new owner of the slot
    bool refresh_map = false; ///< ask for the map, in the background

    friend bool operator==(cluster_step const&, cluster_step const&) = default;
};

constexpr bool is_grant(command c) {
    return c == command::acquire || c == command::contend || c == command::heal;
}

/// One command on its way through a Cluster.
template <class Rules = cluster_rules>
class basic_cluster_hops {
public:
    /// `followed`: the redirects that the command has followed already.
    explicit basic_cluster_hops(unsigned followed = 0)
        : hops_(static_cast<std::uint8_t>(followed)) {}

    /// `wanted`: the round of the command is open, and for a grant: no release was submitted.
    /// `to_itself`: the refusal names the node that sent it.
    cluster_step refused(cluster_refusal const& by, command c, bool wanted, bool to_itself) {
        using kind = cluster_refusal::kind;
        auto const moved = by.type == kind::moved && !to_itself;
        // A map that is older than the refusal must not be kept. TRYAGAIN and ASK are part of a
        // migration, in which the owner stays.
        auto const stale =
            by.type == kind::moved || by.type == kind::cluster_down || by.type == kind::malformed;
        auto const end =
            c == command::release ? cluster_step::kind::keep : cluster_step::kind::not_executed;
        cluster_step step{.type = end, .set_owner = moved, .refresh_map = stale};
        auto const may_resend = is_grant(c) ? Rules::may_resend_grant(wanted) : wanted;
        if (!by.redirects() || to_itself || !may_resend || hops_ == Rules::most_hops) return step;
        ++hops_;
        step.type =
            by.type == kind::ask ? cluster_step::kind::resend_asking : cluster_step::kind::resend;
        return step;
    }

    unsigned hops() const { return hops_; }

private:
    std::uint8_t hops_ = 0;
};

/// The copies of one tenure's grant. `node` is any number that identifies a node.
template <class Rules = cluster_rules>
class basic_grant_route {
public:
    using node = std::uint16_t;
    static constexpr node none = 0xFFFF;

    /// A copy of the grant was sent to this node.
    void grant_sent(node to) { last_copy_ = to; }
    /// The release is submitted. Returns the node that it goes to. `owner`: the owner of the slot
    /// by the present map.
    node release(node owner) const {
        return Rules::release_follows_grant() && last_copy_ != none ? last_copy_ : owner;
    }

private:
    node last_copy_ = none;
};

using cluster_hops = basic_cluster_hops<>;
using grant_route = basic_grant_route<>;

/// The pause of a waiter after the refusal that follows `refusals` others in a row. From 64 random
/// bits, uniform between 20 ms and min(20 ms * 2^refusals, 200 ms).
constexpr duration cluster_pause(unsigned refusals, std::uint64_t random) {
    constexpr duration least = std::chrono::milliseconds(20), most = std::chrono::milliseconds(200);
    auto longest = least;
    for (; refusals > 0 && longest < most; --refusals) longest *= 2;
    auto const span = static_cast<std::uint64_t>((std::min(longest, most) - least).count()) + 1;
    return least + duration(static_cast<duration::rep>(random % span));
}

} // namespace holdfast::protocol

#endif
