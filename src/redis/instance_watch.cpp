// Watches an instance: overdue answers, the end of a quarantine, and whether an idle instance still
// answers.
#include "redis/instance_connection.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::redis {

void instance_connection::arm_watch() noexcept {
    if (stopped_) return;
    if (retry_at_ > owner_.time()) live_.check_by(retry_at_);
    try {
        watch_timer_.expires_after(
            std::max(live_.next_check() - owner_.time(), lease_clock::duration::zero()));
        watch_timer_.async_wait([weak = weak_from_this()](error_code ec) {
            auto const self = weak.lock();
            if (!ec && self && !self->stopped_) in_turn(self->owner_, [&] { self->on_watch(); });
        });
        needs_watch_ = false;
    } catch (...) {
        needs_watch_ = true;
    }
}

void instance_connection::on_watch() {
    needs_watch_ = true; // until the timer is armed, at the end of this turn at the latest
    auto const now = owner_.time();
    tell_of_quarantines_end();
    auto const found = live_.check(now);
    try {
        act_on(found);
    } catch (...) { // memory ran out, so there is no message
        if (found == protocol::liveness::action::give_up)
            on_session_end(errc::instance_timeout, {});
        if (found == protocol::liveness::action::fail_waiting) fail_unsent(errc::instance_timeout);
    }
    if (quarantined()) wake_at_end_of_quarantine();
    arm_watch();
}

void instance_connection::act_on(protocol::liveness::action found) {
    using action = protocol::liveness::action;
    switch (found) {
    case action::none:
        break;
    case action::ask:
        // TIME and the server check both serve as a ping.
        if (options_.detect_clock_jumps && !asking_time_) ask_time();
        if (watches_data() && !checking_server_) check_server();
        if (!options_.detect_clock_jumps && !watches_data()) {
            pipeline_.add({.type = command_type::ping}, "PING");
        }
        break;
    case action::fail_waiting:
        reason_message_ = "not connected yet";
        fail_unsent(errc::instance_timeout);
        owner_.on_change();
        break;
    case action::suspect:
        tell_state(errc::instance_timeout, "an answer is overdue");
        fail_sent_to_suspect();
        fail_unsent(errc::instance_timeout);
        break;
    case action::give_up:
        on_session_end(errc::instance_timeout,
                       connected() ? "no answer for so long that the connection was given up"
                                   : "connected, but the probe was not answered in time");
        break;
    }
}

// Tells the owners of commands that were sent to a suspect instance. The commands stay, because the
// replies may still come. The server will carry out the releases among them in their order.
void instance_connection::fail_sent_to_suspect() {
    pipeline_.visit_sent([&](pending_command& c) {
        if (!c.owner) return;
        auto copy = c;
        c.answered = true;
        if (c.command == protocol::command::release) {
            c.round = short_time(owner_.time()); // for keep_refused()
        } else {
            c.owner.reset();
        }
        fail(std::move(copy), protocol::verdict::unknown, errc::instance_timeout);
    });
}

} // namespace holdfast::redis
