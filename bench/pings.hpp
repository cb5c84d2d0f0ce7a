// The round trip of a bare PING, on idle servers and under load.
#ifndef HOLDFAST_BENCH_PINGS_HPP
#define HOLDFAST_BENCH_PINGS_HPP

#include "latency.hpp"
#include "support/fleet.hpp"

#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace holdfast::bench {

/// Sends PINGs over a blocking socket.
class pinger {
public:
    explicit pinger(test::server const& server);
    std::chrono::nanoseconds round_trip() const;

private:
    std::string address_;
    test::net::unique_fd socket_;
};

/// Pings every instance while the servers are idle.
void ping_idle(test::fleet const& servers, latency& into);

/// Pings the instances one after the other, every 2 ms, beside the contenders. So the load is that
/// of the measured hand-overs.
class pings_meanwhile {
public:
    explicit pings_meanwhile(test::fleet const& servers);
    latency const& stop();

private:
    std::vector<pinger> pingers_;
    latency round_trips_;
    std::jthread thread_;
};

} // namespace holdfast::bench

#endif
