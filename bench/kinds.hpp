// Kinds of lock beside the exclusive lock of the same run.
#ifndef HOLDFAST_BENCH_KINDS_HPP
#define HOLDFAST_BENCH_KINDS_HPP

#include <boost/json.hpp>

#include <chrono>

namespace holdfast::bench {

struct kinds_settings {
    unsigned instances = 5;
    unsigned rounds = 5;
    double round_seconds = 2;
    std::chrono::milliseconds ttl{30'000};
    bool single_threaded = false;
};

/// Measures locks on 2 and 8 keys against locks on one key, in turns: the latency of one coroutine
/// and the rate of 100, all keys free. Then clients that want 4 of 8 keys beside clients that want
/// one of them, each client as a process of its own would be. Then read-write locks: readers.hpp,
/// and semaphores: permits.hpp.
/// Figures are medians of the rounds.
boost::json::object kinds_scenario(kinds_settings const&);

} // namespace holdfast::bench

#endif
