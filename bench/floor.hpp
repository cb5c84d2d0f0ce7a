// The floor: the cost of locks on N Redis instances with bare non-blocking sockets and epoll. It
// has one thread and no Asio, library or recovery. Anything unexpected ends the run.
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
    std::vector<std::uint16_t> ports{};    ///< of instances on 127.0.0.1
    unsigned tasks = 1;                    ///< each runs pairs on its own key; at most 9,999,999
    std::chrono::milliseconds ttl{30'000}; ///< must be well above the latency under load
    std::uint64_t seed = 0;                ///< of the tokens; 0: random
    std::string prefix = "floor";          ///< keys are "bench:<prefix>:<task, seven digits>"
};

struct floor_result {
    std::uint64_t pairs = 0; ///< acquired and released by a quorum within `seconds`
    std::uint64_t lost =
        0; ///< acquires refused by too many instances, or released too late; 0 in a sound run
    double seconds = 0;
    double cpu_seconds = 0; ///< of this thread, user and system, within `seconds`
    latency acquire{};      ///< for each pair: from before the write to the grant of a quorum
    latency release{};      ///< the same, to the deletion by a quorum
};

/// A pair has two steps. A SET NX PX goes to all N instances, until floor(N/2) + 1 have granted it.
/// A compare-and-delete (EVALSHA) on all N follows, until as many have deleted it. Like the
/// library, the floor does not wait for the others. It writes to each instance once for each turn
/// of its event loop, and reads the clock once for each completion.
///
/// A refused acquire is undone and tried again at once, without backoff. So the floor needs keys
/// without contention.
///
/// Not thread-safe.
class floor_client {
public:
    /// Connects. Throws std::system_error or std::runtime_error that names the port.
    explicit floor_client(floor_options);
    ~floor_client();
    floor_client(floor_client&&) noexcept;
    floor_client& operator=(floor_client&&) noexcept;

    /// Measures for that long. Then it completes the pairs under way and reads every late reply,
    /// unmeasured, so that no key stays behind. Throws if an instance fails, answers anything
    /// unexpected, or has not replied ten seconds after the end. The message names the port. After
    /// that, the client cannot be used, and its keys expire.
    floor_result run(std::chrono::duration<double> how_long);

    [[nodiscard]] std::string key(unsigned task) const;

private:
    class impl;
    std::unique_ptr<impl> impl_;
};

} // namespace holdfast::bench

#endif
