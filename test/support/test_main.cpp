// The one place where Boost.Test itself is compiled.
#define BOOST_TEST_MODULE holdfast
#include <boost/test/included/unit_test.hpp>
