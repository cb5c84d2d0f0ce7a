// What the programs here call. No header of Asio: each of their parts is compiled once, and linked in many ways.
#ifndef HOLDFAST_TEST_CONSUMER_USE_HOLDFAST_HPP
#define HOLDFAST_TEST_CONSUMER_USE_HOLDFAST_HPP

#include <boost/system/error_code.hpp>

// Whether a client begins, asks, is refused and ends. Nothing listens where it asks.
bool use_holdfast();

// The code of an address that cannot be one.
boost::system::error_code error_of_holdfast();

#endif
