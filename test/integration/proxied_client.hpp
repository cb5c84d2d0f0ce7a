// A client whose servers are behind proxies.
#ifndef HOLDFAST_TEST_INTEGRATION_PROXIED_CLIENT_HPP
#define HOLDFAST_TEST_INTEGRATION_PROXIED_CLIENT_HPP

#include "integration/proxy_group.hpp"
#include "integration/test_client.hpp"

#include <boost/test/unit_test.hpp>

#include <string>

namespace holdfast::test {

// A client of three servers behind proxies, which can delay votes.
struct proxied_client {
    proxied_client() { BOOST_REQUIRE(client.all_up()); }
    // Acquires a lease, and waits for the last vote too. So the next held reply belongs to the next
    // call.
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
