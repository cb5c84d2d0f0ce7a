// Watches an instance: overdue answers, the end of a quarantine, and whether an idle instance still
// answers.
#include "redis/server/server_link.hpp"

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

void server_link::arm_watch() noexcept {
    if (state_.stopped) return;
    auto const now = state_.now();
    if (kept_.retry_at() > now) state_.live.check_by(kept_.retry_at());
    state_.needs_watch =
        !watch_timer_.arm(state_.live.next_check() - now, weak_from_this(), &server_link::on_watch);
}

void server_link::on_watch() {
    if (state_.stopped) return;
    // Until the timer is armed, at the end of this turn at the latest.
    state_.needs_watch = true;
    server_.tell_of_end();
    if (std::exchange(tells_no_push_, false)) state_.tell_unavailable();
    using action = protocol::liveness::action;
    auto const found = state_.live.check(state_.now());
    try {
        act_on(found);
    } catch (...) { // memory ran out, so there is no message
        if (found == action::give_up)
            on_session_end(errc::instance_timeout, {}, protocol::fault::broken);
        if (found == action::fail_waiting) locks_.fail_unsent(errc::instance_timeout);
    }
    replicas_.ask_again();
    if (server_.quarantined()) server_.wake_at_end();
    arm_watch();
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
    case action::fail_waiting:
        state_.reason_message = "not connected yet";
        locks_.fail_unsent(errc::instance_timeout);
        state_.owner.on_change();
        break;
    case action::suspect:
        if (state_.policy.leaves_suspects()) {
            return on_session_end(errc::instance_timeout, "an answer is overdue",
                                  protocol::fault::broken);
        }
        tell_state(errc::instance_timeout, "an answer is overdue");
        locks_.fail_sent_to_suspect();
        locks_.fail_unsent(errc::instance_timeout);
        break;
    case action::give_up:
        on_session_end(errc::instance_timeout,
                       connected() ? "no answer for so long that the connection was given up"
                                   : "connected, but the probe was not answered in time",
                       protocol::fault::broken);
        break;
    }
}

void server_link::came_back() {
    tell_state(errc{}, {});
    // Sends all kept releases, however old: the instance may be late with the SETs of their keys
    // too.
    send_kept();
    reauthentication_.came_back();
    state_.tell_available();
}

void server_link::tell_state(errc cause, std::string_view message) noexcept {
    reason_ = cause;
    auto& text = state_.reason_message;
    try {
        constexpr auto most = 16 * longest_text; // the texts of all sentinels
        text = presentable(message, state_.secrets, most);
    } catch (...) {
        text.clear();
    }
    try {
        state_.status.set_state(state_of(state_.live), cause, text);
        state_.status.set_tls(session_ ? session_->security() : std::string(),
                              location_->problem());
    } catch (...) { // without a message: memory ran out
        state_.status.set_state(state_of(state_.live), cause, {});
    }
    state_.owner.on_change();
    if (state_.live.current() != protocol::liveness::state::up) {
        state_.tell_unavailable();
    }
}

} // namespace holdfast::redis
