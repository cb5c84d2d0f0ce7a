// The cost of fences.
#ifndef HOLDFAST_BENCH_FENCING_HPP
#define HOLDFAST_BENCH_FENCING_HPP

#include <boost/json.hpp>

#include <chrono>
#include <vector>

namespace holdfast::bench {

struct fencing_settings {
    unsigned instances = 5;
    std::vector<unsigned> coroutines{100, 1000}; ///< for the runs of the throughput
    unsigned processes = 4;                      ///< contend, with 50 coroutines each
    unsigned rounds = 5;
    double round_seconds = 2;
    std::chrono::milliseconds ttl{30'000};
    bool single_threaded = false;
};

/// Measures acquire and release with fences and without, in turns. The loads are one coroutine,
/// many, two clients that take turns at a key, and processes that contend for a key. Figures are
/// medians of the rounds. Failures, violations and the counts behind percentages are sums.
/// @throws std::runtime_error  as hotkey_scenario() does.
boost::json::object fencing_scenario(fencing_settings const&);

} // namespace holdfast::bench

#endif
