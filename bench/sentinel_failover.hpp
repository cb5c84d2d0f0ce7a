// The cost of a fail-over of Sentinel: the time without new locks, and the leases that go on.
#ifndef HOLDFAST_BENCH_SENTINEL_FAILOVER_HPP
#define HOLDFAST_BENCH_SENTINEL_FAILOVER_HPP

#include <boost/json.hpp>

#include <chrono>

namespace holdfast::bench {

struct failover_settings {
    unsigned leases = 100;
    std::chrono::seconds ttl{10}; ///< of the leases, and max_ttl
    unsigned rounds = 3;
};

/// Three sentinels with down-after 1 s, a primary and two replicas, anew for each round and fault:
/// the primary is killed, it is frozen, and SENTINEL FAILOVER. A client holds leases, and tries a
/// new lock every 20 ms. The scenario tells the medians of three times since the fault: until a
/// majority names another primary, until the client uses it, and until the client gets a new lock.
/// It counts the leases that were kept until then.
boost::json::object sentinel_failover_scenario(failover_settings const&);

} // namespace holdfast::bench

#endif
