// A wait for the loss of a lease.
#ifndef HOLDFAST_TEST_INTEGRATION_LOSS_WAIT_HPP
#define HOLDFAST_TEST_INTEGRATION_LOSS_WAIT_HPP

#include <holdfast/lease.hpp>

#include "protocol/rules.hpp"

#include "integration/run.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include <chrono>
#include <utility>

namespace holdfast::test {

/// A wait_lost() and its result. The handler keeps pointers to this object and to the lease.
class loss_wait {
    auto handler(lease& held) {
        return asio::bind_cancellation_slot(signal.slot(), [this, &held](error e) {
            when = lease_clock::now();
            holds = held.held();
            deadline = held.deadline();
            how = std::move(e);
            done = true;
        });
    }

public:
    loss_wait() = default;
    explicit loss_wait(lease& held) { start(held); }
    loss_wait(loss_wait const&) = delete;
    loss_wait& operator=(loss_wait const&) = delete;

    void start(lease& held) { held.wait_lost(handler(held)); }
    void start(lease& held, std::chrono::nanoseconds ahead) {
        held.wait_lost(ahead, handler(held));
    }
    bool told() const { return done && !how; }

    asio::cancellation_signal signal;
    bool done = false;
    error how;
    bool holds = false; ///< the lease was held when the handler was called
    lease_clock::time_point when{}, deadline{};
};

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
