// Processes full of coroutines that all want one key, and their figures.
#ifndef HOLDFAST_BENCH_CONTENDERS_HPP
#define HOLDFAST_BENCH_CONTENDERS_HPP

#include "support/fleet.hpp"

#include <boost/json.hpp>

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace holdfast::bench {

struct contention {
    unsigned processes = 1;
    unsigned coroutines = 1000; ///< of each process
    std::chrono::microseconds hold{0};
    double seconds = 5;
    std::chrono::milliseconds ttl{10'000};
    bool single_threaded = false;
    bool fencing = false;
};

using figures = std::map<std::string, double>; ///< no entry where there is no figure

/// Every coroutine acquires the key, holds it and releases it, over and over, for that long. Each
/// process is a child of this one, running this executable as `hotkey-worker`.
/// @throws std::runtime_error  a child could not be started, died, or was not done in time; the
///     others have been ended then.
figures measure_contenders(test::fleet const& servers, contention const&);

/// An object of many rounds: medians, but of failures and violations the sum, and the longest wait.
boost::json::object combined(std::vector<figures> const& rounds);

std::string ports_of(test::fleet const& servers);

/// The child process: main() hands over to this when argv[1] is "hotkey-worker".
int hotkey_worker(int argc, char** argv);

} // namespace holdfast::bench

#endif
