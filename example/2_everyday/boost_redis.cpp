// Compiles Boost.Redis for the examples.
#include <boost/redis/src.hpp>
