// Many processes and coroutines contend for one key.
#ifndef HOLDFAST_BENCH_HOTKEY_HPP
#define HOLDFAST_BENCH_HOTKEY_HPP

#include <boost/json.hpp>

#include <chrono>
#include <string>

namespace holdfast::bench {

struct hotkey_settings {
    unsigned instances = 5;
    unsigned processes = 1;
    unsigned coroutines = 1000; ///< for each process
    std::chrono::microseconds hold{0};
    double seconds = 5; ///< for each round
    unsigned rounds = 1;
    std::chrono::milliseconds ttl{10'000};
    bool single_threaded = false;
    bool fair = false;          ///< with lock_options::fair and without, in turns
    bool peers = false;         ///< also measure node-redlock, in turns with holdfast
    std::string peers_runner{}; ///< bench/peers/run.sh; if empty $HOLDFAST_BENCH_PEERS, else the
                                ///< the runner beside the source
};

/// Every coroutine acquires, holds and releases the key repeatedly. Each process is a child of this
/// one, and runs this executable as `hotkey-worker`. Figures are medians of the rounds, except
/// `failed` and `violations` (sums) and `max_wait_ms` (the longest). With `fair`, they are in
/// `runs`, by the name of the way.
/// @throws std::runtime_error  a child could not be started, died, or was not done in time. The
/// other children are ended then.
boost::json::object hotkey_scenario(hotkey_settings const&);

} // namespace holdfast::bench

#endif
