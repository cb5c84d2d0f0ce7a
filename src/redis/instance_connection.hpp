// An instance that is one server. It makes a session, probes and watches the session, and makes it
// again after its end. A pipeline on the session carries the commands.
//
// The instance is
//   connecting  until its first connection is made or has failed: commands wait for it;
//   up          after a server that can vote has answered its probe;
//   suspect     when an answer is overdue: rounds go on without the instance until it answers;
//   down        while there is no connection.
// protocol/liveness.hpp decides the state, and vote_guard.hpp decides whether grants count. A
// release that cannot be sent is kept until it can, or until its key has expired.
#ifndef HOLDFAST_REDIS_INSTANCE_CONNECTION_HPP
#define HOLDFAST_REDIS_INSTANCE_CONNECTION_HPP

#include <holdfast/address.hpp>
#include <holdfast/options.hpp>

#include "protocol/liveness.hpp"
#include "protocol/reconnect.hpp"
#include "redis/instance.hpp"
#include "redis/pending_releases.hpp"
#include "redis/pipeline.hpp"
#include "redis/probe.hpp"
#include "redis/session.hpp"
#include "redis/status_board.hpp"
#include "redis/vote_guard.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast::redis {

struct connection_options {
    holdfast::address address;
    std::chrono::milliseconds instance_timeout, connect_timeout, max_reconnect_delay;
    std::chrono::milliseconds max_ttl;
    restart_policy on_restart;
    bool detect_clock_jumps;
    std::size_t max_pending_releases;
    std::string name;
};

class instance_connection final : public instance,
                                  public std::enable_shared_from_this<instance_connection>,
                                  private session_user {
public:
    instance_connection(asio::any_io_executor, unsigned number, connection_options, instance_owner&,
                        location::stream_factory = make_plain_stream);
    ~instance_connection() override;

    void start() override;
    void stop() override;
    void abandon() noexcept override;

    void submit(encoder&, reply_handler_ptr const&, std::uint32_t round) override;
    [[nodiscard]] bool flush() noexcept override;

    bool available() const override { return live_.available(); }
    bool may_grant() const override { return available() && !quarantined(); }
    bool connected() const override { return live_.is_probed(); }
    errc reason() const override;
    std::string reason_message() const override;
    std::optional<lease_clock::time_point> waits_since() const override;
    bool settled() const override;

    void ask_time_now() override;
    void excuse_jump() override;
    void our_clock_stood_still(lease_clock::time_point from, lease_clock::time_point until,
                               lease_clock::duration least, lease_clock::duration most) override;

    std::string_view run_id() const override { return run_id_; }
    std::uint64_t identity() const override { return identity_; }

    instance_status status() const override;
    instance_counts const& counts() const override { return counts_; }

private:
    friend class pipeline;

    // session
    void connect() noexcept;
    void end_session(errc cause, std::string_view message);
    void connect_later() noexcept;
    void came_up();
    void came_back();
    void on_connected() override;
    void on_bytes(std::string_view& bytes) override;
    void on_session_end(errc cause, std::string message) override;

    // replies: for pipeline::read
    void on_part(pending_command&, element const&);
    void on_reply(pending_command);
    void on_batch_answered();
    void on_push(element const&);
    void on_emptied();
    bool ends() const { return refused_ != errc{} || stopped_; }
    void on_lock_reply(pending_command);
    void on_time_told(lease_clock::duration shown);
    void on_probed();
    void on_server_checked();
    void refuse(errc cause, std::string_view message);
    void send_whole_script(pending_command);

    // commands
    void ask_time();
    void check_server();
    bool watches_data() const { return options_.on_restart != restart_policy::off; }
    void send_kept() noexcept;
    void keep(reply_handler_ptr owner) { keep(std::move(owner), owner_.time()); }
    void keep(reply_handler_ptr, lease_clock::time_point since);
    void keep_refused(pending_command const&);
    void fail(pending_command, protocol::verdict, errc cause);
    void fail_unsent(errc cause);
    void fail_sent_to_suspect();

    // watch
    void arm_watch() noexcept;
    void on_watch();
    void act_on(protocol::liveness::action);
    void tell_of_quarantines_end();

    bool quarantined() const { return guard_.quarantined(owner_.time()); }
    void on_quarantine();
    void show_quarantine();
    void mind_eviction(server_info const&);
    void wake_at_end_of_quarantine();
    protocol::data_origin origin_of(server_info const&) const;
    void tell_state(errc cause, std::string_view message) noexcept;

    asio::any_io_executor executor_;
    connection_options const options_;
    instance_owner& owner_;
    unsigned const number_;

    location location_;
    std::shared_ptr<session> session_;
    pipeline pipeline_;
    pending_releases kept_;
    /// The time at which refused releases are tried again, and the number of refusals in a row.
    lease_clock::time_point retry_at_{};
    unsigned refusals_ = 0;
    protocol::liveness live_;
    protocol::reconnect_policy policy_;
    vote_guard guard_;
    asio::steady_timer reconnect_timer_, watch_timer_;
    bool needs_reconnect_ = false, needs_watch_ = false; ///< the next turn arms the timer
    bool stopped_ = false;

    // The server of the present session
    probe probe_;
    std::string run_id_;
    std::uint64_t identity_ = 0;
    wording wording_;
    errc refused_{}; ///< not errc{}: the session ends after the bytes being read
    std::string refused_message_;

    // Reading
    lock_reply reply_;
    time_reply time_;
    unsigned push_part_ = 0;
    bool invalidation_ = false; ///< the push is an invalidation
    lease_clock::time_point time_asked_{};
    lease_clock::time_point replied_at_{};
    bool asking_time_ = false;
    server_check server_check_;
    lease_clock::time_point server_checked_at_{};
    bool checking_server_ = false;

    errc reason_ = errc::unreachable;
    std::string reason_message_;
    status_board status_;
    instance_counts counts_;
};

} // namespace holdfast::redis

#endif
