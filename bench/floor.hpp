// The yardstick: the cost of locks on N Redis instances with bare non-blocking sockets and epoll.
// It has one thread, no Asio, no library and no recovery: anything unexpected ends the run.
#ifndef HOLDFAST_BENCH_FLOOR_HPP
#define HOLDFAST_BENCH_FLOOR_HPP

#include "latency.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace holdfast::bench {

struct floor_options {
    std::vector<std::uint16_t> ports{}; ///< of the instances, on 127.0.0.1
    unsigned tasks = 1; ///< each does one pair after another on a key of its own; below 10^7
    std::chrono::milliseconds ttl{30'000}; ///< keep it well above the latency under load
    std::uint64_t seed = 0;                ///< of the tokens; 0: the operating system's
    std::string prefix = "floor";          ///< keys are "bench:<prefix>:<task, seven digits>"
};

struct floor_result {
    std::uint64_t pairs = 0; ///< acquired and released, each by a quorum, within `seconds`
    std::uint64_t lost =
        0; ///< acquires refused by too many instances, or released too late: 0 in a sound run
    double seconds = 0;
    double cpu_seconds = 0; ///< of this thread, user and system, within `seconds`
    latency acquire{}; ///< from before the command is written to the quorum-th grant, pair by pair
    latency release{}; ///< from before the command is written to the quorum-th deletion
};

/// A pair is a SET NX PX on all N instances, until floor(N/2) + 1 have granted it. A
/// compare-and-delete (EVALSHA) on all N follows, until as many have deleted it. Like the library,
/// the floor does not wait for the others. It writes to each instance once per turn of its event
/// loop, and reads the clock once per completion.
///
/// An acquire that is refused is undone and tried again at once, without backoff: the floor is for
/// keys that nobody contends for.
///
/// Not for use by two threads at a time.
class floor_client {
public:
    /// Connects; throws std::system_error or std::runtime_error naming the port.
    explicit floor_client(floor_options);
    ~floor_client();
    floor_client(floor_client&&) noexcept;
    floor_client& operator=(floor_client&&) noexcept;

    /// Measures for that long, then finishes the pairs in flight and takes in every late reply,
    /// unmeasured, so that no key is left behind. Throws when an instance fails, answers anything
    /// unexpected, or still owes a reply ten seconds after the end. The message names the port. The
    /// client is of no more use then, and its keys go with their ttl.
    floor_result run(std::chrono::duration<double> how_long);

    [[nodiscard]] std::string key(unsigned task) const;

private:
    class impl;
    std::unique_ptr<impl> impl_;
};

} // namespace holdfast::bench

#endif
