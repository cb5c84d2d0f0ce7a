// The servers on which each topology is tested.
#ifndef HOLDFAST_TEST_INTEGRATION_KINDS_HPP
#define HOLDFAST_TEST_INTEGRATION_KINDS_HPP

#include "support/server.hpp"

#include <boost/test/unit_test.hpp>

#include <vector>

namespace holdfast::test {

/// The oldest and the newest; all others where these are missing.
inline std::vector<server_kind> oldest_and_newest() {
    std::vector<server_kind> kinds;
    for (auto const* const name : {"redis-7.0", "valkey-9.1"})
        if (auto found = find_server(name)) kinds.push_back(*found);
    return kinds.empty() ? available_servers() : kinds;
}

/// Calls `test(kind)` for these two.
template <class Test>
void on_oldest_and_newest(Test test) {
    for (auto const& kind : oldest_and_newest()) {
        BOOST_TEST_CONTEXT(kind.name) test(kind);
    }
}

/// Calls `test(options)` with the options of a group, for each kind.
template <class Options, class Test>
void on_kinds(std::vector<server_kind> const& kinds, Test test) {
    BOOST_REQUIRE(!kinds.empty());
    for (auto const& kind : kinds) {
        BOOST_TEST_CONTEXT(kind.name) {
            Options options;
            options.kind = kind;
            test(options);
        }
    }
}

} // namespace holdfast::test

#endif
