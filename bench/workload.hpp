// The library with the floor's workload: each coroutine acquires and releases its own key.
#ifndef HOLDFAST_BENCH_WORKLOAD_HPP
#define HOLDFAST_BENCH_WORKLOAD_HPP

#include <holdfast/client.hpp>

#include "latency.hpp"
#include "support/fleet.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace holdfast::bench {

struct workload_result {
    std::uint64_t pairs = 0;
    std::uint64_t failed = 0;
    double seconds = 0;
    double cpu_seconds = 0; ///< of this thread
    std::uint64_t allocations = 0;
    latency acquire{}, release{}, pair{};
};

class workload {
public:
    workload(std::vector<std::string> const& instances, client_options const&,
             std::chrono::milliseconds ttl);
    ~workload();

    /// Measures for that long. Then it completes the pairs under way, unmeasured.
    workload_result run(unsigned coroutines, std::chrono::duration<double> how_long);
    /// The same with these locks of the client, at least one for each coroutine. The locks are
    /// divided among the coroutines.
    workload_result run(std::span<lock const> locks, unsigned coroutines,
                        std::chrono::duration<double> how_long);

    holdfast::client& client() { return *client_; }
    boost::asio::io_context& context() { return context_; }

private:
    boost::asio::io_context context_{1};
    std::unique_ptr<holdfast::client> client_;
    std::vector<lock> locks_;
    std::chrono::milliseconds ttl_;
};

/// Ends after this time.
boost::asio::awaitable<void> pass(std::chrono::duration<double>);
/// True if the client is connected to each instance, and each counts.
bool all_up(client const&);

/// The CPU time of the calling thread in seconds.
double thread_cpu_seconds();
/// The CPU time of all servers, in user space and in the kernel, in seconds.
double servers_cpu_seconds(test::fleet const&);

} // namespace holdfast::bench

#endif
