// The part that a deployment has in the link to one of its servers. A plain server has none.
// Sentinel decides about its one link: a link_policy. A Cluster decides, listens to each of its
// nodes, and sends commands that a node has refused to another one: all three classes.
#ifndef HOLDFAST_REDIS_LINK_POLICY_HPP
#define HOLDFAST_REDIS_LINK_POLICY_HPP

#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>

#include "protocol/messages.hpp"
#include "protocol/server/clock_reading.hpp"
#include "redis/wire/pipeline.hpp"
#include "redis/wire/reply_reader.hpp"
#include "redis/wire/server_info.hpp"

#include <string_view>

namespace holdfast::redis {

/// The decisions of a deployment about a link. Every call is made on the client's executor, and
/// within a turn.
class link_policy {
public:
    /// The reason why the answer yes of this server to a grant or to an extension does not count;
    /// errc{} if it counts. A grant that does not count is given back. `sent`: when the command was
    /// sent.
    virtual errc objection(protocol::command, lease_clock::time_point /*sent*/) noexcept {
        return {};
    }
    /// An objection in words.
    virtual std::string_view objection_text(errc) const noexcept { return {}; }

    /// Asked before each connection. If not, the link stays without one until its owner calls
    /// server_link::connect_if_due().
    virtual bool may_connect() noexcept { return true; }
    /// True if the link ends a connection whose answers are overdue.
    virtual bool leaves_suspects() const noexcept { return false; }
    /// The connection has ended, or could not be made. The deployment has not ended it.
    virtual void on_link_lost(errc) noexcept {}
    /// False: the server need not be a primary, and may be one that another instance has.
    virtual bool votes() const noexcept { return true; }
    /// True if commands of a young server wait for the ages of others. `others`: another instance
    /// may soon report its age.
    virtual bool awaits_ages(bool others) const { return others; }
    /// The server has reported its age at the first contact. The owner knows.
    virtual void on_age(lease_clock::time_point /*start*/) {}

    // Before the owner hears of it. False: the deployment notifies the owner itself, or need not.

    virtual bool on_available() { return true; }
    virtual bool on_unavailable() { return true; }
    virtual bool on_clock_reading(protocol::clock_reading const&) { return true; }

protected:
    ~link_policy() = default;
};

/// Hears what the server reports, and the answers to server_link::ask().
class link_listener {
public:
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

    virtual void take_part(pending_command const&, element const&) {}
    virtual void on_reply(pending_command const&) {}
    /// The connection was lost, with all questions that were under way.
    virtual void on_connection_lost() noexcept {}

protected:
    ~link_listener() = default;
};

/// Takes over commands of locks that the server refuses because another server has the key.
class redirect_policy {
public:
    /// The server has refused a command with this error. True: it has executed nothing, and
    /// take_over() follows when all replies to the command have come.
    virtual bool refuses(std::string_view /*error*/) { return false; }
    /// The server has answered ASKING, which came before this command. Empty: it has accepted it.
    virtual void on_asking(std::string_view /*error*/) {}
    /// Sends the command elsewhere, or answers it. May add commands to the connection.
    virtual void take_over(pending_command&) {}
    /// The command gets its answer now.
    virtual void on_answered(pending_command const&) noexcept {}

protected:
    ~redirect_policy() = default;
};

/// Allows all, and hears nothing. It has no state, so that all plain servers share one.
class plain_policy final : public link_policy, public link_listener, public redirect_policy {};
inline constinit plain_policy plain_server;

/// They live longer than the link.
struct link_deployment {
    link_policy& policy = plain_server;
    link_listener& listener = plain_server;
    redirect_policy& redirects = plain_server;
};

} // namespace holdfast::redis

#endif
