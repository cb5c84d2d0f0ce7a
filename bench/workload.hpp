// The library under the floor's workload: coroutines that acquire and release a key of their own.
#ifndef HOLDFAST_BENCH_WORKLOAD_HPP
#define HOLDFAST_BENCH_WORKLOAD_HPP

#include <holdfast/client.hpp>

#include "latency.hpp"

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

    /// Measures for that long, then lets the pairs in flight end, unmeasured.
    workload_result run(unsigned coroutines, std::chrono::duration<double> how_long);
    /// The same on these locks of the client, at least one for each coroutine, which goes round
    /// those that fall to it.
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

/// CPU time of the calling thread, in seconds.
double thread_cpu_seconds();

} // namespace holdfast::bench

#endif
