// The nodes of a Cluster that the client knows, and the owners of the hash slots.
#ifndef HOLDFAST_REDIS_NODE_TABLE_HPP
#define HOLDFAST_REDIS_NODE_TABLE_HPP

#include "protocol/cluster/cluster_guard.hpp"
#include "protocol/cluster/slot_map.hpp"
#include "redis/cluster/cluster_board.hpp"
#include "redis/cluster/cluster_node.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::redis {

class node_table {
public:
    using index = protocol::slot_map::index;
    static constexpr index none = protocol::slot_map::none;
    /// A node without slots is forgotten after this time.
    static constexpr std::chrono::seconds unused_limit{30};

    /// `options`: of each connection; the address is that of the Cluster.
    node_table(asio::any_io_executor const&, cluster_node_user&, connection_options const&,
               location::stream_factory);

    /// True once there was a map.
    bool has_map() const { return has_map_; }
    std::size_t unserved() const { return map_.unserved(); }
    /// Changes, almost certainly, when a slot gets another owner.
    std::uint64_t layout() const;
    cluster_node* owner_of(unsigned slot) const {
        auto const node = map_.owner(slot);
        return node == none ? nullptr : at(places_[node]);
    }
    cluster_node* at(index i) const { return i < nodes_.size() ? nodes_[i].get() : nullptr; }
    /// The node that another has named; made if there is none. Null if too many nodes
    /// were named, or if the address cannot be used.
    cluster_node* named(std::string_view host, std::uint16_t port);

    /// Visits all nodes. `visit` may make nodes, which are not visited.
    template <class Visit>
    void for_each(Visit&& visit) const {
        auto const size = nodes_.size();
        for (std::size_t i = 0; i < size; ++i) {
            if (nodes_[i]) visit(*nodes_[i]);
        }
    }
    /// Visits the primaries that own slots.
    template <class Visit>
    void for_each_owner(Visit&& visit) const {
        for_each([&](cluster_node& n) {
            if (n.slots() > 0) visit(n);
        });
    }
    template <class Test>
    bool any_owner(Test&& test) const {
        auto found = false;
        for_each_owner([&](cluster_node& n) { found = found || test(n); });
        return found;
    }

    /// Connects to the configured nodes, so that they can be asked for the map.
    void use_seeds();
    /// A map may name a thousand nodes, and each may be out of reach. So only some are being
    /// connected at a time: the process needs descriptors for its other work.
    bool may_connect() const noexcept;
    void connect_waiting() noexcept;
    /// Takes a map. `from`: the node that was asked for it, at `asked`. True if a slot that had an
    /// owner has another one.
    bool take(protocol::slot_map, cluster_node& from, lease_clock::time_point asked);
    /// The word of this node, that another one is a primary, ends a doubt.
    bool may_vouch(cluster_node const& by) const;
    /// The node `by` has named the owner of the slot. Null if the owner cannot be used. `changed`
    /// is set if the owner is another one than before.
    cluster_node* move_slot(cluster_node const& by, unsigned slot, std::string_view host,
                            std::uint16_t port, bool& changed);
    /// The node is a replica now.
    void demoted(cluster_node const&) noexcept;
    /// Drops nodes that are of no use any more. `leaving(cluster_node&)` is called before.
    template <class Leaving>
    void drop_unused(lease_clock::time_point now, Leaving&& leaving) {
        auto dropped = false;
        for (auto& n : nodes_) {
            if (!n || !is_unused(*n, now)) continue;
            dropped = true;
            leaving(*n);
            remember(*n);
            for_each([&](cluster_node& o) {
                if (o.predecessor() == n->number()) o.forget_predecessor();
            });
            n->link().stop();
            n.reset();
        }
        if (dropped) connect_waiting(); // those that have gone may have been being connected
    }

    std::vector<cluster_board::node> board() const;
    /// The two primaries whose clocks differ most, if certainly by more than clock_warning.
    std::string clocks_apart() const;

private:
    /// Nodes that redirects name in addition to those of the map.
    static constexpr std::size_t most_named = 64;
    static constexpr std::size_t most_remembered = 1024;
    static constexpr std::ptrdiff_t most_connecting = 64;

    cluster_node* make(protocol::node_address);
    cluster_node* find(std::string_view host, std::uint16_t port) const;
    cluster_node* find_for(protocol::node_address const&);
    connection_options options_for(protocol::node_address const&) const;
    std::string tls_name_for(protocol::node_address const&) const;
    bool is_unused(cluster_node const&, lease_clock::time_point now) const;
    void remember(cluster_node const&);
    void count_slots(std::vector<unsigned>& counts) noexcept;

    asio::any_io_executor executor_;
    cluster_node_user& user_;
    connection_options const options_;
    location::stream_factory const factory_;
    std::vector<std::unique_ptr<cluster_node>> nodes_;
    protocol::slot_map map_;
    std::vector<index> places_; ///< by the index of the node in the map
    bool has_map_ = false;
    std::map<std::string, protocol::ownership_guard, std::less<>> remembered_; ///< by node id
};

} // namespace holdfast::redis

#endif
