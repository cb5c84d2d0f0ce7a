// The rules that a deployment adds to the connection of one of its servers. Sentinel and Cluster
// implement them; a plain server has none.
#ifndef HOLDFAST_REDIS_LINK_RULES_HPP
#define HOLDFAST_REDIS_LINK_RULES_HPP

#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>

#include "protocol/messages.hpp"
#include "redis/wire/pipeline.hpp"
#include "redis/wire/reply_reader.hpp"
#include "redis/wire/server_info.hpp"

#include <string_view>

namespace holdfast::redis {

/// Every call is made on the client's executor, and within a turn.
class link_rules {
public:
    /// The reason why the answer yes of this server to a grant or to an extension does not count;
    /// errc{} if it counts. A grant that does not count is given back. `sent`: when the command was
    /// sent.
    virtual errc objection(protocol::command, lease_clock::time_point sent) noexcept = 0;
    /// An objection in words.
    virtual std::string_view objection_text(errc) const noexcept { return {}; }

    /// Asked before each connection. If not, the link stays without one until its owner calls
    /// server_link::connect_if_due().
    virtual bool may_connect() noexcept { return true; }
    /// True if the link ends a connection whose answers are overdue.
    virtual bool leaves_suspects() const noexcept { return false; }
    /// The connection has ended, or could not be made. The owner has not ended it.
    virtual void on_link_lost(errc) noexcept {}

    //
    // The connection
    //

    /// False: the server need not be a primary.
    virtual bool votes() const noexcept { return true; }
    /// A connection was made, and is to be probed.
    virtual void on_connection() noexcept {}
    /// The server has answered a command that was sent at `sent`. Called before the answer counts.
    virtual void on_heard(lease_clock::time_point /*sent*/) noexcept {}
    /// The server's wall clock shows `shown`; it was asked at `sent`.
    virtual void on_time_shown(lease_clock::time_point /*sent*/, lease_clock::duration /*shown*/) {}
    /// The server was probed, and can vote. No command of a caller has been sent on the connection.
    virtual void on_probe(server_info const&) {}
    /// The server was checked again, see redis/wire/probe.hpp.
    virtual void on_check(server_info const&) {}

    //
    // Questions of the rules, see server_link::ask()
    //

    virtual void take_part(pending_command const&, element const&) {}
    virtual void on_reply(pending_command const&) {}
    /// The connection was lost, with all questions that were under way.
    virtual void on_connection_lost() noexcept {}

    //
    // Commands of locks
    //

    /// The server has refused a command with this error. True: it has executed nothing, and
    /// take_over() follows when all replies to the command have come.
    virtual bool refuses(std::string_view /*error*/) { return false; }
    /// The server has answered ASKING, which came before this command. Empty: it has accepted it.
    virtual void on_asking(std::string_view /*error*/) {}
    /// Sends the command elsewhere, or answers it. May add commands to the connection.
    virtual void take_over(pending_command) {}
    /// The command gets its answer now.
    virtual void on_answered(pending_command const&) noexcept {}

protected:
    ~link_rules() = default;
};

} // namespace holdfast::redis

#endif
