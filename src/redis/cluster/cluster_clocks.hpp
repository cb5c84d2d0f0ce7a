// Tells a standstill of our own clock from jumps of the clocks of a Cluster's nodes, as
// protocol/server/standstill.hpp does for instances. Without it, a pause of this machine would
// begin a quarantine of all nodes.
#ifndef HOLDFAST_REDIS_CLUSTER_CLOCKS_HPP
#define HOLDFAST_REDIS_CLUSTER_CLOCKS_HPP

#include "protocol/instance_set.hpp"
#include "protocol/server/standstill.hpp"
#include "redis/cluster/node_table.hpp"
#include "redis/server/instance.hpp"

#include <chrono>

namespace holdfast::redis {

/// The owner hears of one clock, since it would take one standstill of several nodes for several.
/// It also hears of a standstill that other nodes have shown: the one will not show it any more.
class cluster_clocks {
public:
    cluster_clocks(std::chrono::milliseconds max_ttl, instance_owner& owner, unsigned number)
        : standstill_(1, max_ttl)
        , owner_(owner)
        , number_(number) {}

    /// A node has reported its time. Excuses the jumps that our own clock explains.
    void observed(node_table const&, cluster_node const&, protocol::clock_reading const&);
    /// Our own clock explains the jump that the owner has heard of. A jump of another node before
    /// that stays one.
    void excuse_reported(node_table const&);

private:
    /// The first of them are enough for a result.
    static constexpr unsigned most = protocol::instance_set::capacity;

    void notify(node_table const&, cluster_node const&, protocol::clock_reading const&);
    void notify(protocol::standstill::equal_jumps const&);

    protocol::standstill standstill_;
    instance_owner& owner_;
    unsigned const number_;
    node_table::index reported_node_ = node_table::none; ///< whose clock the owner hears of
    /// The last jump that the owner has heard of is the last one of this node.
    node_table::index last_jump_ = node_table::none;
};

} // namespace holdfast::redis

#endif
