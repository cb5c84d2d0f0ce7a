// Checks at the end of a test that no lock is left on the servers.
#ifndef HOLDFAST_TEST_INTEGRATION_NOTHING_LEFT_HPP
#define HOLDFAST_TEST_INTEGRATION_NOTHING_LEFT_HPP

#include "support/fleet.hpp"
#include "support/lock_monitor.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>

namespace holdfast::test {

/// True if the server has no lock. Otherwise the result names the locks. `is_met(predicate)` waits
/// for the predicate, and runs the clients meanwhile.
template <class Wait>
[[nodiscard]] boost::test_tools::assertion_result has_no_locks(server const& on,
                                                               Wait const& is_met) {
    lock_monitor monitor(on);
    boost::test_tools::assertion_result result(is_met([&] { return monitor.none(); }));
    if (!result) result.message() << monitor.describe();
    return result;
}

/// Checks that the server has no lock, or has none within this time. Its clients have ended, or run
/// in other threads.
inline void check_nothing_left(server const& on,
                               std::chrono::milliseconds within = std::chrono::milliseconds(0)) {
    lock_monitor monitor(on);
    BOOST_TEST(monitor.none_within(within), monitor.describe());
}

/// The same for every running server.
inline void check_nothing_left(fleet const& servers,
                               std::chrono::milliseconds within = std::chrono::milliseconds(0)) {
    for (server& instance : servers) {
        if (instance.running()) check_nothing_left(instance, within);
    }
}

/// Checks that no client has a lease or an operation left, and that no running server has a lock.
/// `clients` is a test_client or a client_group; its until() runs the clients.
template <class Clients>
void check_nothing_left(Clients& clients, fleet const& servers) {
    BOOST_TEST(clients.idle());
    for (server& instance : servers) {
        if (instance.running()) BOOST_TEST(clients.sees_no_locks(instance));
    }
}

} // namespace holdfast::test

#endif
