// What a minority that dies or hangs costs those who contend for keys.
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

/// Clients with one coroutine for each key, all of which acquire and release. Each round runs
/// without faults, then with one instance frozen, then with the largest minority frozen, then with
/// it killed; the fault comes a quarter into the run. Tells the medians of p99, the longest acquire
/// and release of all rounds, how many acquires took more than three times the p99 without faults
/// plus 20 ms, how many of them also without the time for which a processor stood still meanwhile,
/// and how many acquires and releases failed.
boost::json::object contended_minority_scenario(minority_settings const&);

} // namespace holdfast::bench

#endif
