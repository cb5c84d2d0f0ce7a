// Read-write locks beside the exclusive lock of the same run.
#ifndef HOLDFAST_BENCH_READERS_HPP
#define HOLDFAST_BENCH_READERS_HPP

#include <holdfast/options.hpp>

#include "support/fleet.hpp"
#include "workload.hpp"

#include <boost/json.hpp>

#include <chrono>
#include <cstdint>

namespace holdfast::bench {

struct readers_settings {
    unsigned rounds;
    double round_seconds;
    std::chrono::milliseconds ttl;
    client_options options;
};

/// Measures free read and write locks in turns with free exclusive locks, then a reader whose
/// process has the lock already, then four clients of readers on one key, without and with a client
/// that writes every 10 ms, and 1,000 readers and some writers that never stop. Figures are medians
/// of the rounds. Adds what failed to `failed`, and readers beside a writer to `violations`.
boost::json::object readers_result(test::fleet const&, workload&, readers_settings const&,
                                   std::uint64_t& failed, std::uint64_t& violations);

} // namespace holdfast::bench

#endif
