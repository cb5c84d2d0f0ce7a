#include <holdfast/client_stats.hpp>

#include <ostream>

namespace holdfast {

char const* to_string(acquire_outcome o) noexcept {
    switch (o) {
    case acquire_outcome::acquired:
        return "acquired";
    case acquire_outcome::handed_over:
        return "handed_over";
    case acquire_outcome::contended:
        return "contended";
    case acquire_outcome::timed_out:
        return "timed_out";
    case acquire_outcome::cancelled:
        return "cancelled";
    case acquire_outcome::unavailable:
        return "unavailable";
    case acquire_outcome::failed:
        return "failed";
    }
    return "?";
}

char const* to_string(instance_state s) noexcept {
    switch (s) {
    case instance_state::connecting:
        return "connecting";
    case instance_state::up:
        return "up";
    case instance_state::quarantined:
        return "quarantined";
    case instance_state::unreplicated:
        return "unreplicated";
    case instance_state::suspect:
        return "suspect";
    case instance_state::down:
        return "down";
    }
    return "?";
}

char const* to_string(degradation d) noexcept {
    switch (d) {
    case degradation::no_push:
        return "no push: waiters poll";
    case degradation::no_clock_check:
        return "no clock check: jumps of its clock are not noticed";
    case degradation::no_restart_check:
        return "no restart check: restarts, flushes and evictions are not noticed";
    case degradation::no_flush_check:
        return "no flush check: flushes during a lost connection are not noticed";
    case degradation::no_durability_check:
        return "no durability check: it counts as not durable";
    case degradation::no_type_check:
        return "no type check: a key that is no lock counts as held";
    case degradation::no_expiry_times:
        return "no expiry times: reports lack them, and waiters poll";
    case degradation::no_holder_names:
        return "no holder names: reports lack them";
    case degradation::no_script_preload:
        return "no script preload: the first use sends all of a script";
    case degradation::no_script_cache:
        return "no script cache: each use sends all of a script";
    case degradation::no_native_compare:
        return "no native compare: scripts take its place";
    case degradation::no_resp3:
        return "no RESP3: without pushes";
    case degradation::no_acquire:
        return "no acquire: it refuses locks";
    case degradation::no_extend:
        return "no extend: leases end at their deadlines";
    case degradation::no_release:
        return "no release: keys stay until their ttl is over";
    case degradation::no_fencing:
        return "no fencing: it refuses locks with fences";
    case degradation::clocks_apart:
        return "clocks apart: leases may end early";
    case degradation::no_announcements:
        return "no announcements: fail-overs are noticed a second later";
    case degradation::spare_replicas:
        return "spare replicas: a fail-over may promote one that lacks a lock";
    case degradation::old_credentials:
        return "old credentials: new ones were not to be had, or were refused";
    }
    return "?";
}

std::ostream& operator<<(std::ostream& out, instance_status const& s) {
    out << s.address << ' ' << to_string(s.state);
    if (!s.message.empty()) {
        out << " (" << s.message << ')';
    } else if (s.reason.failed()) {
        out << " (" << s.reason.message() << ')';
    }
    if (!s.server.empty()) out << ", " << s.server;
    if (!s.primary.empty()) out << ", primary " << s.primary;
    if (!s.tls.empty()) out << ", " << s.tls;
    for (auto const& d : s.degradations) out << ", " << to_string(d.kind);
    return out;
}

} // namespace holdfast
