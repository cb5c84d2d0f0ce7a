// Waits for the end of a lease.
#ifndef HOLDFAST_TEST_INTEGRATION_LOSS_WAIT_HPP
#define HOLDFAST_TEST_INTEGRATION_LOSS_WAIT_HPP

#include <holdfast/lease.hpp>

#include "protocol/rules.hpp"

#include "integration/run.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <optional>
#include <utility>

namespace holdfast::test {

/// A wait_end() and its result. The handler keeps pointers to this object and to the lease.
class loss_wait {
    auto handler(lease& held) {
        return asio::bind_cancellation_slot(signal.slot(), [this, &held](error e, lease_end end) {
            when = lease_clock::now();
            holds = held.held();
            deadline = held.deadline();
            failure = std::move(e);
            how = end;
            done = true;
        });
    }

public:
    loss_wait() = default;
    explicit loss_wait(lease& held) { start(held); }
    loss_wait(loss_wait const&) = delete;
    loss_wait& operator=(loss_wait const&) = delete;

    void start(lease& held) { held.wait_end(handler(held)); }
    void start(lease& held, std::chrono::nanoseconds ahead) { held.wait_end(ahead, handler(held)); }
    /// Of the loss, or that the deadline is near.
    bool told() const { return done && !failure && how != lease_end::released; }
    bool lost() const { return done && is_loss(how); }

    asio::cancellation_signal signal;
    bool done = false;
    error failure;
    lease_end how = lease_end::none;
    bool holds = false; ///< the lease was held when the handler was called
    lease_clock::time_point when{}, deadline{};
};

/// Keeps how a lease ended. The wait itself must not fail.
inline auto noting(std::optional<lease_end>& how) {
    return [&how](error e, lease_end end) {
        BOOST_TEST(!e, e.what());
        how = end;
    };
}

/// How long before the deadline a loss may be reported. Losses that are due together are reported
/// together.
inline lease_clock::duration loss_margin(std::chrono::milliseconds ttl) {
    return protocol::loss_margin(ttl) + std::chrono::milliseconds(2);
}

/// True if the call throws lease_released.
template <class Call>
bool throws_released(Call const& call) {
    try {
        call();
    } catch (system_error const& e) {
        return e.code() == errc::lease_released;
    }
    return false;
}

} // namespace holdfast::test

#endif
