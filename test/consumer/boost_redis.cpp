// A program's own Boost.Redis.
#include <boost/redis/src.hpp>
