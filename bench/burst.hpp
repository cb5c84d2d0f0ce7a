// A client drops 100,000 leases at once. The scenario measures the cost for other work.
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

/// A client holds the leases, and an unrelated one with a ttl of 1 s, which its watchdog extends.
/// The scenario reports the time for which the event loop ran nothing else after the drop, and the
/// time of the next acquire. It also reports whether the unrelated lease was lost within two
/// seconds.
boost::json::object burst_scenario(burst_settings const&);

} // namespace holdfast::bench

#endif
