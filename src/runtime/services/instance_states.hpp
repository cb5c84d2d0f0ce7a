// The states of the instances that the observer was notified last.
#ifndef HOLDFAST_RUNTIME_INSTANCE_STATES_HPP
#define HOLDFAST_RUNTIME_INSTANCE_STATES_HPP

#include <holdfast/client_stats.hpp>

#include "runtime/services/event_sink.hpp"

#include <string>
#include <vector>

namespace holdfast::runtime {

/// @par Thread safety  On the executor alone.
class instance_states {
public:
    /// Tells of each instance, and of each node of a Cluster, whose state has changed since the
    /// last call. A new one counts as one that was connecting.
    void notify_changes(std::vector<instance_status> const& now, event_sink const&);

private:
    struct member {
        std::string address;
        std::vector<member> nodes{};
        instance_state state = instance_state::connecting;
    };

    static void notify_change(member& known, instance_status const&, event_sink const&);

    std::vector<member> known_;
};

} // namespace holdfast::runtime

#endif
