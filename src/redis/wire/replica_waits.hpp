// WAIT: the replicas of a server that have the grants of a batch.
// https://redis.io/docs/latest/commands/wait/
//
// Joins protocol/server/replica_guard.hpp with the replies of the server and the messages for
// people.
#ifndef HOLDFAST_REDIS_REPLICA_WAITS_HPP
#define HOLDFAST_REDIS_REPLICA_WAITS_HPP

#include <holdfast/error.hpp>
#include <holdfast/options.hpp>

#include "protocol/server/replica_guard.hpp"
#include "redis/wire/reply_reader.hpp"
#include "redis/wire/secret_list.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::redis {

/// WAIT at the end of a batch.
struct replica_wait {
    unsigned replicas = 0; ///< zero: none
    std::chrono::milliseconds timeout{1};
};

class replica_waits {
public:
    /// `wanted`: client_options::replicas.
    replica_waits(unsigned wanted, std::chrono::milliseconds instance_timeout);

    bool on() const { return guard_.on(); }
    /// Whether the server may be asked for votes.
    bool votes() const { return guard_.votes(); }
    /// Why not; errc{} if it may.
    errc cause() const;
    /// The same in words. Empty if it may.
    std::string const& reason() const { return reason_; }
    /// The end of a batch with grants. None while the server may not be asked for votes: their
    /// answers do not count then.
    replica_wait wait() const {
        return {.replicas = on() && votes() ? guard_.needed() : 0, .timeout = timeout_};
    }

    /// A new connection, or a server check. `list` is empty if the server does not report.
    void connected(std::optional<protocol::replica_list> const&);
    void listed(std::optional<protocol::replica_list> const&);

    /// An element of the reply to WAIT.
    void take_part(element const&, secret_list const&);
    /// The reply is complete. `asked`: the number of replicas; zero: whether WAIT is allowed at
    /// all. `grants`: grants waited for it.
    void take_reply(unsigned asked, bool grants);
    /// Whether the grants that waited for the last reply count.
    bool covered() const { return covered_; }
    /// The server has become a replica; refusal() has its words.
    bool demoted() const { return demoted_; }
    std::string const& refusal() const { return refusal_; }

private:
    void take_error(std::string_view, secret_list const&);
    void update_reason();

    protocol::replica_guard guard_;
    std::chrono::milliseconds timeout_;
    std::string reason_;
    // The reply to WAIT
    unsigned confirmed_ = 0;
    bool covered_ = false, demoted_ = false;
    errc refused_{}; ///< not errc{}: it was an error
    std::string refusal_;
};

} // namespace holdfast::redis

#endif
