// A program that a test runs to its end, as a person would in a shell.
#ifndef HOLDFAST_TEST_INTEGRATION_PROGRAM_HPP
#define HOLDFAST_TEST_INTEGRATION_PROGRAM_HPP

#include <boost/test/unit_test.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/wait.h>

namespace holdfast::test {

/// The end of a program.
struct outcome {
    int status = -1; ///< -1: a signal ended it
    std::string said;
};

/// The quoted path in an environment variable, which ctest sets.
inline std::string program(char const* variable) {
    auto const* const path = std::getenv(variable);
    BOOST_REQUIRE_MESSAGE(path != nullptr, variable << " is not set; ctest sets it");
    return std::string("'") + path + "'";
}

inline outcome run_program(std::string const& command) {
    outcome o;
    auto* const pipe = ::popen((command + " 2>&1").c_str(), "r");
    BOOST_REQUIRE(pipe != nullptr);
    char buffer[4096];
    for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
        o.said.append(buffer, n);
    auto const ended = ::pclose(pipe);
    o.status = WIFEXITED(ended) ? WEXITSTATUS(ended) : -1;
    return o;
}

} // namespace holdfast::test

#endif
