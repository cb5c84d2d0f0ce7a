#include "redis/cluster/cluster_board.hpp"

#include <algorithm>

namespace holdfast::redis {

namespace {

/// The state of a Cluster with these primaries: the best of theirs.
instance_state best_of(std::vector<instance_status> const& nodes) {
    for (auto const s :
         {instance_state::up, instance_state::quarantined, instance_state::unreplicated,
          instance_state::suspect, instance_state::connecting}) {
        if (std::ranges::any_of(nodes, [s](auto const& n) { return n.state == s; })) return s;
    }
    return instance_state::down;
}

void add_degradations(instance_status& to, instance_status const& node) {
    for (auto const& d : node.degradations) {
        auto const same = [&](auto const& known) { return known.kind == d.kind; };
        if (std::ranges::any_of(to.degradations, same)) continue;
        to.degradations.push_back({.kind = d.kind, .message = node.address + ": " + d.message});
    }
}

} // namespace

instance_status cluster_board::status() const {
    std::vector<node> nodes;
    instance_status s;
    std::string foreign, untold;
    unsigned unserved = 0;
    auto has_map = false;
    errc problem{};
    {
        std::lock_guard const lock(mutex_);
        nodes = nodes_;
        s.address = address_;
        s.message = message_;
        foreign = foreign_;
        untold = untold_;
        s.pending_releases = unrouted_;
        if (!clocks_apart_.empty()) {
            s.degradations.push_back({.kind = degradation::clocks_apart, .message = clocks_apart_});
        }
        unserved = unserved_;
        has_map = has_map_;
        problem = cause_;
    }
    std::vector<instance_status> asked;
    for (auto const& n : nodes) {
        auto status = n.status->status();
        status.slots = n.slots;
        s.connections += status.connections;
        s.pending_releases += status.pending_releases;
        add_degradations(s, status);
        if (s.server.empty()) s.server = status.server;
        if (s.tls.empty()) s.tls = status.tls;
        if (s.tls_problem.empty()) s.tls_problem = status.tls_problem;
        if (n.slots > 0) {
            s.nodes.push_back(std::move(status));
        } else {
            asked.push_back(std::move(status));
        }
    }
    auto const& members = has_map ? s.nodes : asked;
    s.state = best_of(members);
    // Without a map, a node that is up is of no use yet.
    if (!has_map && s.state != instance_state::down) s.state = instance_state::connecting;
    if (problem != errc{}) s.state = instance_state::down;
    auto const fault =
        std::ranges::find_if(members, [](auto const& n) { return n.state != instance_state::up; });
    if (problem != errc{}) {
        s.reason = make_error_code(problem);
    } else if (s.state != instance_state::up && fault != members.end()) {
        s.reason = fault->reason;
        s.quarantined_until = fault->quarantined_until;
        if (s.message.empty()) s.message = fault->address + ": " + fault->message;
    } else if (has_map && fault != members.end()) {
        s.message = fault->address + ": " + fault->message;
    }
    auto const add = [&](std::string const& text) {
        if (text.empty()) return;
        if (!s.message.empty()) s.message += "; ";
        s.message += text;
    };
    if (has_map && unserved > 0 && problem == errc{})
        add(std::to_string(unserved) + " slots have no primary");
    add(foreign);
    add(untold);
    return s;
}

} // namespace holdfast::redis
