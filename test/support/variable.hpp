// A variable of the environment, for the time of a test.
#pragma once

#include <cstdlib>
#include <string>

namespace holdfast::test {

// Thread safety: none; no other thread may read the environment.
class variable {
public:
    variable(char const* name, std::string const& value)
        : name_{name} {
        ::setenv(name, value.c_str(), 1);
    }
    ~variable() { ::unsetenv(name_); }
    variable(variable const&) = delete;
    variable& operator=(variable const&) = delete;

private:
    char const* name_;
};

} // namespace holdfast::test
