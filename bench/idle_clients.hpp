// The cost of clients that are connected and do nothing, for a fleet of many processes.
#ifndef HOLDFAST_BENCH_IDLE_CLIENTS_HPP
#define HOLDFAST_BENCH_IDLE_CLIENTS_HPP

#include <boost/json.hpp>

namespace holdfast::bench {

struct idle_clients_settings {
    unsigned instances = 5;
    unsigned clients = 200;
    double seconds = 20; ///< the time of the measurement
};

/// `clients` clients in one process, each with a connection to each instance, take one lock each
/// and then do nothing.
/// @throws std::runtime_error  not all instances of all clients were up in time.
boost::json::object idle_clients_scenario(idle_clients_settings const&);

} // namespace holdfast::bench

#endif
