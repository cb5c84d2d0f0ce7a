// Compiles Boost.Test itself, once for all tests.
#define BOOST_TEST_MODULE holdfast
#include <boost/test/included/unit_test.hpp>
