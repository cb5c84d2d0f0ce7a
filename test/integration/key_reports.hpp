// The common parts of the tests of reports on a key that several clients hold.
#ifndef HOLDFAST_TEST_INTEGRATION_KEY_REPORTS_HPP
#define HOLDFAST_TEST_INTEGRATION_KEY_REPORTS_HPP

#include <holdfast/key_report.hpp>

#include "integration/attempt.hpp"
#include "integration/revocations.hpp"
#include "integration/test_client.hpp"
#include "support/fleet.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <string_view>
#include <utility>

namespace holdfast::test {

/// Inspects until the report is as expected. An instance may get a command late.
template <class Expected>
key_report inspect_until(test_client& c, std::string_view key, Expected expected) {
    key_report r;
    BOOST_REQUIRE(c.until([&] {
        r = inspect(c, key);
        return expected(r);
    }));
    return r;
}

/// Waits until the key has changed since this report.
inline key_report next_report(test_client& c, std::string_view key, key_report const& last) {
    auto done = false;
    key_report result;
    c.locks.wait_change(key, last, [&](error e, key_report r) {
        BOOST_TEST(!e, e.what());
        result = std::move(r);
        done = true;
    });
    BOOST_REQUIRE(c.until([&] { return done; }, std::chrono::seconds(20)));
    return result;
}

/// `seen`: the report that the forced release is based on, or none.
template <class... Seen>
error force(test_client& c, std::string_view key, Seen const&... seen) {
    auto done = false;
    error result;
    c.locks.force_release(key, seen..., [&](error e, key_report const&) {
        result = std::move(e);
        done = true;
    });
    BOOST_REQUIRE(c.until([&] { return done; }));
    return result;
}

/// On the same servers. Two of them hold the key, and the third asks.
struct three_clients {
    explicit three_clients(fleet& servers)
        : one(servers, labelled("web-1"))
        , two(servers, labelled("web-2"))
        , asks(servers, labelled("desk")) {
        one.runs_with(two);
        one.runs_with(asks);
        two.runs_with(asks);
        for (auto* const c : {&one, &two, &asks}) BOOST_REQUIRE(c->all_up());
    }

    test_client one, two, asks;
};

} // namespace holdfast::test

#endif
