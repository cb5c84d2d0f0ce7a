// The commands that a Cluster delays until a node can execute them. Their answers are outstanding.
#ifndef HOLDFAST_REDIS_DELAYED_COMMANDS_HPP
#define HOLDFAST_REDIS_DELAYED_COMMANDS_HPP

#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>

#include "protocol/cluster/cluster_patience.hpp"
#include "redis/wire/pipeline.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace holdfast::redis {

struct delayed_command {
    pending_command command;
    protocol::cluster_obstacle obstacle{};
    /// Not tried again before this.
    lease_clock::time_point next{};
    /// Then it is answered as not executed.
    lease_clock::time_point until{};
};

class delayed_commands {
public:
    void add(delayed_command w) { all_.push_back(std::move(w)); }
    /// True if no command waits that could still be answered.
    bool settled() const {
        return std::ranges::all_of(all_, [](auto const& w) { return w.command.answered; });
    }

    /// Calls `visit(delayed_command&)` for each command. True: the command stays. `visit` may add
    /// commands, which are not visited, but must not call visit_all().
    template <class Visit>
    void visit_all(Visit&& visit) {
        if (std::exchange(visiting_, true)) return;
        auto const size = all_.size();
        for (std::size_t i = 0; i < size; ++i) {
            auto w = std::move(all_[i]);
            if (visit(w)) all_[i] = std::move(w);
        }
        std::erase_if(all_, [](auto const& w) { return !w.command.owner; });
        visiting_ = false;
    }

    /// When the next command is to be tried or answered.
    lease_clock::time_point wake(lease_clock::time_point now) const {
        auto first = lease_clock::time_point::max();
        for (auto const& w : all_) {
            first = std::min(first, w.next > now ? std::min(w.next, w.until) : w.until);
        }
        return first;
    }
    void clear() noexcept { all_.clear(); }

private:
    std::vector<delayed_command> all_;
    bool visiting_ = false;
};

} // namespace holdfast::redis

#endif
