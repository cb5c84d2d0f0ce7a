// The connection to one sentinel: asks it, hears its announcements, and connects again after its
// end.
#ifndef HOLDFAST_REDIS_SENTINEL_LINK_HPP
#define HOLDFAST_REDIS_SENTINEL_LINK_HPP

#include <holdfast/address.hpp>
#include <holdfast/error.hpp>

#include "redis/net/link_boundary.hpp"
#include "redis/net/session.hpp"
#include "redis/net/turn_timer.hpp"
#include "redis/sentinel/sentinel_replies.hpp"
#include "redis/server/instance.hpp"
#include "redis/server/reconnector.hpp"
#include "redis/wire/pipeline.hpp"
#include "redis/wire/secret_list.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

namespace holdfast::redis {

/// Called within a turn, with the number of the sentinel.
class sentinel_link_user {
public:
    /// The sentinel is asked, or connected to.
    virtual void on_asked(unsigned sentinel) = 0;
    /// The sentinel has answered questions that were sent at `begun`.
    virtual void on_report(unsigned sentinel, sentinel_report const&,
                           lease_clock::time_point begun) = 0;
    virtual void on_switch(unsigned sentinel, server_address const& to) = 0;
    /// The message holds no secret.
    virtual void on_failure(unsigned sentinel, errc, std::string_view message) = 0;

protected:
    ~sentinel_link_user() = default;
};

struct sentinel_link_options {
    holdfast::address address; ///< of the sentinel, as of a server; with the sentinel's credentials
    std::shared_ptr<tls_context_source> tls{}; ///< null: without TLS
    std::string primary_name;
    std::string connection_name;
    std::chrono::milliseconds answer_timeout, connect_timeout, max_reconnect_delay;
};

/// @par Thread safety  Use it on the executor only, and within turns.
class sentinel_link final : public std::enable_shared_from_this<sentinel_link>,
                            private session_user {
public:
    sentinel_link(asio::any_io_executor, unsigned number, sentinel_link_options, instance_owner&,
                  sentinel_link_user&, location::stream_factory = make_plain_stream);
    ~sentinel_link();
    sentinel_link(sentinel_link const&) = delete;
    sentinel_link& operator=(sentinel_link const&) = delete;

    unsigned number() const { return number_; }

    void start() noexcept {
        boundary_.run([this] { connect(); });
    }
    /// Asks a round of questions: at once, or after the answers to the round that is under way.
    /// Does nothing without a connection: a new one asks by itself.
    void ask() noexcept {
        boundary_.run([this] { ask_round(); });
    }
    /// To be called at the end of a turn. False if the connection has failed, so that another turn
    /// must follow.
    [[nodiscard]] bool flush() noexcept;
    /// Ends the connection with this turn: the user has failed.
    void break_off() noexcept { boundary_.break_off(); }
    /// The user gets no more calls.
    void close() noexcept;

private:
    friend class pipeline;

    void connect();
    void ask_round();
    void fail(errc, std::string_view message, protocol::fault = protocol::fault::broken);
    void fail_refused();
    void begin_round(batch&);
    void arm_reconnect();
    void on_pause();
    void end_limit() noexcept;
    void on_limit();

    void on_connected() override;
    void on_bytes(std::string_view& bytes) override;
    void on_session_end(errc cause, std::string message, protocol::fault) noexcept override;

    // for pipeline::read
    void on_part(pending_command& c, element const& e) { replies_.take_part(c, e); }
    void on_reply(pending_command);
    void on_batch_answered() {}
    void on_push(element const&);
    bool ends() const { return user_ == nullptr || refused_; }

    asio::any_io_executor executor_;
    link_boundary boundary_;
    unsigned const number_;
    sentinel_link_options const options_;
    instance_owner& owner_;
    sentinel_link_user* user_;
    secret_list const secret_;

    location location_;
    std::shared_ptr<session> session_;
    pipeline pipeline_;
    sentinel_replies replies_;
    reconnector reconnector_;
    turn_timer limit_timer_;          ///< of the present round
    lease_clock::time_point begun_{}; ///< of the present round
    lease_clock::time_point up_since_{};
    bool waits_ = false;      ///< for answers
    bool asks_again_ = false; ///< after these answers
    bool refused_ = false;
};

} // namespace holdfast::redis

#endif
