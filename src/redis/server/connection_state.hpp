// The state that the parts of a server_link share.
#ifndef HOLDFAST_REDIS_CONNECTION_STATE_HPP
#define HOLDFAST_REDIS_CONNECTION_STATE_HPP

#include <holdfast/client_stats.hpp>
#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>

#include "protocol/server/liveness.hpp"
#include "protocol/server/reconnect.hpp"
#include "redis/server/connection_options.hpp"
#include "redis/server/instance.hpp"
#include "redis/server/link_policy.hpp"
#include "redis/server/missing_services.hpp"
#include "redis/server/status_board.hpp"
#include "redis/wire/pipeline.hpp"
#include "redis/wire/secret_list.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast::redis {

/// Why the session is to end after the bytes that are being read. The first reason counts.
struct session_refusal {
    errc cause{}; ///< errc{}: the session goes on
    std::string message;
    protocol::fault fault{};

    explicit operator bool() const { return cause != errc{}; }
    void set(errc c, std::string_view text, protocol::fault f = protocol::fault::broken) {
        if (cause != errc{}) return;
        cause = c;
        message = text;
        fault = f;
    }
};

struct connection_state {
    connection_state(unsigned the_number, connection_options the_options, instance_owner& the_owner,
                     secret_list const& the_secrets, link_deployment const& deployment = {})
        : options(std::move(the_options))
        , owner(the_owner)
        , policy(deployment.policy)
        , listener(deployment.listener)
        , redirects(deployment.redirects)
        , number(the_number)
        , secrets(the_secrets)
        , shared_status(std::make_shared<status_board>(options.address.to_string()))
        , status(*shared_status)
        , counts(options.counts != nullptr ? *options.counts : own_counts)
        , live(options.instance_timeout)
        , services(status, secrets) {}
    connection_state(connection_state const&) = delete;
    connection_state& operator=(connection_state const&) = delete;

    lease_clock::time_point now() const noexcept { return owner.time(); }
    bool available() const { return live.available(); }
    bool connected() const { return live.is_probed(); }
    bool relies_on_pushes() const { return words.tracked && !services.has(degradation::no_push); }
    bool awaits_ages() const { return policy.awaits_ages(owner.awaits_ages(number)); }

    void notify_available() {
        if (policy.on_available()) owner.on_available(number);
    }
    void notify_unavailable() {
        if (policy.on_unavailable()) owner.on_unavailable(number);
    }

    connection_options const options;
    instance_owner& owner;
    link_policy& policy;
    link_listener& listener;
    redirect_policy& redirects;
    unsigned const number;
    secret_list const& secrets;

    std::shared_ptr<status_board> const shared_status; ///< of users on any thread, too
    status_board& status;
    instance_counts own_counts;
    instance_counts& counts;
    pipeline commands;
    protocol::liveness live;
    missing_services services; ///< of the present server
    wording words;             ///< for the present server
    session_refusal refusal;
    std::string reason_message;     ///< why the instance cannot be asked
    bool needs_check_timer = false; ///< the end of the turn arms the timer of the checks
    bool stopped = false;
};

} // namespace holdfast::redis

#endif
