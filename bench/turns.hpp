// The library in several ways, in turns.
#ifndef HOLDFAST_BENCH_TURNS_HPP
#define HOLDFAST_BENCH_TURNS_HPP

#include "support/fleet.hpp"
#include "workload.hpp"

#include <boost/json.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace holdfast::bench {

/// A client, and the servers whose CPU counts.
struct way {
    std::string name;
    workload& load;
    test::fleet const* servers = nullptr; ///< null: their CPU is not measured
};

/// The settings of the scenarios whose ways take turns.
struct turn_settings {
    unsigned instances = 5;
    std::vector<unsigned> coroutines{1}; ///< of each run
    unsigned rounds = 5;
    double round_seconds = 2;
    std::chrono::milliseconds ttl{30'000};
    bool single_threaded = false;

    client_options client() const { return {.thread_safe = !single_threaded}; }
};

/// Acquires and releases in each way for the length of a turn, in each round. The result has the
/// medians of the rounds by the name of the way. For the first way it has the medians of the ratios
/// to each other way, as `first_to_other`.
boost::json::object take_turns(std::vector<way> const&, unsigned coroutines, turn_settings const&);

} // namespace holdfast::bench

#endif
