// The cost of waiting: thousands of coroutines wait behind one holder.
#ifndef HOLDFAST_BENCH_IDLE_WAITERS_HPP
#define HOLDFAST_BENCH_IDLE_WAITERS_HPP

#include <boost/json.hpp>

#include <chrono>

namespace holdfast::bench {

struct idle_settings {
    unsigned instances = 5;
    unsigned waiters = 10'000;
    double seconds = 30; ///< the time of the measurement
    std::chrono::milliseconds ttl{10'000};
    bool single_threaded = false;
    bool callbacks = false; ///< instead of coroutines: the memory is then the library's alone
};

/// A client holds a key and extends its lease. The coroutines of another client wait for it in the
/// same thread. At the end the waiting client is shut down, which ends every wait.
/// @throws std::runtime_error  not all coroutines waited, or not all waits ended, in time.
boost::json::object idle_waiters_scenario(idle_settings const&);

} // namespace holdfast::bench

#endif
