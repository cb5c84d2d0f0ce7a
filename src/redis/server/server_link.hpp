// An instance that is one server. It makes a session, probes and checks the session, and makes it
// again after its end. A pipeline on the session carries the commands.
//
// The instance is
//   connecting  until its first connection is made or has failed: commands wait for it;
//   up          after a server that can vote has answered its probe;
//   suspect     when an answer is overdue: rounds go on without the instance until it answers;
//   down        while there is no connection.
// protocol/server/liveness.hpp decides the state, and vote_guard.hpp decides whether grants count.
// A release that cannot be sent is kept until it can, or until its key has expired.
#ifndef HOLDFAST_REDIS_SERVER_LINK_HPP
#define HOLDFAST_REDIS_SERVER_LINK_HPP

#include "protocol/server/reconnect.hpp"
#include "protocol/waiting/push_trust.hpp"
#include "redis/net/link_boundary.hpp"
#include "redis/net/session.hpp"
#include "redis/net/turn_timer.hpp"
#include "redis/server/connection_options.hpp"
#include "redis/server/connection_state.hpp"
#include "redis/server/credential_keeper.hpp"
#include "redis/server/instance.hpp"
#include "redis/server/lock_replies.hpp"
#include "redis/server/pending_releases.hpp"
#include "redis/server/reauthentication.hpp"
#include "redis/server/reconnector.hpp"
#include "redis/server/replica_monitor.hpp"
#include "redis/server/server_monitor.hpp"
#include "redis/wire/probe.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast::redis {

class server_link final : public instance,
                          public std::enable_shared_from_this<server_link>,
                          private session_user,
                          private credential_user {
public:
    server_link(asio::any_io_executor, unsigned number, connection_options, instance_owner&,
                location::stream_factory = make_plain_stream, link_deployment const& = {});
    ~server_link() override;

    void start() override;
    void stop() override;
    void abandon() noexcept override;

    [[nodiscard]] bool submit(encoder&, reply_handler_ptr const&,
                              std::uint32_t round) noexcept override;
    [[nodiscard]] bool flush() noexcept override;

    bool available() const override { return state_.available(); }
    bool may_grant() const override {
        return available() && !server_.quarantined() && replicas_.votes();
    }
    bool connected() const override { return state_.connected(); }
    errc reason() const override;
    std::string reason_message() const override;
    std::optional<lease_clock::time_point> waits_since() const override;
    bool settled() const override;

    void ask_time_now() override {
        boundary_.run([&] { server_.ask_time_now(); });
    }
    void excuse_jump() override {
        boundary_.run([&] { server_.excuse_jump(); });
    }
    void our_clock_stood_still(lease_clock::time_point from, lease_clock::time_point until,
                               lease_clock::duration least, lease_clock::duration most) override {
        server_.our_clock_stood_still(from, until, least, most);
    }

    void on_older_server() override {
        shown_restarted("another server is older, so it has been restarted");
    }
    void push_missed(protocol::breach) override;

    std::string_view run_id() const override { return server_.run_id(); }
    std::uint64_t identity() const override { return identity_; }

    instance_status status() const override { return state_.status.status(); }
    /// For users on any thread.
    std::shared_ptr<status_board const> shared_status() const { return state_.shared_status; }
    instance_counts const& counts() const override { return state_.counts; }

    //
    // For a deployment: see server_link_deployment.cpp
    //

    /// Ends the connection, if there is one. From now on connections lead to this server; its
    /// credentials are not used.
    void move_to(address const& server);
    /// The server succeeds another one. Its grants do not count until then, for this reason.
    void succeed(lease_clock::time_point quarantined_until, std::string_view reason);
    /// Ends the connection, if there is one: for now there is no server, for this reason.
    void leave(errc cause, std::string_view message);
    /// Ends the connection with this turn: a part of the deployment has failed.
    void break_off() noexcept { boundary_.break_off(); }
    /// Connects, unless there is a connection, a pause is under way, or the policy forbids it.
    void connect_if_due() noexcept;
    /// Ends the pause, if there is one: the next turn connects.
    void end_pause() noexcept;
    /// If the server is young, this proves that it has been restarted.
    void shown_restarted(std::string_view evidence) noexcept {
        boundary_.run([&] { server_.shown_restarted(evidence); });
    }
    /// Commands of a young server wait for the ages of others that are being connected.
    void hold_for_ages() { server_.hold_for_ages(); }
    /// The status shows this server as the present primary; empty if there is none.
    void show_primary(std::string);
    /// The status shows that answers do not count though the server is up; errc{}: they do.
    void show_doubt(errc, std::string_view message) noexcept;
    /// The status shows a degradation for this reason; an empty one: it does not. A new connection
    /// forgets it.
    void show_lack(degradation, std::string_view reason) noexcept;

    /// Asks the server. The listener gets the reply, with `round` as the number of the question.
    /// The connection must be up.
    template <class... Words>
    void ask(std::uint32_t question, Words const&... words) {
        state_.commands.add({.round = question, .type = command_type::question}, words...);
    }
    /// Sends what an idle connection sends: TIME and the server check, if they are due.
    void ask_due() { server_.ask_due(); }
    /// Sends a server check, unless one is under way. The connection must be up.
    void check_now() {
        if (server_.checks_data() && !server_.checking()) server_.check();
    }
    /// False: the options need no server check, or the server does not answer it.
    bool checks_data() const { return server_.checks_data(); }
    /// Adds a command of a lock that another server refused, or that had to wait. The instance must
    /// be available. False if that failed, as for the other submit().
    [[nodiscard]] bool submit(pending_command const&) noexcept;
    /// Keeps a release, whose owner has its answer.
    void keep_release(reply_handler_ptr owner, lease_clock::time_point since) {
        pending_.keep(std::move(owner), since);
    }
    /// Takes out the pending releases, and calls `take(reply_handler_ptr, since)` for each.
    template <class Take>
    void take_pending(Take&& take) {
        pending_.take(take);
    }
    std::size_t pending_count() const { return pending_.size(); }
    /// The server may lack grants: its grants do not count for this long.
    void begin_quarantine(lease_clock::duration how_long, std::string_view reason) noexcept {
        boundary_.run([&] { server_.distrust(how_long, reason); });
    }
    /// The end of the quarantine; in the past if there is none.
    lease_clock::time_point quarantined_until() const { return server_.until(); }
    bool durable() const { return probe_.durable(); }
    /// The passwords so far, which no message may have.
    secret_list const& secrets() const { return state_.secrets; }

private:
    friend class pipeline;

    // session
    void connect();
    void open_session();
    void end_session(errc cause, std::string_view message,
                     protocol::fault = protocol::fault::broken);
    void lose(errc cause, std::string_view message);
    void give_up(errc cause, std::string_view message, protocol::fault = protocol::fault::broken);
    void connect_later();
    void arm_reconnect();
    void on_pause();
    void try_to_connect();
    void on_connected() override;
    void on_bytes(std::string_view& bytes) override;
    void on_session_end(errc cause, std::string message, protocol::fault f) noexcept override {
        boundary_.run([&] { give_up(cause, message, f); });
    }

    // probe
    introduction introduce() const;
    void ask_first(std::unique_ptr<batch>);
    void on_probe_reply();
    void on_probed();
    void send_pending();
    void send_batches();

    // credentials
    void on_credentials(std::string_view problem, bool changed) noexcept override {
        boundary_.run([&] { use_credentials(problem, changed); });
    }
    void use_credentials(std::string_view problem, bool changed);

    // replies, for pipeline::read: server_link_replies.cpp
    void on_part(pending_command&, element const&);
    void on_reply(pending_command);
    void on_batch_answered();
    void on_push(element const&);
    bool ends() const { return state_.refusal || state_.stopped; }

    // checks: server_link_checks.cpp
    void arm_check_timer();
    void on_check_timer();
    void check();
    void act_on(protocol::liveness::action);
    void came_back();
    void notify_state(errc cause, std::string_view message) noexcept;

    asio::any_io_executor executor_;
    link_boundary boundary_;
    std::shared_ptr<credential_keeper> credentials_;
    connection_state state_;
    server_monitor server_;
    replica_monitor replicas_;
    pending_releases pending_;
    lock_replies locks_;
    reauthentication reauthentication_;

    // The connection
    location::stream_factory const factory_;
    std::optional<location> location_; ///< always there
    std::string moved_to_;             ///< the server; empty: that of the address
    std::shared_ptr<session> session_;
    reconnector reconnector_;
    turn_timer check_timer_;
    errc reason_ = errc::unreachable;
    lease_clock::time_point replied_at_{}; ///< the last reply

    // The probe
    probe probe_;
    protocol::hello_choice hello_;
    std::unique_ptr<batch> questions_; ///< to be sent next
    bool probing_ = false;
    std::uint64_t identity_ = 0;
    std::string source_failure_; ///< why the source gave no credentials the last time

    // Pushes
    protocol::push_trust pushes_;
    bool pushes_lost_ = false;
    unsigned push_part_ = 0;
    bool invalidation_ = false; ///< the push is an invalidation
};

} // namespace holdfast::redis

#endif
