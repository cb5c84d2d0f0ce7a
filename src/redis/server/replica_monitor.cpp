#include "redis/server/replica_monitor.hpp"

#include <algorithm>
#include <chrono>
#include <string>

namespace holdfast::redis {

namespace {

// Mostly the replicas were just slow.
constexpr std::chrono::milliseconds first_pause{100}, longest_pause{1'000};

} // namespace

void replica_monitor::found(std::optional<protocol::replica_list> const& list) {
    if (!on()) return;
    auto const voted = votes();
    waits_.connected(list);
    on_change(voted);
    warn_of_spare(list);
}

void replica_monitor::listed(std::optional<protocol::replica_list> const& list) {
    if (!on()) return;
    auto const voted = votes();
    waits_.listed(list);
    on_change(voted);
    warn_of_spare(list);
}

void replica_monitor::warn_of_spare(std::optional<protocol::replica_list> const& list) {
    if (!list) return;
    auto const wanted = state_.options.replicas;
    auto const there = list->acknowledged.size();
    if (wanted == all_replicas || there <= wanted) {
        return state_.services.remove(degradation::spare_replicas);
    }
    state_.services.add(degradation::spare_replicas, std::to_string(there) +
                                                         " replicas are attached, and grants wait "
                                                         "for " +
                                                         std::to_string(wanted));
}

void replica_monitor::on_reply(std::uint32_t asked) {
    auto const voted = votes();
    waits_.take_reply(asked, state_.commands.holds());
    if (waits_.demoted()) {
        server_.is_replica();
        state_.refusal.set(errc::read_only, waits_.refusal());
    }
    on_change(voted);
}

void replica_monitor::on_change(bool voted) {
    auto const now_votes = votes();
    state_.commands.wait_for(waits_.wait());
    if (voted && now_votes) return;
    state_.status.set_replicas(cause(), reason());
    if (voted) pause_ = first_pause;
    if (!now_votes) {
        state_.live.check_by(std::max(state_.now(), server_.checked_at() + pause_));
        state_.needs_check_timer = true;
    }
    if (!state_.connected() || voted == now_votes) return;
    if (!now_votes) state_.notify_unavailable();
    if (now_votes && state_.available()) state_.notify_available();
}

// After 100 ms, and with growing pauses up to a second. WAIT shows whether it is allowed again.
void replica_monitor::ask_again() {
    if (votes() || !state_.connected()) return;
    auto const now = state_.now();
    if (!server_.checking() && now - server_.checked_at() >= pause_) {
        pause_ = std::min(2 * pause_, longest_pause);
        if (server_.checks_data()) {
            server_.check();
        } else { // the next WAIT shows
            server_.put_off_check();
            listed(std::nullopt);
        }
        state_.commands.add({.type = command_type::wait}, "WAIT", 0, 1);
    }
    state_.live.check_by((server_.checking() ? now : server_.checked_at()) + pause_);
}

} // namespace holdfast::redis
