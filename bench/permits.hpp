// Semaphores beside the exclusive lock of the same run.
#ifndef HOLDFAST_BENCH_PERMITS_HPP
#define HOLDFAST_BENCH_PERMITS_HPP

#include <holdfast/options.hpp>

#include "support/fleet.hpp"
#include "workload.hpp"

#include <boost/json.hpp>

#include <chrono>
#include <cstdint>

namespace holdfast::bench {

struct permits_settings {
    unsigned rounds;
    double round_seconds;
    std::chrono::milliseconds ttl;
    client_options options;
};

/// Measures a free permit of 10, 100 and 1,000 in turns with a free exclusive lock. Then 1,000
/// workers of one client and of four that share so many permits, each for a millisecond. Figures
/// are medians of the rounds. Adds what failed to `failed`, and slots that two have had at one time
/// to `violations`.
boost::json::object permits_result(test::fleet const&, workload&, permits_settings const&,
                                   std::uint64_t& failed, std::uint64_t& violations);

} // namespace holdfast::bench

#endif
