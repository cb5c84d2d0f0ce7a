// The time of a bare PING, on idle servers and beside a load.
#ifndef HOLDFAST_BENCH_PINGS_HPP
#define HOLDFAST_BENCH_PINGS_HPP

#include "latency.hpp"
#include "support/fleet.hpp"

#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace holdfast::bench {

/// PINGs over a blocking socket with nothing in between.
class pinger {
public:
    explicit pinger(test::server const& server);
    std::chrono::nanoseconds round_trip() const;

private:
    std::string address_;
    test::net::unique_fd socket_;
};

/// On every instance, while nothing else happens there.
void ping_idle(test::fleet const& servers, latency& into);

/// On one instance after the other, every two milliseconds, beside the contenders: under the load
/// under which the hand-overs are measured.
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
