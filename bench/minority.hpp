// The cost of a minority that fails or hangs, for clients that contend for keys.
#ifndef HOLDFAST_BENCH_MINORITY_HPP
#define HOLDFAST_BENCH_MINORITY_HPP

#include <boost/json.hpp>

namespace holdfast::bench {

struct minority_settings {
    unsigned instances = 5;
    unsigned clients = 3;
    unsigned keys = 20;
    unsigned rounds = 5;
    double round_seconds = 2;
    bool single_threaded = false;
};

/// The clients have one coroutine for each key, which acquires and releases. Each round runs
/// without faults, with one instance frozen, with the largest minority frozen, and with it killed.
/// The fault comes after a quarter of the run. The scenario reports the median p99, and the longest
/// acquire and release of all rounds. An acquire is late if it took more than three times the p99
/// without faults, plus 20 ms. The scenario counts late acquires, those that are late even without
/// the time of machine pauses, and failed acquires and releases.
boost::json::object contended_minority_scenario(minority_settings const&);

} // namespace holdfast::bench

#endif
