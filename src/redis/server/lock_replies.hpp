// The answers to the commands of locks: read from the replies of the server, or given in place of
// it when the replies do not come.
#ifndef HOLDFAST_REDIS_LOCK_REPLIES_HPP
#define HOLDFAST_REDIS_LOCK_REPLIES_HPP

#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>

#include "protocol/messages.hpp"
#include "redis/server/connection_state.hpp"
#include "redis/server/expiry_check.hpp"
#include "redis/server/pending_releases.hpp"
#include "redis/server/replica_monitor.hpp"
#include "redis/server/server_monitor.hpp"
#include "redis/wire/lock_kind.hpp"

#include <cstdint>
#include <string_view>
#include <utility>

namespace holdfast::redis {

/// All calls are made within a turn.
class lock_replies {
public:
    lock_replies(connection_state&, server_monitor&, replica_monitor&, pending_releases&);

    /// A new connection.
    void begin();
    void take_part(pending_command&, element const&);
    void on_reply(pending_command);
    /// The reply to WAIT has come: gives the answers that were held for it.
    void answer_all_held();

    void take_expiry(element const& e) { expiry_.take_part(e); }
    void on_expiry();

    //
    // Answers in place of the server. Releases are kept.
    //

    /// Forgets the held answers, and answers no owner.
    void clear() noexcept { expiry_.take_held(); }
    /// The connection is gone. The server may have carried out the commands that were sent.
    void fail_sent(errc cause) noexcept;
    void fail_unsent(errc cause) noexcept;
    /// Tells the owners of commands that were sent to a suspect instance. The commands stay,
    /// because the replies may still come. The server will carry out the releases among them in
    /// their order.
    void fail_sent_to_suspect();

private:
    lease_clock::time_point sent_at(pending_command const&) const noexcept;
    void take_answer(pending_command const&);
    void on_release(pending_command const&);
    void push_late_release(pending_command const&);
    bool holds(protocol::command) const;
    std::pair<errc, std::string_view> objection(protocol::command,
                                                lease_clock::time_point sent) const noexcept;
    std::pair<errc, std::string_view> missing_replicas(protocol::command) const noexcept;
    void answer(pending_command const&, redis::answer const&) noexcept;
    void answer_for_node(pending_command const&, redis::answer) noexcept;
    void answer_held(held_answer const&);
    void answer_held(pending_command const&, grant_facts const&, errc, std::string_view reason);
    bool awaits_expiry(pending_command const&, grant_facts const&, lease_clock::time_point sent);
    void refuse_held();
    void fail_held(errc cause) noexcept;
    void send_again(pending_command, rewording);
    void load_scripts(lock_kind const&);
    void fail(pending_command const&, protocol::verdict, errc cause) noexcept;
    void fail_lost(pending_command const&, errc cause) noexcept;

    connection_state& state_;
    server_monitor& server_;
    replica_monitor& replicas_;
    pending_releases& pending_;
    expiry_check expiry_;
    lock_reply reply_;
    lock_kind const* taught_ = nullptr; ///< its scripts were loaded last on this connection
    bool taken_over_ = false; ///< another server gets the command whose replies are being read
};

} // namespace holdfast::redis

#endif
