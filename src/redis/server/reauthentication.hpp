// AUTH on a connection that there is, when the credentials have changed.
#ifndef HOLDFAST_REDIS_REAUTHENTICATION_HPP
#define HOLDFAST_REDIS_REAUTHENTICATION_HPP

#include "redis/server/connection_state.hpp"
#include "redis/server/credential_keeper.hpp"

#include <string>
#include <string_view>

namespace holdfast::redis {

/// If the server refuses the new credentials, the connection keeps the user that it had.
class reauthentication {
public:
    /// The keeper outlives this.
    reauthentication(connection_state& state, credential_keeper& credentials)
        : state_(state)
        , credentials_(credentials) {}

    /// A new connection is probed, with the present credentials.
    void begin() { outdated_ = unanswered_ = false; }
    /// The credentials have changed during the probe.
    void put_off() { outdated_ = true; }
    void after_probe() {
        if (outdated_) start();
    }
    /// The server answers again. The command may have been dropped while it was suspect.
    void came_back() {
        if (unanswered_) start();
    }
    /// The command has its place among the others of the connection.
    void start();

    void take_part(element const& e) {
        if (e.depth == 0) error_ = is_error(e.type) ? e.value : std::string_view();
    }
    void on_reply();

private:
    connection_state& state_;
    credential_keeper& credentials_;
    bool outdated_ = false;   ///< the connection was made with others than the present ones
    bool unanswered_ = false; ///< an AUTH was to be sent, and has no reply
    std::string error_;       ///< of the last AUTH; empty: the server has accepted it
};

} // namespace holdfast::redis

#endif
