// The cost of a burst of releases for others: a hundred thousand leases are dropped at once.
#ifndef HOLDFAST_BENCH_BURST_HPP
#define HOLDFAST_BENCH_BURST_HPP

#include <boost/json.hpp>

namespace holdfast::bench {

struct burst_settings {
    unsigned instances = 5;
    unsigned count = 100'000;
    unsigned rounds = 5;
    bool single_threaded = false;
};

/// A client holds the leases, and an unrelated one with a ttl of a second, which its watchdog
/// renews. The scenario tells for how long the event loop ran nothing else after the drop. It tells
/// the time of the next acquire, and whether the unrelated lease was lost within two seconds.
boost::json::object burst_scenario(burst_settings const&);

} // namespace holdfast::bench

#endif
