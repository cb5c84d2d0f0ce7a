// A program that links the shared library, on servers. It shares the types and the static objects
// of Asio with the library, and its locks exclude those of a program with the static one.
#include "integration/nothing_left.hpp"
#include "integration/program.hpp"
#include "support/fleet.hpp"
#include "support/server.hpp"
#include "support/text.hpp"

#include <boost/test/unit_test.hpp>

#include <string>

using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(shared_library)

BOOST_AUTO_TEST_CASE(shared_and_static_library_exclude_each_other) {
    fleet instances{3};
    server witness;
    auto const options = " --coroutines 50 --keys 2 --seconds 2 --instances " +
                         instances.url_list() + " --witness " + witness.address();
    auto const both = run_program(program("HOLDFAST_STRESS_SHARED") + options + " & " +
                                  program("HOLDFAST_STRESS") + options +
                                  "; status=$?; wait $! || status=$?; exit $status");
    BOOST_TEST(both.status == 0, both.said);
    auto const clean = "violations           0\n";
    BOOST_TEST(both.said.find(clean) != both.said.rfind(clean),
               "one saw violations: " << both.said);
    check_nothing_left(instances);
}

BOOST_AUTO_TEST_SUITE_END()
