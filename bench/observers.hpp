// The cost of observers.
#ifndef HOLDFAST_BENCH_OBSERVERS_HPP
#define HOLDFAST_BENCH_OBSERVERS_HPP

#include "turns.hpp"

#include <boost/json.hpp>

namespace holdfast::bench {

/// Acquire and release with an observer that does nothing, with a log of each event (`debug`) and
/// one of failures and losses alone (`info`), and without an observer, in turns.
boost::json::object observers_scenario(turn_settings const&);

} // namespace holdfast::bench

#endif
