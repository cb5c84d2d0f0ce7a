// The links to the nodes of a Cluster, and the owners of the hash slots.
#ifndef HOLDFAST_REDIS_CLUSTER_LINKS_HPP
#define HOLDFAST_REDIS_CLUSTER_LINKS_HPP

#include "protocol/cluster/cluster_guard.hpp"
#include "protocol/cluster/slot_map.hpp"
#include "redis/cluster/cluster_board.hpp"
#include "redis/cluster/cluster_link.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::redis {

class cluster_links {
public:
    using index = protocol::slot_map::index;
    static constexpr index none = protocol::slot_map::none;
    /// A node without slots is forgotten after this time.
    static constexpr std::chrono::seconds kept_unused{30};

    /// `options`: of each connection; the address is that of the Cluster.
    cluster_links(asio::any_io_executor const&, cluster_link_user&, connection_options const&,
                  location::stream_factory);

    /// True once there was a map.
    bool has_map() const { return has_map_; }
    std::size_t unserved() const { return map_.unserved(); }
    cluster_link* owner_of(unsigned slot) const {
        auto const node = map_.owner(slot);
        return node == none ? nullptr : at(link_of_node_[node]);
    }
    cluster_link* at(index i) const { return i < links_.size() ? links_[i].get() : nullptr; }
    /// The link to a node that another has named; made if there is none. Null if too many nodes
    /// were named, or if the address cannot be used.
    cluster_link* named(std::string_view host, std::uint16_t port);

    /// Visits all links. `visit` may make links, which are not visited.
    template <class Visit>
    void for_each(Visit&& visit) const {
        auto const size = links_.size();
        for (std::size_t i = 0; i < size; ++i) {
            if (links_[i]) visit(*links_[i]);
        }
    }
    /// Visits the primaries that own slots.
    template <class Visit>
    void for_each_owner(Visit&& visit) const {
        for_each([&](cluster_link& l) {
            if (l.slots() > 0) visit(l);
        });
    }
    template <class Test>
    bool any_owner(Test&& test) const {
        auto found = false;
        for_each_owner([&](cluster_link& l) { found = found || test(l); });
        return found;
    }

    /// Connects to the configured nodes, so that they can be asked for the map.
    void use_seeds();
    /// A map may name a thousand nodes, and each may be out of reach. So only some links are being
    /// connected at a time: the process needs descriptors for its other work.
    bool may_connect() const noexcept;
    void connect_waiting() noexcept;
    /// Takes a map. `from`: the node that was asked for it, at `asked`. True if a slot that had an
    /// owner has another one.
    bool take(protocol::slot_map, cluster_link& from, lease_clock::time_point asked);
    /// The word of this node, that another one is a primary, ends a doubt.
    bool may_vouch(cluster_link const& by) const;
    /// The node `by` has named the owner of the slot. Null if the owner cannot be used. `changed`
    /// is set if the owner is another one than before.
    cluster_link* move_slot(cluster_link const& by, unsigned slot, std::string_view host,
                            std::uint16_t port, bool& changed);
    /// The node is a replica now.
    void demoted(cluster_link const&) noexcept;
    /// Ends links that are of no use any more. `leaving(cluster_link&)` is called before.
    template <class Leaving>
    void drop_unused(lease_clock::time_point now, Leaving&& leaving) {
        auto dropped = false;
        for (auto& l : links_) {
            if (!l || !is_unused(*l, now)) continue;
            dropped = true;
            leaving(*l);
            remember(*l);
            for_each([&](cluster_link& o) {
                if (o.predecessor() == l->number()) o.forget_predecessor();
            });
            l->connection().stop();
            l.reset();
        }
        if (dropped) connect_waiting(); // the links that have gone may have been being connected
    }

    std::vector<cluster_board::node> board() const;
    /// The two primaries whose clocks differ most, if certainly by more than clock_warning.
    std::string clocks_apart() const;

private:
    /// Nodes that redirects name in addition to those of the map.
    static constexpr std::size_t most_named = 64;
    static constexpr std::size_t most_remembered = 1024;
    static constexpr std::ptrdiff_t most_connecting = 64;

    cluster_link* make(protocol::cluster_node);
    cluster_link* find(std::string_view host, std::uint16_t port) const;
    cluster_link* find_for(protocol::cluster_node const&);
    connection_options options_for(protocol::cluster_node const&) const;
    std::string tls_name_for(protocol::cluster_node const&) const;
    bool is_unused(cluster_link const&, lease_clock::time_point now) const;
    void remember(cluster_link const&);
    void count_slots(std::vector<unsigned>& counts) noexcept;

    asio::any_io_executor executor_;
    cluster_link_user& user_;
    connection_options const options_;
    location::stream_factory const factory_;
    std::vector<std::unique_ptr<cluster_link>> links_;
    protocol::slot_map map_;
    std::vector<index> link_of_node_; ///< by the index of the node in the map
    bool has_map_ = false;
    std::map<std::string, protocol::ownership_guard, std::less<>> remembered_; ///< by node id
};

} // namespace holdfast::redis

#endif
