// A client whose servers stand behind proxies.
#ifndef HOLDFAST_TEST_INTEGRATION_PROXIED_CLIENT_HPP
#define HOLDFAST_TEST_INTEGRATION_PROXIED_CLIENT_HPP

#include "integration/proxy_group.hpp"
#include "integration/test_client.hpp"

#include <boost/test/unit_test.hpp>

#include <string>

namespace holdfast::test {

// Three servers behind proxies, so that votes can be held up.
struct proxied_client {
    proxied_client() { BOOST_REQUIRE(client.all_up()); }
    // A lease is given at the quorum; this waits for the last vote too, so that the next reply that
    // is held up is the next call's.
    lease hold(std::string const& key) {
        auto held = client.hold(key);
        BOOST_REQUIRE(client.sees(servers, key, true));
        BOOST_REQUIRE(client.until([&] { return proxies.are_quiet(); }));
        return held;
    }

    fleet servers{3};
    proxy_group proxies{servers};
    test_client client{proxies.addresses(), without_questions()};
};

} // namespace holdfast::test

#endif
