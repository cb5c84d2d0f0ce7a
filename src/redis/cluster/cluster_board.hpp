// The status of a Cluster, for users on any thread.
#ifndef HOLDFAST_REDIS_CLUSTER_BOARD_HPP
#define HOLDFAST_REDIS_CLUSTER_BOARD_HPP

#include <holdfast/client_stats.hpp>
#include <holdfast/error.hpp>

#include "redis/server/status_board.hpp"

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::redis {

/// @par Thread safety  Safe.
class cluster_board {
public:
    struct node {
        std::shared_ptr<status_board const> status;
        unsigned slots = 0; ///< 0: the node is only asked for the map
    };

    explicit cluster_board(std::string address)
        : address_(std::move(address)) {}

    instance_status status() const;

    void set_nodes(std::vector<node> nodes) {
        std::lock_guard const lock(mutex_);
        nodes_.swap(nodes);
    }
    /// Why there is no map, or why the Cluster is not used. errc{}: it is used.
    void set_problem(errc cause, std::string_view message) {
        std::lock_guard const lock(mutex_);
        cause_ = cause;
        message_ = message;
    }
    void set_has_map(unsigned unserved_slots) {
        std::lock_guard const lock(mutex_);
        has_map_ = true;
        unserved_ = unserved_slots;
    }
    /// Empty: no clocks of nodes are known to be apart.
    void set_clocks_apart(std::string text) {
        std::lock_guard const lock(mutex_);
        clocks_apart_ = std::move(text);
    }
    /// A node belongs to another Cluster. Empty: none is known to.
    void set_foreign(std::string text) {
        std::lock_guard const lock(mutex_);
        foreign_ = std::move(text);
    }
    /// A node does not report all that it is asked beside the map. Empty: it does.
    void set_untold(std::string text) {
        std::lock_guard const lock(mutex_);
        untold_ = std::move(text);
    }
    void set_unrouted_releases(std::size_t count) {
        std::lock_guard const lock(mutex_);
        unrouted_ = count;
    }

private:
    mutable std::mutex mutex_;
    std::string address_;
    std::vector<node> nodes_;
    errc cause_{};
    std::string message_, foreign_, untold_, clocks_apart_;
    bool has_map_ = false;
    unsigned unserved_ = 0;
    std::size_t unrouted_ = 0;
};

} // namespace holdfast::redis

#endif
