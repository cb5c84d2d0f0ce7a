// Processes with many coroutines that contend for one key, and their figures.
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
    unsigned coroutines = 1000; ///< for each process
    std::chrono::microseconds hold{0};
    double seconds = 5;
    std::chrono::milliseconds ttl{10'000};
    bool single_threaded = false;
    bool fencing = false;
    bool fair = false;
};

using figures = std::map<std::string, double>; ///< a figure that was not measured has no entry

/// Every coroutine acquires, holds and releases the key repeatedly, for that long. Each process is
/// a child of this one, and runs this executable as `hotkey-worker`.
/// @throws std::runtime_error  a child could not be started, died, or was not done in time. The
/// other children are ended then.
figures measure_contenders(test::fleet const& servers, contention const&);

/// Combines rounds: sums of failures and violations, the longest wait, and medians of the others.
boost::json::object combined(std::vector<figures> const& rounds);

std::string ports_of(test::fleet const& servers);

/// The child process. main() calls this if argv[1] is "hotkey-worker".
int hotkey_worker(int argc, char** argv);

} // namespace holdfast::bench

#endif
