// Keys over the primaries of a Cluster.
#ifndef HOLDFAST_BENCH_CLUSTER_HPP
#define HOLDFAST_BENCH_CLUSTER_HPP

#include "turns.hpp"

#include <boost/json.hpp>

namespace holdfast::bench {

/// Acquire and release on a Cluster of three primaries and on a single server, in turns, with keys
/// over all primaries.
boost::json::object cluster_scenario(turn_settings const&);

} // namespace holdfast::bench

#endif
