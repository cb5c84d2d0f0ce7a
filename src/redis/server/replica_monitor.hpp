// Watches the replicas of a server, which are to have its grants (client_options::replicas).
#ifndef HOLDFAST_REDIS_REPLICA_MONITOR_HPP
#define HOLDFAST_REDIS_REPLICA_MONITOR_HPP

#include <holdfast/error.hpp>

#include "redis/server/connection_state.hpp"
#include "redis/server/server_monitor.hpp"
#include "redis/wire/replica_waits.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace holdfast::redis {

/// The server has no vote while too few of them are attached. All calls are made within a turn.
class replica_monitor {
public:
    replica_monitor(connection_state& state, server_monitor& server)
        : state_(state)
        , server_(server)
        , waits_(state.options.replicas, state.options.instance_timeout) {}

    bool on() const { return waits_.on(); }
    bool votes() const { return waits_.votes(); }
    /// Why grants do not count; errc{} if they may.
    errc cause() const { return waits_.cause(); }
    std::string const& reason() const { return waits_.reason(); }

    /// The probe, or a server check, has reported which replicas there are.
    void found(std::optional<protocol::replica_list> const&);
    void listed(std::optional<protocol::replica_list> const&);

    // WAIT
    void take_part(element const& e) { waits_.take_part(e, state_.secrets); }
    /// `asked`: for as many replicas. Waiters learn first whether the instance has a vote, and then
    /// the answers that the batch holds.
    void on_reply(std::uint32_t asked);
    /// Whether the grants of the batch count.
    bool covered() const { return waits_.covered(); }

    /// Called by the check timer: asks whether the replicas are back.
    void ask_again();

private:
    void on_change(bool voted);
    void warn_of_spare(std::optional<protocol::replica_list> const&);

    connection_state& state_;
    server_monitor& server_;
    replica_waits waits_;
    std::chrono::milliseconds pause_{0}; ///< before they are asked for again
};

} // namespace holdfast::redis

#endif
