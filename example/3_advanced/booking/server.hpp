// Accepts connections until SIGTERM or SIGINT, and then drains.
#ifndef BOOKING_SERVER_HPP
#define BOOKING_SERVER_HPP

#include "options.hpp"

namespace booking {

/// Returns the exit status when all is over: 0 if each holder finished.
int run_server(options const& o);

} // namespace booking

#endif
