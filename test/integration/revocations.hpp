// Helpers for the tests of client::revoke(): the call, and the holder's view of it.
#ifndef HOLDFAST_TEST_INTEGRATION_REVOCATIONS_HPP
#define HOLDFAST_TEST_INTEGRATION_REVOCATIONS_HPP

#include <holdfast/key_report.hpp>

#include "integration/attempt.hpp"
#include "integration/loss_wait.hpp"
#include "integration/test_client.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast::test {

inline client_options labelled(std::string_view label, client_options options = patient()) {
    options.holder_label = label;
    return options;
}

struct revocation {
    error how;
    key_report after;
    bool done = false;

    auto handler() {
        return [this](error e, key_report r) {
            how = std::move(e);
            after = std::move(r);
            done = true;
        };
    }
};

inline key_report inspect(test_client& c, std::string_view key) {
    revocation r;
    c.locks.inspect(key, r.handler());
    BOOST_REQUIRE(c.until([&] { return r.done; }));
    BOOST_REQUIRE_MESSAGE(!r.how, r.how.what());
    return std::move(r.after);
}
inline revocation revoke(test_client& c, key_report const& seen) {
    revocation r;
    c.locks.revoke(seen, r.handler());
    BOOST_REQUIRE(c.until([&] { return r.done; }, std::chrono::seconds(30)));
    return r;
}
inline revocation revoke(test_client& c, std::string_view key, std::string_view digest) {
    revocation r;
    c.locks.revoke(key, digest, r.handler());
    BOOST_REQUIRE(c.until([&] { return r.done; }, std::chrono::seconds(30)));
    return r;
}

inline std::size_t count_of(key_report const& r, key_answer::kind k) {
    return static_cast<std::size_t>(std::ranges::count(r.instances, k, &key_answer::found));
}

/// Waits until the instances have the lease. One that answers last may get it later.
inline lease hold_everywhere(test_client& c, fleet const& servers, std::string const& key,
                             lock_options const& options = long_lived) {
    auto held = c.hold(key, options);
    BOOST_REQUIRE(c.sees(servers, key, true));
    return held;
}

/// The lease of `c` ends as revoked by this client, no later than the deadline that it has.
inline void check_told(test_client& c, lease& held, std::string_view by) {
    loss_wait end(held);
    BOOST_REQUIRE(c.until([&] { return end.done; }, std::chrono::seconds(30)));
    BOOST_TEST(!end.failure, end.failure.what());
    BOOST_TEST((end.how == lease_end::revoked), end.how);
    BOOST_TEST((held.ended_by() == lease_end::revoked));
    BOOST_TEST(held.revoked_by() == by);
    BOOST_TEST(!held.held());
    BOOST_TEST((end.when <= end.deadline));
}

} // namespace holdfast::test

#endif
