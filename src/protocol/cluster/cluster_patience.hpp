// How long a command waits within a Cluster for the node that can execute it. After that it is
// answered as not executed.
#ifndef HOLDFAST_PROTOCOL_CLUSTER_PATIENCE_HPP
#define HOLDFAST_PROTOCOL_CLUSTER_PATIENCE_HPP

#include "protocol/cluster/cluster_refusal.hpp"
#include "protocol/cluster/cluster_route.hpp"
#include "protocol/time.hpp"

#include <algorithm>
#include <cstdint>

namespace holdfast::protocol {

enum class cluster_obstacle : std::uint8_t {
    none,
    connecting, ///< there is no map yet, or no connection to the node yet, or the node is doubted
    no_owner,   ///< by the map, no node serves the slot
    down,       ///< the node is lost
    quarantine, ///< the node's grants do not count
    refused,    ///< a node refused the command: MOVED or ASK too often, or CLUSTERDOWN
    migrating,  ///< TRYAGAIN: the keys of the command are at two nodes
    target,     ///< ASK, and the node that the slot migrates to cannot be asked now
};

struct cluster_patience {
    duration instance_timeout{};
    /// The Cluster is the only instance. If there are others, they decide without this one.
    bool sole = false;

    /// When a command that has waited since `since` is answered. `lost`: when the node was lost.
    /// A fenced command has two keys, and cannot be executed while its slot migrates. So it waits
    /// longer, but no more than a third of its ttl: the lease is to be of use when it comes.
    time_point until(cluster_obstacle o, time_point since, time_point lost, duration ttl) const {
        switch (o) {
        case cluster_obstacle::none:
        case cluster_obstacle::quarantine:
            break;
        case cluster_obstacle::connecting:
            return since + instance_timeout;
        case cluster_obstacle::down:
            return sole ? std::min(since, lost) + instance_timeout : since;
        case cluster_obstacle::no_owner:
        case cluster_obstacle::refused:
        case cluster_obstacle::target:
            return sole ? since + instance_timeout : since;
        case cluster_obstacle::migrating:
            return sole ? since + std::max(instance_timeout, ttl / 3) : since;
        }
        return since;
    }

    /// The pause before a refused command is tried again, after it has waited for `waited`.
    static duration pause(duration waited, std::uint64_t random) {
        constexpr duration first = std::chrono::milliseconds(20);
        unsigned refusals = 0;
        while (refusals < 4 && waited >= first * (1U << refusals)) ++refusals;
        return cluster_pause(refusals, random);
    }
};

} // namespace holdfast::protocol

#endif
