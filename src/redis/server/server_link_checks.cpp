// Checks an instance: overdue answers, the end of a quarantine, and whether an idle instance still
// answers.
#include "redis/server/server_link.hpp"
#include "redis/wire/optional_text.hpp"

#include <utility>

namespace holdfast::redis {

namespace {

instance_state state_of(protocol::liveness const& l) {
    switch (l.current()) {
    case protocol::liveness::state::connecting:
        return instance_state::connecting;
    case protocol::liveness::state::up:
        return instance_state::up;
    case protocol::liveness::state::suspect:
        return instance_state::suspect;
    case protocol::liveness::state::down:
        break;
    }
    return instance_state::down;
}

} // namespace

void server_link::arm_check_timer() {
    if (state_.stopped) return;
    auto const now = state_.now();
    if (pending_.retry_at() > now) state_.live.check_by(pending_.retry_at());
    check_timer_.arm(state_.live.next_check() - now, weak_from_this(),
                     &server_link::on_check_timer);
    state_.needs_check_timer = false;
}

void server_link::on_check_timer() {
    boundary_.run([&] { check(); });
}

void server_link::check() {
    if (state_.stopped) return;
    server_.notify_of_end();
    if (std::exchange(pushes_lost_, false)) state_.notify_unavailable();
    act_on(state_.live.check(state_.now()));
    replicas_.ask_again();
    if (server_.quarantined()) server_.wake_at_end();
    arm_check_timer();
}

void server_link::act_on(protocol::liveness::action found) {
    using action = protocol::liveness::action;
    switch (found) {
    case action::none:
        break;
    case action::ask:
        // TIME and the server check both serve as a ping.
        if (!server_.ask_idle()) state_.commands.add({.type = command_type::ping}, "PING");
        break;
    case action::fail_unsent:
        state_.reason_message = "not connected yet";
        locks_.fail_unsent(errc::instance_timeout);
        state_.owner.on_change();
        break;
    case action::suspect:
        if (state_.policy.leaves_suspects()) {
            return give_up(errc::instance_timeout, "an answer is overdue");
        }
        notify_state(errc::instance_timeout, "an answer is overdue");
        locks_.fail_sent_to_suspect();
        locks_.fail_unsent(errc::instance_timeout);
        break;
    case action::give_up:
        give_up(errc::instance_timeout,
                connected() ? "no answer for so long that the connection was given up"
                            : "connected, but the probe was not answered in time");
        break;
    }
}

void server_link::came_back() {
    notify_state(errc{}, {});
    // Sends all pending releases, however old: the instance may be late with the SETs of their keys
    // too.
    send_pending();
    reauthentication_.came_back();
    state_.notify_available();
}

void server_link::notify_state(errc cause, std::string_view message) noexcept {
    constexpr auto most = 16 * longest_text; // the texts of all sentinels
    reason_ = cause;
    state_.reason_message =
        text_if_memory([&] { return presentable(message, state_.secrets, most); });
    state_.status.set_state(state_of(state_.live), cause,
                            text_if_memory([&] { return state_.reason_message; }));
    state_.status.set_tls(text_if_memory([&] { return session_ ? session_->security() : ""; }),
                          text_if_memory([&] { return location_->problem(); }));
    state_.owner.on_change();
    if (state_.live.current() != protocol::liveness::state::up) {
        state_.notify_unavailable();
    }
}

} // namespace holdfast::redis
