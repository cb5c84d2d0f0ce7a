// Reads the identity of a Cluster from the reply to CLUSTER NODES.
#ifndef HOLDFAST_REDIS_CLUSTER_IDENTITY_HPP
#define HOLDFAST_REDIS_CLUSTER_IDENTITY_HPP

#include <string>
#include <string_view>
#include <vector>

namespace holdfast::redis {

/// The smallest node id of primaries, replicas and failed nodes alike. Empty if the text is no
/// reply to CLUSTER NODES. A view into the text.
///
/// A Cluster has no id of its own. All nodes give the same smallest id. A fail-over or a migration
/// of slots does not change it. To add or to forget a node does, with a probability of about 1/n
/// for n nodes. Nodes that have not finished their handshake do not count: they have an id for the
/// time being, which other nodes do not know.
std::string_view cluster_identity(std::string_view nodes);

/// The ids that cluster_identity() compares, sorted.
std::vector<std::string> cluster_members(std::string_view nodes);

} // namespace holdfast::redis

#endif
