// The functions that the programs call. This header includes no Asio header, as each source is
// compiled once and linked in several ways.
#ifndef HOLDFAST_TEST_CONSUMER_USE_HOLDFAST_HPP
#define HOLDFAST_TEST_CONSUMER_USE_HOLDFAST_HPP

#include <boost/system/error_code.hpp>

// True if a client starts, fails an acquire, and shuts down. No server listens on its port.
bool use_holdfast();

// The error code of an invalid address.
boost::system::error_code error_of_holdfast();

#endif
