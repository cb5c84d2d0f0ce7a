// A client whose servers stand behind proxies.
#ifndef HOLDFAST_TEST_INTEGRATION_PROXIED_PARTY_HPP
#define HOLDFAST_TEST_INTEGRATION_PROXIED_PARTY_HPP

#include "integration/party.hpp"
#include "integration/wires.hpp"

#include <boost/test/unit_test.hpp>

#include <string>

namespace holdfast::test {

// Three servers behind proxies, so that votes can be held up.
struct proxied_party {
    proxied_party() { BOOST_REQUIRE(p.all_up()); }
    // A lease is given at the quorum; this waits for the last vote too, so that the next reply that
    // is held up is the next call's.
    lease hold(std::string const& key) {
        auto held = p.hold(key);
        BOOST_REQUIRE(p.sees(servers, key, true));
        BOOST_REQUIRE(p.until([&] { return ways.are_quiet(); }));
        return held;
    }

    fleet servers{3};
    wires ways{servers};
    party p{ways.addresses(), without_questions()};
};

} // namespace holdfast::test

#endif
