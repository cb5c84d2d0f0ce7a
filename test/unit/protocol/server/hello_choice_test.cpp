// The choice of the first command when servers close connections at HELLO.
#include "protocol/server/reconnect.hpp"

#include <boost/test/unit_test.hpp>

using choice = holdfast::protocol::hello_choice;

namespace {

choice after(unsigned closed) {
    choice c;
    for (unsigned n = 0; n < closed; ++n) c.closed();
    return c;
}

} // namespace

BOOST_AUTO_TEST_SUITE(hello_choice)

BOOST_AUTO_TEST_CASE(a_server_that_goes_down_is_told_hello_again) {
    BOOST_TEST(!after(0).skips());
    BOOST_TEST(!after(1).skips());
    BOOST_TEST(!after(2).skips());
    auto c = after(2);
    c.answered();
    c.closed();
    BOOST_TEST(!c.skips());
}

BOOST_AUTO_TEST_CASE(after_three_every_other_goes_without) {
    for (unsigned n = 3; n < 100; ++n) BOOST_TEST(after(n).skips() == (n % 2 == 1));
}

BOOST_AUTO_TEST_CASE(a_server_that_is_back_gets_hello_at_the_next_connection) {
    auto c = after(3);
    BOOST_TEST(c.works_without());
    BOOST_TEST(!c.skips());
    c.answered();
    BOOST_TEST(!c.skips());
    c.closed();
    BOOST_TEST(!c.skips());
}

BOOST_AUTO_TEST_CASE(a_proxy_that_closes_twice_more_is_spared_hello) {
    auto c = after(3);
    BOOST_TEST(c.works_without());
    c.closed();
    BOOST_TEST(c.skips());
    BOOST_TEST(c.works_without());
    c.closed();
    BOOST_TEST(c.skips());
    BOOST_TEST(!c.works_without());
}

// So one that was taken for such a proxy by mistake speaks RESP3 again.
BOOST_AUTO_TEST_CASE(each_later_connection_begins_with_hello) {
    auto c = after(3);
    (void)c.works_without();
    c.closed();
    (void)c.works_without();
    c.closed();
    for (auto n = 0; n < 5; ++n) {
        BOOST_TEST(!c.works_without());
        BOOST_TEST(!c.skips());
        c.closed();
        BOOST_TEST(c.skips());
    }
    BOOST_TEST(!c.works_without());
    c.answered();
    c.closed();
    BOOST_TEST(!c.skips());
}

// A server that is down for a while, behind a proxy that accepts connections for it.
BOOST_AUTO_TEST_CASE(a_server_that_is_closed_in_both_ways_proves_nothing) {
    auto c = after(3);
    for (auto n = 0; n < 5; ++n) {
        BOOST_TEST(c.works_without());
        c.closed();
        BOOST_TEST(c.skips());
        c.closed();
        BOOST_TEST(!c.skips());
        c.closed();
        BOOST_TEST(c.skips());
    }
}

BOOST_AUTO_TEST_SUITE_END()
