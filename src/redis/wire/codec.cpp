// Compiles the parts of Boost.Redis that the library uses, here and nowhere else.
#include "redis/wire/codec.hpp"

#define redis holdfast_redis
#include <boost/redis/impl/error.ipp>
#include <boost/redis/impl/request.ipp>
#include <boost/redis/resp3/impl/parser.ipp>
#include <boost/redis/resp3/impl/serialization.ipp>
#include <boost/redis/resp3/impl/type.ipp>
#undef redis
