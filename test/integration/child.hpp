// A child process that runs a program of these tests: contender, sleeper or topology_host.
#ifndef HOLDFAST_TEST_INTEGRATION_CHILD_HPP
#define HOLDFAST_TEST_INTEGRATION_CHILD_HPP

#include "support/child_process.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::test {

/// Its path is in an environment variable.
class child : public child_process {
public:
    child(char const* variable, std::vector<std::string> arguments)
        : child_process(path_in(variable), std::move(arguments)) {}

private:
    static std::string path_in(char const* variable) {
        auto const* const path = std::getenv(variable);
        BOOST_REQUIRE_MESSAGE(path != nullptr, variable << " is not set; ctest sets it");
        return path;
    }
};

} // namespace holdfast::test

#endif
