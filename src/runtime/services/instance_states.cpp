#include "runtime/services/instance_states.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace holdfast::runtime {

void instance_states::notify_changes(std::vector<instance_status> const& now,
                                     event_sink const& events) {
    if (known_.empty()) {
        std::vector<member> all;
        for (auto const& each : now) all.push_back({.address = each.address});
        known_ = std::move(all);
    }
    for (std::size_t i = 0; i < now.size(); ++i) notify_change(known_[i], now[i], events);
}

void instance_states::notify_change(member& known, instance_status const& now,
                                    event_sink const& events) {
    std::erase_if(known.nodes, [&](member const& old) {
        return std::none_of(now.nodes.begin(), now.nodes.end(), [&](instance_status const& node) {
            return node.address == old.address;
        });
    });
    for (auto const& node : now.nodes) {
        auto it = std::find_if(known.nodes.begin(), known.nodes.end(),
                               [&](member const& m) { return m.address == node.address; });
        if (it == known.nodes.end()) it = known.nodes.insert(it, member{.address = node.address});
        notify_change(*it, node, events);
    }
    if (known.state == now.state) return;
    events.changed(now, std::exchange(known.state, now.state));
}

} // namespace holdfast::runtime
