// Boost.JSON, compiled once for the command.
#include <boost/json/src.hpp>
