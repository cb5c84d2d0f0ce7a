// Reads the errors of a Cluster's nodes: MOVED, ASK, TRYAGAIN, CLUSTERDOWN and CROSSSLOT.
//
// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/ ("Redirection and
// resharding").
#ifndef HOLDFAST_REDIS_SLOT_REDIRECT_HPP
#define HOLDFAST_REDIS_SLOT_REDIRECT_HPP

#include "protocol/cluster/cluster_refusal.hpp"

#include <optional>
#include <string_view>

namespace holdfast::redis {

/// Parses the text of an error reply. Empty if the error is none of a Cluster. The host of the
/// result is a view into `error`.
std::optional<protocol::cluster_refusal> parse_cluster_refusal(std::string_view error);

} // namespace holdfast::redis

#endif
