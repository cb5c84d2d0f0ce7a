#include "command/diagnosis.hpp"

#include <holdfast/error.hpp>

#include "command/table.hpp"

#include <algorithm>
#include <cstddef>
#include <set>

namespace holdfast::command {

namespace {

using findings = std::vector<finding>;

/// Clocks of servers that differ by less are well kept.
constexpr std::chrono::milliseconds usual_offset(100);

void check_state(findings& all, instance_status const& s) {
    auto const reason = !s.message.empty() ? s.message
                        : s.reason         ? s.reason.message()
                                           : std::string("it has not answered yet");
    switch (s.state) {
    case instance_state::up:
        return;
    case instance_state::quarantined:
        all.push_back({severity::warning, s.address, "has no vote for now: " + reason,
                       "It gets its vote back by itself, unless an eviction policy is set."});
        return;
    case instance_state::unreplicated:
        all.push_back({severity::fault, s.address, "lacks replicas: " + reason,
                       "Bring the replicas back, or lower client_options::replicas."});
        return;
    case instance_state::connecting:
    case instance_state::suspect:
    case instance_state::down:
        break;
    }
    auto advice = std::string("See doc/errors.md for the cause.");
    if (s.reason == errc::duplicate_instance) advice = "Give each instance a server of its own.";
    if (s.reason == errc::read_only) advice = "Give the address of the primary, or use Sentinel.";
    if (s.reason == errc::access_denied) advice = "Check user, password and ACL.";
    all.push_back({severity::fault, s.address,
                   std::string("is ") + to_string(s.state) + ": " + reason, advice});
}

bool stops_locks(degradation d) {
    return d == degradation::no_acquire || d == degradation::no_extend ||
           d == degradation::no_release || d == degradation::no_fencing;
}

char const* advice_on(degradation d) {
    switch (d) {
    case degradation::clocks_apart:
        return "Let all servers keep their clocks by NTP, without steps.";
    case degradation::old_credentials:
        return "Check the source of the credentials, and the user on the server.";
    case degradation::spare_replicas:
        return "Let client_options::replicas name every replica that may be promoted.";
    default:
        return "doc/production.md lists the rights for each service.";
    }
}

void check_services(findings& all, instance_status const& s) {
    for (auto const& d : s.degradations) {
        all.push_back({stops_locks(d.kind) ? severity::fault : severity::warning, s.address,
                       std::string(to_string(d.kind)) + " (" + d.message + ')', advice_on(d.kind)});
    }
    if (s.tls.find("not verified") != s.tls.npos) {
        all.push_back({severity::warning, s.address, "TLS without verification: " + s.tls,
                       "Anybody on the way can read and change locks. Set the option ca."});
    }
    if (!s.tls_problem.empty())
        all.push_back({severity::warning, s.address, "TLS files are not in use: " + s.tls_problem});
    if (s.durable == false) {
        all.push_back({severity::note, s.address, "a restart forgets locks (not durable)",
                       "After a restart it has no vote for max_ttl. doc/production.md has the "
                       "settings of a durable server."});
    }
}

void check_round_trips(findings& all, instance_status const& s, std::chrono::milliseconds ttl) {
    auto const count = s.round_trips.count();
    if (count == 0) return;
    auto const mean = s.round_trips.sum / static_cast<std::int64_t>(count);
    if (mean < ttl / 10) return;
    all.push_back(
        {severity::warning, s.address,
         "a round trip takes " + duration_text(mean) + ", much for a ttl of " + duration_text(ttl),
         "Use a ttl of at least ten round trips, or a nearer instance."});
}

void check_clocks(findings& all, std::vector<instance_status> const& instances) {
    instance_status const *behind = nullptr, *ahead = nullptr;
    for (auto const& s : instances) {
        if (!s.clock_offset) continue;
        if (behind == nullptr || *s.clock_offset < *behind->clock_offset) behind = &s;
        if (ahead == nullptr || *s.clock_offset > *ahead->clock_offset) ahead = &s;
    }
    if (behind == nullptr) return;
    auto const apart = *ahead->clock_offset - *behind->clock_offset;
    if (apart > usual_offset) {
        all.push_back(
            {severity::warning, ahead->address,
             "its clock is " + duration_text(apart) + " ahead of that of " + behind->address,
             "Let all servers keep their clocks by NTP, without steps."});
    }
    // Against this machine a difference matters less: only fences take hints from its clock.
    auto const off = std::max(*ahead->clock_offset, -*behind->clock_offset);
    if (apart <= usual_offset && off > std::chrono::seconds(1)) {
        all.push_back(
            {severity::note, "",
             "the clock of this machine differs from those of the servers by " + duration_text(off),
             "Keep it by NTP."});
    }
}

void check_number(findings& all, std::vector<instance_status> const& instances) {
    auto const count = instances.size();
    auto const quorum = count / 2 + 1;
    auto const up = static_cast<std::size_t>(
        std::count_if(instances.begin(), instances.end(),
                      [](auto const& s) { return s.state == instance_state::up; }));
    if (up < quorum) {
        all.push_back({severity::fault, "",
                       "no lock can be acquired: " + std::to_string(up) + " of " +
                           std::to_string(count) + " instances are up, and " +
                           std::to_string(quorum) + " are needed",
                       "Fix the instances below."});
    }
    if (count == 1) {
        all.push_back({severity::note, "", "one instance: while it is down, no lock can be had",
                       "doc/safety.md says what one instance guarantees."});
    } else if (count % 2 == 0) {
        all.push_back({severity::warning, "",
                       "an even number of instances: " + std::to_string(count) +
                           " survive as many failures as " + std::to_string(count - 1),
                       "Add an instance, or remove one."});
    }
    std::set<std::string> versions;
    for (auto const& s : instances) {
        if (!s.server.empty()) versions.insert(s.server);
    }
    if (versions.size() > 1) {
        std::string list;
        for (auto const& v : versions) list += (list.empty() ? "" : ", ") + v;
        all.push_back({severity::note, "", "the servers differ: " + list});
    }
}

} // namespace

char const* to_string(severity s) noexcept {
    switch (s) {
    case severity::note:
        return "note";
    case severity::warning:
        return "warning";
    case severity::fault:
        return "fault";
    }
    return "?";
}

std::vector<finding> diagnose(std::vector<instance_status> const& instances,
                              std::vector<failed_trial> const& trials,
                              std::chrono::milliseconds ttl) {
    findings all;
    check_number(all, instances);
    for (auto const& t : trials) {
        all.push_back({severity::fault, t.address,
                       "a lock was tried" + std::string(t.address.empty() ? "" : " there alone") +
                           ", and failed: " + t.failure,
                       "The words of the server are in parentheses."});
    }
    for (auto const& s : instances) {
        check_state(all, s);
        check_services(all, s);
        check_round_trips(all, s, ttl);
        for (auto const& node : s.nodes) {
            check_state(all, node);
            check_services(all, node);
        }
    }
    check_clocks(all, instances);
    std::stable_sort(all.begin(), all.end(),
                     [](finding const& a, finding const& b) { return a.level > b.level; });
    return all;
}

std::optional<lease_clock::time_point> next_vote(std::vector<instance_status> const& all,
                                                 lease_clock::time_point now) {
    constexpr auto never = lease_clock::time_point::max();
    auto first = never;
    auto lasts = false;
    std::size_t up = 0;
    for (auto const& i : all) {
        if (i.quarantined_until > now) first = std::min(first, i.quarantined_until);
        lasts = lasts || (i.state == instance_state::quarantined && i.quarantined_until == never);
        up += i.state == instance_state::up ? 1U : 0U;
    }
    if (first != never) return first;
    // The last of the quarantines may have ended since the try, so the next one shows more.
    if (!lasts || up > all.size() / 2) return now;
    return std::nullopt;
}

} // namespace holdfast::command
