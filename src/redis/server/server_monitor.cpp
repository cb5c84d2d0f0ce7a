#include "redis/server/server_monitor.hpp"

#include "redis/wire/text_hash.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace holdfast::redis {

server_monitor::server_monitor(connection_state& state)
    : state_(state)
    , guard_(state.options.on_restart, state.options.max_ttl) {}

//
// The quarantine
//

void server_monitor::distrust(lease_clock::duration how_long, std::string_view reason) {
    auto const now = state_.now();
    if (now + how_long <= guard_.until()) return;
    guard_.distrust(how_long, reason, now);
    on_quarantine();
}

void server_monitor::succeed(lease_clock::time_point until, std::string_view reason) {
    guard_.replaced(state_.now(), until, reason);
    if (quarantined()) on_quarantine();
}

bool server_monitor::emptied() {
    if (!guard_.emptied(state_.now())) return false;
    on_loss();
    return true;
}

void server_monitor::excuse_jump() {
    guard_.excuse_jump(state_.now());
    if (quarantined()) {
        state_.status.set_quarantine(guard_.until(), guard_.reason());
    } else {
        notify_of_end();
    }
}

void server_monitor::notify_of_end() {
    if (!guard_.ends(state_.now())) return;
    state_.status.set_quarantine({}, {});
    if (state_.connected() && state_.available()) state_.notify_available();
}

void server_monitor::wake_at_end() {
    constexpr lease_clock::duration tick(1);
    state_.live.check_by(std::min(guard_.until(), lease_clock::time_point::max() - tick) + tick);
}

void server_monitor::on_quarantine() {
    show();
    if (state_.connected()) state_.notify_unavailable();
}

// Leases of this client may be lost as well: their holders have to hear of it soon.
void server_monitor::on_loss() {
    on_quarantine();
    state_.owner.on_forgotten(state_.number);
}

void server_monitor::shown_restarted(std::string_view evidence) {
    if (guard_.shown_restarted(state_.now(), evidence)) on_quarantine();
}

// Only the age at the first contact counts: servers that were started together grow old one after
// the other.
void server_monitor::notify_of_age() {
    auto const start = guard_.start();
    if (!start) return;
    if (!std::exchange(age_known_, true)) {
        state_.owner.on_age(state_.number, *start);
        state_.policy.on_age(*start);
    }
    hold_for_ages();
}

// The other servers may be asked at the same time, and one of them may be older. Mostly it says so
// at once. A server that hangs must not cost more than a part of the time that it has.
void server_monitor::hold_for_ages() {
    auto const now = state_.now();
    if (!guard_.is_young(now) || !state_.awaits_ages()) return;
    held_until_ = now + lease_clock::duration(state_.options.instance_timeout) / 4;
    state_.live.check_by(held_until_);
    state_.needs_check_timer = true;
}

void server_monitor::show() {
    state_.status.set_quarantine(guard_.until(), guard_.reason());
    wake_at_end();
    state_.needs_check_timer = true;
}

// Each server check reports the policy again, but waiters are notified only once.
void server_monitor::mind_eviction(server_info const& info) {
    auto const before = quarantined();
    if (!guard_.evicts(info.eviction, state_.now())) return;
    if (before) {
        show();
    } else {
        on_quarantine();
    }
}

// A full table of tracked keys loses registrations: that of any key for that of a new one. With
// NOLOOP the client whose own command was the cause is not notified. So waiters poll until the
// table has room again.
void server_monitor::mind_tracking(server_info const& info) {
    auto const room = tracking_limit_ / (cannot_track_ ? 8 : 16);
    auto const full = tracking_limit_ > 0 && info.tracked_keys >= tracking_limit_ - room;
    if (full == cannot_track_) return;
    if (full) {
        if (!state_.relies_on_pushes()) return;
        cannot_track_ = true;
        state_.words.tracked = false;
        state_.services.add(degradation::no_push,
                            "CLIENT TRACKING: the server's table of tracked keys is full "
                            "(tracking-table-max-keys " +
                                std::to_string(tracking_limit_) + ")");
        if (state_.connected()) state_.notify_unavailable();
    } else {
        cannot_track_ = false;
        state_.words.tracked = true;
        state_.services.remove(degradation::no_push);
    }
}

//
// Questions
//

bool server_monitor::checks_data() const {
    auto const& o = state_.options;
    auto const wanted = o.on_restart != restart_policy::off || o.replicas != 0;
    return wanted && !state_.services.has(degradation::no_restart_check);
}

void server_monitor::ask_due() {
    constexpr std::chrono::seconds clock_interval{1}, check_interval{1};
    if (!state_.connected()) return;
    auto const now = state_.now();
    // TIME goes before the command, so that a jump is known before the answer to the command
    // counts. The server check does too: a grant counts only if the server was checked shortly
    // before.
    if (asks_time() && !asking_time_ && now - time_asked_ >= clock_interval) ask_time();
    if (checks_data() && !checking_ && now - checked_at_ >= check_interval) check();
}

bool server_monitor::ask_idle() {
    if (asks_time() && !asking_time_) ask_time();
    if (checks_data() && !checking_) check();
    return asks_time() || checks_data();
}

void server_monitor::ask_time_now() {
    if (asks_time() && state_.connected() && state_.available() && !asking_time_) ask_time();
}

// About once a second, not with each batch: a second is short beside a lease.
void server_monitor::ask_time() {
    state_.commands.add({.type = command_type::time}, "TIME");
    // The clock is read before the command is sent. So the interval in which the server read its
    // own clock is not taken too small.
    time_asked_ = state_.now();
    asking_time_ = true;
}

void server_monitor::check() {
    check_.ask(state_.commands);
    checked_at_ = state_.now();
    checking_ = true;
}

//
// The connection
//

void server_monitor::begin() {
    check_.restart();
    checking_ = false;
    state_.commands.show_clock({});
    time_asked_ = checked_at_ = state_.now();
    asking_time_ = state_.options.detect_clock_jumps;
}

void server_monitor::probed(server_info const& info, bool logs_each_write,
                            std::int64_t tracking_limit) {
    run_id_ = info.run_id;
    logs_each_write_ = logs_each_write;
    state_.status.set_durable(info.logs_writes && logs_each_write);
    // A server that does not report its run id is as before.
    auto const known = !run_id_.empty();
    held_until_ = {};
    if (known && guard_.connected(origin_of(info), info.uptime, state_.now())) on_loss();
    if (known) notify_of_age();
    mind_eviction(info);
    tracking_limit_ = tracking_limit;
    cannot_track_ = false;
    mind_tracking(info);
}

void server_monitor::unsent(command_type type) {
    if (type == command_type::time && std::exchange(asking_time_, false)) time_asked_ = {};
    if (type == command_type::server_check && std::exchange(checking_, false)) checked_at_ = {};
}

//
// Replies
//

void server_monitor::take_time(element const& e) {
    time_.take_part(e);
    if (e.depth > 0) return;
    time_refused_ = is_error(e.type);
    if (time_refused_ && !is_passing(e.value)) {
        state_.services.add(degradation::no_clock_check, "TIME: " + std::string(e.value));
    }
}

void server_monitor::on_time() {
    asking_time_ = false;
    auto const shown = time_.take_reply();
    if (!shown) {
        if (time_refused_) return;
        return state_.services.add(degradation::no_clock_check, "TIME: the answer is no time");
    }
    // Before the client authenticated, the server may have refused.
    state_.services.remove(degradation::no_clock_check);
    note_clock_offset(*shown);
    state_.commands.show_clock(*shown);
    auto const doubted = guard_.on_time(time_asked_, state_.now(), *shown);
    state_.listener.on_time_shown(time_asked_, *shown);
    // The owner may find that our clock stood still, and excuse the jump.
    auto const& reading = guard_.last_clock_reading();
    if (state_.policy.on_clock_reading(reading)) {
        state_.owner.on_clock_reading(state_.number, reading);
    }
    if (doubted && quarantined()) on_quarantine();
}

// The server read its clock between our question and now: on average in the middle.
void server_monitor::note_clock_offset(std::chrono::microseconds shown) {
    using namespace std::chrono;
    auto const ours = system_clock::now() - (lease_clock::now() - time_asked_) / 2;
    state_.status.set_clock_offset(duration_cast<microseconds>(shown - ours.time_since_epoch()));
}

std::optional<server_info> server_monitor::on_check() {
    checking_ = false;
    if (!check_.refused().empty()) {
        state_.services.add(degradation::no_restart_check, "INFO: " + check_.refused());
    }
    auto info = check_.take_reply();
    if (!info) return std::nullopt;
    // A proxy in between has switched to another server.
    if (!info->run_id.empty() && info->run_id != run_id_) {
        state_.refusal.set(errc::unreachable, "another server answers on the connection");
        return std::nullopt;
    }
    state_.listener.on_check(*info);
    if (info->replica && state_.policy.votes()) {
        guard_.is_replica();
        state_.refusal.set(errc::read_only, "the instance is a replica");
        return std::nullopt;
    }
    auto const announced = state_.relies_on_pushes();
    if (guard_.server_checked(origin_of(*info), announced, state_.now())) on_loss();
    mind_eviction(*info);
    mind_tracking(*info);
    return info;
}

protocol::data_origin server_monitor::origin_of(server_info const& info) const {
    return {.run = hash_of(info.run_id),
            .history = hash_of(info.replication_id),
            .flushes = info.flushes,
            .promoted = info.promoted,
            .durable = info.logs_writes && logs_each_write_};
}

} // namespace holdfast::redis
