// The one place where Boost.Redis itself is compiled.
#include <boost/redis/src.hpp>
