// A kind of server against Redis 7.0, and its native release against a script.
#ifndef HOLDFAST_BENCH_SERVERS_HPP
#define HOLDFAST_BENCH_SERVERS_HPP

#include "turns.hpp"

#include <boost/json.hpp>

#include <string>

namespace holdfast::bench {

/// Acquire and release in turns: on servers of the kind ("valkey-9.1"), on Redis 7.0, and on the
/// servers of the kind as a user without the right to the native compare-and-delete, if they have
/// one.
boost::json::object servers_scenario(std::string const& kind, turn_settings const&);

} // namespace holdfast::bench

#endif
