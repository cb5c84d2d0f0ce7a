// The cost of TLS.
#ifndef HOLDFAST_BENCH_TLS_HPP
#define HOLDFAST_BENCH_TLS_HPP

#include "turns.hpp"

#include <boost/json.hpp>

namespace holdfast::bench {

/// Acquire and release with TLS and without, in turns, on the same servers.
boost::json::object tls_scenario(turn_settings const&);

} // namespace holdfast::bench

#endif
