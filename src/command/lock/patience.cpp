#include "command/lock/patience.hpp"

#include "command/diagnosis.hpp"
#include "command/exit_code.hpp"
#include "command/output.hpp"

#include <algorithm>

namespace holdfast::command {

namespace {

/// A user who has just set the servers up knows that they have forgotten no lock.
constexpr char const* new_servers_advice =
    "; if the servers are new, so that they cannot have forgotten a lock, use --new-servers";

/// Between two tries while servers get their votes back, or are away.
constexpr lease_clock::duration least_pause = std::chrono::milliseconds(100);

std::string advice(lock_settings const& s) {
    return s.new_servers ? "" : new_servers_advice;
}

} // namespace

// Each run is a client that starts anew. So it cannot know whether a server has just been
// restarted, and has forgotten the lock of another run.
client_options lock_settings::client() const {
    auto o = options();
    if (!new_servers) o.on_restart = restart_policy::by_uptime;
    return o;
}

lock_options lock_settings::lock() const {
    return {.ttl = std::chrono::milliseconds(ttl_ms),
            .fencing = fence,
            .on_outage = outage_policy::fail};
}

bool passes(error const& e) {
    return e == errc::unreachable || e == errc::instance_timeout || e == errc::read_only ||
           e == errc::no_quorum || e == errc::no_sentinel_majority || e == errc::too_few_replicas;
}

std::string why_it_waits(lock_settings const& s, error const& e) {
    if (e == errc::quarantined) return e.what() + "; waiting for their votes" + advice(s);
    return e.what() + (passes(e) ? "; waiting for the instances" : "; trying again");
}

std::chrono::milliseconds patience::time_left() const {
    auto const all = std::chrono::milliseconds(settings_.wait_ms.value_or(0));
    return all - std::chrono::floor<std::chrono::milliseconds>(lease_clock::now() - begun_);
}

bool patience::retries(error const& e, std::function<void()> again) {
    if (!(e == errc::quarantined && waits_for_votes(e)) && !waits_for_instances(e)) return false;
    pause_.async_wait([again = std::move(again)](boost::system::error_code) { again(); });
    return true;
}

// Too few instances have a vote. Some get it back in time; false if they do not.
bool patience::waits_for_votes(error const& e) {
    auto const now = lease_clock::now();
    auto const first = next_vote(client_.instances(), now);
    if (!first) return false;
    auto const pause = std::max(*first - now, least_pause);
    auto const in_time = !settings_.wait_ms || pause < time_left();
    if (!std::exchange(said_wait_, true)) {
        say(in_time ? why_it_waits(settings_, e) : e.what() + advice(settings_));
    }
    pause_.expires_after(pause);
    return in_time;
}

// Too few instances can be reached. A user who gave a time to wait means it.
bool patience::waits_for_instances(error const& e) {
    if (!passes(e) || !settings_.wait_ms || time_left() <= least_pause) return false;
    if (!std::exchange(said_outage_, true)) say(why_it_waits(settings_, e));
    pause_.expires_after(least_pause);
    return true;
}

int patience::give_up(error const& e) const {
    if (e != errc::quarantined || !said_wait_) say(e.what());
    return e == errc::contended || e == errc::wait_timeout ? contended : unavailable;
}

} // namespace holdfast::command
