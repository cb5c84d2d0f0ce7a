// The parts of Boost.Redis that the wire uses: `request`, which serializes commands, and the RESP3
// parser.
//
// Both are compiled into this library, in codec.cpp, under another namespace. So a program that
// compiles boost/redis/src.hpp itself defines no symbol twice, and its version never replaces ours.
// All sources of holdfast include this header instead of those of Boost.Redis.
#ifndef HOLDFAST_REDIS_CODEC_HPP
#define HOLDFAST_REDIS_CODEC_HPP

#ifdef BOOST_REDIS_REQUEST_HPP
#error "include redis/wire/codec.hpp, and no header of Boost.Redis, in the sources of holdfast"
#endif

// The headers that Boost.Redis includes come first: the macro `redis` below must not change them.
#include <boost/assert.hpp>
#include <boost/config.hpp>
#include <boost/system/error_code.hpp>
#include <boost/system/system_error.hpp>
#include <boost/throw_exception.hpp>

#include <array>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <limits>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#define redis holdfast_redis
#include <boost/redis/error.hpp>
#include <boost/redis/request.hpp>
#include <boost/redis/resp3/parser.hpp>
#include <boost/redis/resp3/serialization.hpp>
#include <boost/redis/resp3/type.hpp>
#undef redis

namespace holdfast::redis {

namespace codec = boost::holdfast_redis;

} // namespace holdfast::redis

#endif
