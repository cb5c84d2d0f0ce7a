// Boost.Redis itself, for the examples.
#include <boost/redis/src.hpp>
