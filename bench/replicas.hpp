// The cost of waiting for replicas (client_options::replicas).
#ifndef HOLDFAST_BENCH_REPLICAS_HPP
#define HOLDFAST_BENCH_REPLICAS_HPP

#include "turns.hpp"

#include <boost/json.hpp>

namespace holdfast::bench {

/// Acquire and release with each grant on all `replicas` of an instance and without waiting for
/// them, in turns, on the same servers.
boost::json::object replicas_scenario(unsigned replicas, turn_settings const&);

} // namespace holdfast::bench

#endif
